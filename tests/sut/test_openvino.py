"""The SUT of OpenVINO: the settings that its programs report, tokens that are streamed, and
sequences that are longer than the model.
"""

import os

import pytest

from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.frameworks import run_module, tiny_workload
from tests.support.long import LONG

pytestmark = LONG


@pytest.fixture(scope="module")
def ran(interpreter, tmp_path_factory):
    """What tests/sut/openvino_cases.py found."""
    root = tmp_path_factory.mktemp("openvino")
    python = interpreter(SUTS["openvino"].environment)
    workloads = {name: tiny_workload("openvino", name, root) for name in ("bert", "mistral", "sam")}
    changes = {"max_position_embeddings": 14}  # prompts have 9 tokens, and answers 6
    content = {"folder": str(root), "workloads": workloads, "changes": changes}
    run_module(python, "tests.sut.openvino_cases", "openvino", root / "spec.json", content)
    return read_json(root / "found.json")


@pytest.mark.parametrize("of", ["bert", "mistral"])
def test_a_program_reports_the_settings_of_float32(ran, of):
    found = ran["bert"]["openvino_settings"] if of == "bert" else ran["mistral"]["settings"]
    for name in ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION"):
        assert found[name] == "f32", name
    assert int(found["INFERENCE_NUM_THREADS"]) == len(os.sched_getaffinity(0))
    assert found["EXECUTION_DEVICES"] == "CPU"


def test_no_prompt_is_kept(ran):
    assert ran["mistral"]["settings"]["enable_prefix_caching"] == "false"


def test_the_operations_of_a_call_are_counted(ran):
    """Two layers of 64 and 256 neurons on two rows of 16 tokens, at least."""
    assert ran["bert"]["flops"] >= 2 * 2 * 2 * 16 * (4 * 64 * 64 + 2 * 64 * 256)


def test_each_token_is_handed_over(ran):
    assert ran["mistral"]["streamed"] == ran["mistral"]["tokens"]


def test_a_stream_ends_when_it_is_told_to(ran):
    assert ran["mistral"]["stopped"] == ran["mistral"]["tokens"][1][:2]


def test_tokens_of_several_prompts_are_refused_in_the_words_of_the_library(ran):
    assert "streaming is possible only with batch size=1" in ran["mistral"]["several"]


def test_the_logits_of_the_cache_choose_the_tokens_of_the_pipeline(ran):
    assert ran["mistral"]["likeliest"] == ran["mistral"]["tokens"]


def test_segment_anything_is_read_from_a_file_of_onnx_that_is_not_kept(ran):
    assert ran["sam"]["logits"] < 1e-4 and ran["sam"]["scores"] < 1e-4
    assert ran["sam"]["files"] == ["model.bin", "model.xml"]


def test_a_profile_has_the_layers_of_a_program_and_refuses_a_pipeline_without_any(ran):
    assert {"matrix product", "normalisation"} <= set(ran["profile"]["kinds"])
    assert ran["profile"]["refused"]["bert"] == ""
    assert "LLMPipeline of openvino-genai" in ran["profile"]["refused"]["mistral"]


def test_sequences_beyond_the_positions_of_the_model_are_refused(ran):
    assert ran["faults of mistral"] == []
    (fault,) = ran["faults"]
    assert "a model of 14 positions, sequences have 15" in fault
