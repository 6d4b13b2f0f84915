"""The SUT of ONNX Runtime: conversions are kept, refused or made again, and no token ends or pads
an answer that the cell does not end there.
"""

import numpy as np
import pytest

from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.frameworks import run_module, tiny_workload
from tests.support.long import LONG

pytestmark = LONG


@pytest.fixture(scope="module")
def ran(interpreter, tmp_path_factory):
    """What tests/sut/onnxruntime_cases.py found."""
    root = tmp_path_factory.mktemp("onnxruntime")
    python = interpreter(SUTS["onnxruntime"].environment)
    workloads = {name: tiny_workload("onnxruntime", name, root) for name in ("bert", "mistral")}
    content = {"folder": str(root), "workloads": workloads}
    run_module(python, "tests.sut.onnxruntime_cases", "onnxruntime", root / "spec.json", content)
    return read_json(root / "found.json")


def test_a_model_is_converted_once_and_then_read_from_the_cache(ran):
    assert ran["first"] == {"hits": 0, "misses": 1, "folders": ["bert"]}
    assert ran["second"] == {"hits": 1, "misses": 1, "folders": ["bert"]}


def test_a_conversion_that_was_killed_is_made_again(ran):
    assert ran["after a killed one"] == {"misses": 1, "folders": ["bert"]}


@pytest.mark.parametrize("which", ["ends", "pads"])
def test_an_answer_goes_on_after_the_token_that_the_library_takes_for_an_end(ran, which):
    """The token is one of the answer's own."""
    assert ran[which]["token"] in ran[which]["tokens"][0][:-1]
    assert ran[which]["tokens"] == ran["usual"]["tokens"]
    np.testing.assert_allclose(ran[which]["largest"], ran["usual"]["largest"], rtol=1e-4)


def test_an_answer_ends_at_an_end_token_of_the_cell(ran):
    assert ran["stopped"]["counts"] == [3, 3]
    usual = ran["usual"]["largest"][0]
    for row in ran["stopped"]["largest"]:
        np.testing.assert_allclose(row, [*usual[:3], 0, 0, 0], rtol=1e-4)


def test_a_prompt_may_end_with_the_token_that_pads(ran):
    assert ran["prompt"]["padded"] == ran["prompt"]["alone"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "llama", "rope_scaling": {"rope_type": "linear"}}, "(linear) of a llama"),
        ({"sliding_window": 8}, "ignores the sliding window of 8 tokens"),
        ({"vocab_size": 256}, "the vocabulary is as large as the intermediate_size"),
        ({"model_type": "phi3", "vocab_size": 512}, "as large as the width of both gates"),
        ({"head_dim": 12}, "heads of 12 numbers"),
        ({"model_type": "olmo"}, "computes other norms"),
    ],
)
def test_a_model_that_the_builder_would_change_is_refused(ran, changes, words):
    (reasons,) = [each for given, each in ran["faults"] if given == changes]
    assert any(words in reason for reason in reasons), reasons


def test_a_usual_model_is_not_refused(ran):
    assert ran["faults of mistral"] == []
