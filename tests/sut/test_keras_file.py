"""Files that Keras saved answer alike on every backend, and are measured from end to end."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from compliance import rules
from compliance.checks.run.evidence import findings
from compliance.scoring import accuracy, loss_curve
from formats.evidence import Evidence
from formats.writing import write_json
from harness.inputs import checkpoint, dataset
from harness.inputs.architectures import keras_file
from scenarios.worker.queries.answers import pack
from sut.contract import Workload
from sut.registry import framework_of, spec_of
from tests.support.cells import measure, request
from tests.support.files import read_json
from tests.support.frameworks import run_module
from tests.support.long import LONG

pytestmark = LONG

SUTS = (
    "keras3-jax",
    "keras3-tensorflow",
    "keras3-tensorflow-graph",
    "keras3-torch",
    "keras3-openvino",
)
TRAINERS = SUTS[:4]
FILES = ("cnn", "text", "two", "called", "own", "rows")
JUDGES = ("keras-file-on-tensorflow", "keras-file-on-torch")
ROWS = 8  # times the 5,000 points of "rows" are 40,000
ROUND = rules.load(rules.CURRENT)


@pytest.fixture(scope="session")
def files(interpreter, tmp_path_factory):
    """A folder with the files of tests/sut/keras_models.py."""
    root = tmp_path_factory.mktemp("keras-files")
    python = interpreter("keras3-jax")
    run_module(
        python, "tests.sut.keras_models", "keras3-jax", root / "spec.json", {"folder": str(root)}
    )
    return root


def cell_of(files, name, sut, **flags):
    if name == "text":
        flags["seq_len"] = 9
    if name == "own":
        flags["custom"] = files / "layers.py"
    return request(files, sut=sut, model=str(files / f"{name}.keras"), **flags)


@pytest.fixture(scope="session")
def answered(files, interpreter):
    """(SUT or reference, name of a file, precision) → its answers, and its evidence of one batch
    and of two. One process answers all files.
    """
    known = set()

    def specification(name, file, precision):
        cell = cell_of(files, file, SUTS[0], scenario="Offline", batch_size=ROWS)
        inputs = dataset.prepare(cell.model, cell.size, ROWS, None, files / "cache")
        spec = spec_of(name)
        workload = Workload(
            model=cell.model.name,
            task="predict",
            config={
                "model": dict(cell.size.config),
                "classes": dict(cell.model.classes),
                **inputs.description.config,
            },
            checkpoint=checkpoint.of_file(cell.model, files / "cache").path,
            precision=precision,
            batch_size=ROWS,
            device="cpu",
            backend=spec.backend,
            execution=spec.execution,
        )
        return {
            "sut": name,
            "workload": {**asdict(workload), "checkpoint": str(workload.checkpoint)},
            "inputs": str(inputs.path),
            "out": str(files / f"{name}-{file}-{precision}.npz"),
        }

    def answer(name, file, precision):
        if (name, precision) not in known:
            specifications = [specification(name, each, precision) for each in FILES]
            python = interpreter(spec_of(name).environment)
            served_by = f"keras3-{spec_of(name).backend}"  # a reference has no module for bert
            run_module(
                python, "tests.sut.keras_answers", served_by, files / "spec.json", specifications
            )
            known.add((name, precision))
        path = files / f"{name}-{file}-{precision}.npz"
        with np.load(path) as arrays:
            return dict(arrays), read_json(path.with_suffix(".json"))

    return answer


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("sut", SUTS)
@pytest.mark.parametrize("precision", ["float32"])
def test_every_backend_answers_as_the_reference_and_broken_answers_are_seen(
    files, answered, sut, file, precision
):
    cell = cell_of(files, file, sut, precision=precision)
    expected, _ = answered(JUDGES[0], file, "float64")
    answers, seen = answered(sut, file, precision)
    tolerance, reason = keras_file.limits(cell.size, precision, expected)
    assert not reason

    def score(arrays):
        rows, _ = pack(arrays, cell.model.answer_keys)
        payloads = {i: row.tobytes() for i, row in enumerate(rows)}
        keys = cell.model.answer_keys
        return accuracy.score("arrays", payloads, expected, tolerance, keys, None)

    assert score(answers).passed, score(answers)
    for change in ("permuted", "zeroed", *(["unmasked"] if file == "text" else ())):
        with np.load(files / f"{sut}-{file}-{precision}-{change}.npz") as broken:
            assert not score(dict(broken)).passed, change
    spec = spec_of(sut)
    framework = framework_of(sut)
    assert not findings(
        ROUND.evidence[spec.execution],
        *(Evidence(**each) for each in seen),
        spec.execution,
        framework,
    )
    for each in seen:
        assert each["precision"] == precision
        assert list(each["detail"]["weights"]) == [precision]


@pytest.mark.parametrize("file", FILES)
def test_two_backends_agree_in_float64_but_for_a_layer_that_has_only_float32(answered, file):
    (first, of_first), (other, of_other) = (answered(name, file, "float64") for name in JUDGES)
    for key, array in first.items():
        np.testing.assert_allclose(other[key], array, rtol=2.0**-22)
    for each in (*of_first, *of_other):
        assert each["precision"] == "float64"
        assert each["detail"]["in_float32"] == (["scale"] if file == "own" else [])


@pytest.mark.parametrize(("file", "scenario"), [("text", "SingleStream"), ("two", "Offline")])
def test_a_file_is_measured_from_end_to_end(files, file, scenario):
    cell = cell_of(files, file, "keras3-jax", scenario=scenario)
    result = measure(cell)
    assert (result.status, result.reason) == ("ok", "")
    assert result.accuracy.passed and result.accuracy.value < 0.5
    assert any("not measured for this model" in note for note in result.warnings)
    assert result.cell.weights == cell.model.file.digest[:12]


@pytest.mark.parametrize("file", ["cnn", "text", "two"])
@pytest.mark.parametrize("sut", TRAINERS)
def test_a_file_is_trained_by_its_own_losses_and_optimizer(files, sut, file):
    result = measure(cell_of(files, file, sut, scenario="Fit", duration=None))
    assert (result.status, result.reason) == ("ok", "")
    assert result.accuracy.passed, result.accuracy
    assert result.metrics["trained_parameters"] > 0


@pytest.mark.parametrize("case", ["skips_a_batch", "shuffles", "changes_the_files_rate"])
def test_a_file_that_is_trained_otherwise_is_seen_by_its_losses(files, interpreter, case):
    cell = cell_of(files, "two", "keras3-jax", scenario="Fit", duration=None)
    directory = Path(measure(cell).directory)
    job = read_json(directory / "raw" / "accuracy" / "job.json")
    folder = files / case
    folder.mkdir()
    write_json(folder / "job.json", {**job, "log_dir": str(folder)})
    python = interpreter("keras3-jax")
    specification = {str(folder / "job.json"): case}
    run_module(python, "tests.sut.fit_cases", "keras3-jax", files / "fit.json", specification)
    losses = read_json(folder / "steps.json")["losses"]
    tolerance = read_json(directory / "record.json")["accuracy"]["tolerance"]
    with np.load(directory / "reference.npz") as reference:
        assert not loss_curve.score(losses, reference["loss"], tolerance).passed


def test_code_that_lacks_a_layer_leaves_the_cell_unsupported_in_keras_words(files):
    other = files / "other.py"
    other.write_text("import keras\n")
    cell = request(files, sut="keras3-jax", model=str(files / "own.keras"), custom=other)
    result = measure(cell)
    assert result.status == "unsupported"
    assert "does not load the file: Could not locate class 'Scale'" in result.reason
