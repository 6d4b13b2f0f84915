"""`conformance` finds released libraries that differ, on the real frameworks."""

import json

import pytest

from tests.support.commands import call
from tests.support.frameworks import run_module

pytestmark = pytest.mark.long


def rows(words, capfd):
    """(case, backend) → row of the document that the command prints."""
    code, out, error = call(["conformance", *words, "--json", "--quiet"], capfd)
    assert code == 0, error
    document = json.loads(out)
    assert document["versions"]
    return {(row["case"], row["backend"]): row for row in document["rows"]}


def test_a_symmetric_pad_of_pytorch_is_found_and_a_reflected_one_is_right(interpreter, capfd):
    found = rows(["--of", "keras", "--only", "^ops.pad$"], capfd)
    pad = "ops.pad(pad_width=[[0, 0], [2, 3], [1, 2]], mode={} on [2, 5, 4])"
    words = found[pad.format("symmetric"), "JAX"]["words"]
    assert "PyTorch in float64 and PyTorch agree" in words
    assert found[pad.format("reflect"), "PyTorch"]["verdict"] == "agrees"
    assert found["ops.pad()", "JAX"]["verdict"] != "differs"  # only PyTorch judges, which is wrong


def test_a_lost_delta_is_found(interpreter, capfd):
    found = rows(["--of", "keras", "--only", "^losses.Huber$"], capfd)
    assert found["losses.Huber(delta=3.0)", "JAX"]["verdict"] == "differs"
    assert found["losses.Huber()", "JAX"]["verdict"] == "agrees"


def test_windows_of_some_layers_are_found_from_their_first_layer_on(interpreter, capfd):
    found = rows(["--of", "keras-hub", "--only", "^qwen2$"], capfd)
    for backend in ("JAX", "TensorFlow", "PyTorch"):
        assert found["qwen2, plain", backend]["verdict"] == "agrees"
        windows = found["qwen2, windows of the last two layers", backend]
        assert windows["verdict"] == "differs"
        assert windows["layer"].startswith("layer 2 of 4")


def test_a_file_that_all_backends_compute_alike_agrees(interpreter, capfd, tmp_path):
    spec = tmp_path / "spec.json"
    python = interpreter("keras3-jax")
    run_module(python, "tests.sut.keras_models", "keras3-jax", spec, {"folder": str(tmp_path)})
    found = rows([str(tmp_path / "cnn.keras")], capfd)
    verdicts = {row["verdict"] for row in found.values()}
    assert verdicts == {"agrees"}, found["cnn.keras", "JAX"]["words"]
