"""Two references judge a `.keras` file if they agree. Else the reason names the first layer at which
they differ.
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from formats.evidence import Evidence
from formats.outcome import WorkerOutcome
from formats.writing import write_json
from harness.execution.environments import Environment
from harness.inputs import checkpoint, dataset
from harness.measurement import judges, reference
from harness.measurement.judges import difference
from tests.support.cells import Reporter, attempt, request
from tests.support.keras_files import dense

ON_TENSORFLOW, ON_TORCH = "keras-file-on-tensorflow", "keras-file-on-torch"
RIGHT = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
WRONG = RIGHT + 1
LAYERS = ("0.0|mix|Dense|[4]|[3]", "1.0|pool|AveragePooling1D|[3]|[3]")


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """(name of a reference → its answers, or why it has none) → the reference of the cell. The
    layers of a framework are right up to `pool`, whose values are the answers.
    """
    path = dense(tmp_path / "m.keras")
    cell = request(tmp_path, sut="keras3-jax", model=str(path), scenario="Offline", cache=tmp_path)
    inputs = dataset.prepare(cell.model, cell.size, 8, None, tmp_path)
    weights = checkpoint.of_file(cell.model, tmp_path)

    def judged(in_float32=(), jax=RIGHT, **answers):
        def worker(job, python, variables, watch):
            backend = job.workload.backend
            assert job.workload.precision == "float64"
            answer = answers[backend]
            if isinstance(answer, str):
                return WorkerOutcome("error", answer)
            detail = {"in_float32": in_float32 if backend == "torch" else []}
            outcome = WorkerOutcome("ok", evidence_after=Evidence(0, None, "float64", detail))
            np.savez(job.log_dir / "reference.npz", output_dense=answer)
            write_json(job.log_dir / "outcome.json", asdict(outcome))
            return outcome

        def program(module, environment, variables, words, folder):
            job, precision, _, out = words
            assert job.parent.parent.name == "references"
            assert (precision == "float32") is (variables["KERAS_BACKEND"] == "jax")
            values = (answers | {"jax": jax})[variables["KERAS_BACKEND"]]
            np.savez(out, **dict(zip(LAYERS, (RIGHT, values), strict=True)))
            return ""

        monkeypatch.setattr(reference.process, "run", worker)
        monkeypatch.setattr(judges.programs, "run", program)
        environment = Environment("core", Path("python"), "")
        made = attempt(cell, environment, inputs, weights)
        return reference.ensure(made, lambda name: environment, Reporter())

    return judged


def test_two_that_agree_judge_and_are_named(judged):
    made = judged(tensorflow=RIGHT, torch=RIGHT + 1e-7)
    assert made.path and made.agreeing == ("TensorFlow", "PyTorch")
    assert "output_dense_error" in made.limits
    assert made.notes == ()


def test_layers_in_float32_are_named(judged):
    made = judged(tensorflow=RIGHT, torch=RIGHT, in_float32=["scale"])
    assert made.notes == ("the reference on PyTorch computes in float64, but for scale in float32",)


@pytest.mark.parametrize(
    ("lacking", "judging"), [("tensorflow", "PyTorch"), ("torch", "TensorFlow")]
)
def test_if_one_lacks_an_operation_the_other_judges(judged, lacking, judging):
    made = judged(**{"tensorflow": RIGHT, "torch": RIGHT, lacking: "no rot90"})
    assert made.path and made.agreeing == ()
    (note,) = made.notes
    assert note.startswith(f"only {judging} judges the answers; ")
    assert note.endswith(": error: no rot90")


def test_if_both_lack_an_operation_nothing_judges_and_both_causes_are_given(judged):
    made = judged(tensorflow="no softmax", torch="no norm")
    assert made.path is None
    assert made.reason == "no reference: TensorFlow: error: no softmax; PyTorch: error: no norm"


@pytest.mark.parametrize(
    ("jax", "who"),
    [
        (RIGHT + 1e-5, "TensorFlow and JAX agree, PyTorch differs"),
        (WRONG, "PyTorch and JAX agree, TensorFlow differs"),
        (RIGHT - 1, "TensorFlow, PyTorch, JAX differ"),
    ],
)
def test_if_they_differ_none_judges_and_the_layer_is_named(judged, jax, who):
    made = judged(tensorflow=RIGHT, torch=WRONG, jax=jax)
    assert made.path is None
    assert made.reason == (
        f"no reference judges: {who} from the layer pool on (AveragePooling1D, [3] → [3])"
    )


@pytest.mark.parametrize("seen", [("TensorFlow",), ("PyTorch",), ("TensorFlow", "PyTorch")])
def test_without_a_layer_that_differs_none_is_named(seen):
    values = {framework: {LAYERS[0]: RIGHT} for framework in seen}
    assert difference("TensorFlow", "PyTorch", values) == (
        "TensorFlow and PyTorch differ, and no single layer shows it"
    )
