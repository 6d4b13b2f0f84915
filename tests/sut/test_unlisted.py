"""Folders of models that no file here describes, as Transformers saves them, measured by the
command.
"""

import json
from pathlib import Path

import pytest

from formats.writing import write_json
from harness import cli
from harness.inputs import models
from tests.conftest import CACHE
from tests.support.files import read_json
from tests.support.long import LONG

pytestmark = LONG
PROMPTS = ["a", "five words make this one", "no", "a longer prompt, so that rows are padded"]


_WINDOW = {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 1}


def measured(sut, folder, out, capsys):
    """The cell of uneven prompts in batches of two."""
    prompts = out / "prompts.txt"
    prompts.write_text("\n\n".join(PROMPTS))
    flags = {"--sut": sut, "--scenario": "Offline", "--batch-size": "2", "--duration": "0.5"}
    flags |= {"--weights": str(folder), "--dataset": str(prompts)}
    flags |= {"--out": str(out), "--cache": str(CACHE)}
    cli.main([word for flag in flags.items() for word in flag] + ["--json"])
    return json.loads(capsys.readouterr().out)["cells"][0]


@pytest.mark.parametrize(
    ("sut", "name"),
    [
        ("native-torch-eager", "qwen3"),
        ("native-torch-eager", "phi3"),
        ("keras3-jax", "gemma3"),
        ("native-torch-eager", "modernbert"),
        ("keras3-jax", "qwen3-moe"),
        ("native-jax", "qwen2"),
        ("native-jax", "helium"),
        ("native-jax", "granite"),
        ("keras3-openvino", "smollm3"),
        ("onnxruntime", "qwen3"),
        ("onnxruntime", "modernbert"),
        ("openvino", "smollm3"),
        ("openvino", "qwen3"),  # without an end token
        ("openvino", "modernbert"),
    ],
)
def test_an_unlisted_model_agrees_to_rounding(saved, tmp_path, capsys, sut, name):
    found = measured(sut, saved / name, tmp_path, capsys)
    assert (found["status"], found["reason"]) == ("ok", "")
    model = {"gemma3": "gemma3_text", "qwen3-moe": "qwen3_moe"}.get(name, name)
    assert (found["cell"]["model"], found["cell"]["size"]) == (model, "user")
    assert found["accuracy"]["passed"]
    assert found["accuracy"]["value"] < 5e-5
    if found["cell"]["task"] == "generate":
        assert found["accuracy"]["detail"]["equal_fraction"] == 1.0
    record = read_json(Path(found["directory"]) / "record.json")
    is_measured = name in models.names()
    assert any(f"was not measured for {model}" in note for note in record["notes"]) != is_measured


def changed(original, folder, changes):
    """A folder with the same weights and another config.json. None removes a key."""
    folder.mkdir()
    for file in original.glob("model*"):
        (folder / file.name).symlink_to(file)
    config = read_json(original / "config.json") | changes
    kept = {key: value for key, value in config.items() if value is not None}
    write_json(folder / "config.json", kept)
    return folder


def test_a_window_that_no_prompt_reaches_is_a_remark(saved, tmp_path, capsys):
    changes = {**_WINDOW, "layer_types": ["full_attention", "sliding_attention"]}
    folder = changed(saved / "qwen2", tmp_path / "folder", changes)
    found = measured("keras3-jax", folder, tmp_path, capsys)
    assert (found["status"], found["reason"]) == ("ok", "")
    words = "in 1 of 2 layers, and no window was reached (4096 tokens)"
    assert words in found["evidence"]["sentence"]


_LINEAR = {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}
_LLAMA_4 = {"rope_parameters": {"rope_theta": 1e4, "llama_4_scaling_beta": 0.1}}
_SOME_LAYERS = {**_WINDOW, "layer_types": ["full_attention", "sliding_attention"]}
_SHORT_WINDOW = {**_WINDOW, "sliding_window": 16, "layer_types": None}
_THREE_LAYERS = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}
_LACKING = {
    "keras3-jax": [
        ("phi3", {}, "KerasHub has no converter for huggingface/transformers models"),
        (
            "qwen3",
            _LINEAR,
            "KerasHub's converter does not read how rotary positions are scaled (linear)",
        ),
        (
            "qwen2",
            _SHORT_WINDOW,
            "KerasHub's QwenBackbone has another sliding window than config.json in 1 of 2 layers",
        ),
        (
            "gemma3",
            {"query_pre_attn_scalar": 7},
            "KerasHub's Gemma3Backbone does not scale queries by query_pre_attn_scalar 7",
        ),
        (
            "qwen3",
            {"num_hidden_layers": 1},
            "KerasHub's converter to Qwen3CausalLM does not read 11 tensors of the folder, such as",
        ),
    ],
    "native-torch-eager": [
        (
            "qwen3",
            _THREE_LAYERS,
            "the folder lacks 11 tensors that Transformers' Qwen3ForCausalLM has",
        ),
        (
            "qwen3",
            {"model_type": "of-tomorrow"},
            "Transformers does not load this of-tomorrow: The checkpoint you are trying to load",
        ),
    ],
    "native-jax": [
        ("phi3", {}, "lacks the type phi3"),
        ("qwen2", _LLAMA_4, "lacks llama_4_scaling_beta 0.1 of rotary positions"),
        ("qwen2", _SOME_LAYERS, "lacks a sliding window of 4096 in some layers"),
        ("qwen2", _LINEAR, "lacks scaled rotary positions (linear; it has llama3)"),
    ],
    "onnxruntime": [("phi3", {}, "ignores the sliding window of")],
}
"""SUT → (folder, what its config.json says, what the SUT says)."""


@pytest.mark.parametrize(
    ("sut", "name", "changes", "reason"),
    [(sut, *row) for sut, rows in _LACKING.items() for row in rows],
)
def test_a_sut_that_lacks_it_says_why(saved, tmp_path, capsys, sut, name, changes, reason):
    found = measured(sut, changed(saved / name, tmp_path / "folder", changes), tmp_path, capsys)
    assert (found["status"], reason in found["reason"]) == ("unsupported", True), found["reason"]
