"""An architecture whose inputs are images and whose answers are masks: docs/extend/adding-a-model.md as it stands
there, measured by the real LoadGen.
"""

import json
from operator import itemgetter
from pathlib import Path

import pytest

from compliance import audit
from formats.checks import Verdict
from tests.documents import blocks, copy_of_the_source, insert, run
from tests.support.long import LONG, first_of_each

EXAMPLE = blocks("extend/adding-a-model.md")
COMMAND = EXAMPLE["model"]
SUT = "sut/native_numpy/mask.py"
ANSWER = EXAMPLE[SUT].partition("        return {")[2].partition("\n")[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source with the SUT of adding-a-sut.md, the architecture of adding-a-model.md, and a
    reference of the SUT's own text.
    """
    copy = copy_of_the_source(tmp_path_factory.mktemp("copy"))
    entry = blocks("extend/adding-a-sut.md")["registry"]
    insert(
        copy / "sut/registry.py",
        "SUTS: dict[str, SutSpec] = {",
        entry.replace("module=", 'reference="plain-numpy",\n        module='),
    )
    plain = entry.replace("native-numpy", "plain-numpy").replace("native_numpy", "plain_numpy")
    insert(copy / "sut/registry.py", "REFERENCES: dict[str, SutSpec] = {", plain)
    for path in (p for p in EXAMPLE if "/" in p):
        (copy / path).parent.mkdir(exist_ok=True)
        (copy / path).write_text(EXAMPLE[path])
    (copy / "sut/plain_numpy").mkdir()
    (copy / SUT.replace("native_numpy", "plain_numpy")).write_text(EXAMPLE[SUT])
    insert(
        copy / "harness/inputs/architectures/__init__.py",
        "ARCHITECTURES = {",
        EXAMPLE["architectures"],
    )
    return copy


@pytest.fixture(scope="module")
def offline(tree):
    """The cell in Offline: its reference is in the cache from here on."""
    return run(tree, COMMAND, "--duration", "0.5")


def test_a_architecture_is_a_model_file_a_module_a_line_and_a_file_for_each_sut():
    assert set(EXAMPLE) == {
        "harness/inputs/models/mask.toml",
        "harness/inputs/architectures/mask.py",
        "architectures",
        SUT,
        "model",
    }
    assert len(EXAMPLE["architectures"].splitlines()) == 1


@pytest.mark.parametrize("scenario", ["Offline", pytest.param("SingleStream", marks=LONG)])
def test_it_is_measured_judged_and_audited(tree, offline, scenario):
    cell = offline
    if scenario != "Offline":
        cell = run(tree, COMMAND.replace("Offline", scenario), "--duration", "0.5")
    assert (cell["status"], cell["reason"], cell["cell"]["scenario"]) == ("ok", "", scenario)
    assert (cell["cell"]["seq_len"], cell["cell"]["eos"]) == (None, None)
    accuracy = cell["accuracy"]
    assert (accuracy["metric"], accuracy["passed"]) == ("used_tolerance", True)
    assert accuracy["detail"]["mask_smallest_iou"] == 1.0
    checks = audit.audit(Path(cell["directory"])).checks_for("quick")
    assert not [c.line() for c in checks if c.verdict is Verdict.FAIL]


def test_its_record_tells_every_array_and_the_audit_holds_the_submission_to_it(offline):
    directory = Path(offline["directory"])
    record = json.loads((directory / "record.json").read_text())
    assert record["inputs"] == {"image": {"dtype": "float32", "shape": [8, 8, 3]}}
    assert record["answers"] == {
        "mask": {"dtype": "bool", "shape": [8, 8]},
        "weight": {"dtype": "float32", "shape": []},
    }
    stated = {name for name, value in record["qsl"].items() if value is not None}
    assert stated == {"samples", "performance_sample_count", "synthetic"}
    (measurements,) = directory.rglob("measurements.json")
    stated = json.loads(measurements.read_text())
    assert stated["input_data_types"] == "float32"
    measurements.write_text(json.dumps({**stated, "input_data_types": "int32"}))
    check = next(c for c in audit.audit(directory).checks if c.id == "measurements-of-the-record")
    measurements.write_text(json.dumps(stated))
    assert check.verdict is Verdict.FAIL
    assert check.detail == "input_data_types is 'int32'; the run has 'float32'"


MEAN = '"weight": weights.mean((1, 2))'
WRONG = {
    "a pixel flipped": (
        f'{{"mask": (weights > 0) ^ (np.arange(64).reshape(8, 8) == 9), {MEAN}}}',
        "mask smallest iou",
    ),
    "rows swapped": (f'{{"mask": (weights > 0)[::-1], {MEAN}}}', "mask smallest iou"),
    "a float changed": (f'{{"mask": weights > 0, {MEAN} + np.float32(0.01)}}', "weight error"),
    "not a number": (
        '{"mask": weights > 0, "weight": np.full(len(weights), np.nan, np.float32)}',
        "weight error",
    ),
}


@pytest.mark.parametrize(
    ("wrong", "metric"), first_of_each(WRONG.values(), key=itemgetter(1)), ids=WRONG
)
def test_a_wrong_answer_is_an_accuracy_failure(tree, offline, wrong, metric):
    assert offline["status"] == "ok"
    (tree / SUT).write_text(EXAMPLE[SUT].replace("{" + ANSWER, wrong))
    cell = run(tree, COMMAND, "--duration", "0.5")
    assert (cell["status"], cell["cause"]) == ("invalid", "accuracy")
    assert not cell["accuracy"]["passed"]
    detail = cell["accuracy"]["detail"]
    limits = {name: detail[f"{name}_limit"] for name in detail if f"{name}_limit" in detail}
    failed = [
        n.replace("_", " ")
        for n, limit in limits.items()
        if not (detail[n] <= limit if n.endswith("error") else detail[n] >= limit)
    ]
    assert metric in failed


def test_an_answer_of_another_type_is_told_in_one_sentence(tree, offline):
    assert offline["status"] == "ok"
    mean = "weights.mean((1, 2))"
    (tree / SUT).write_text(EXAMPLE[SUT].replace(mean, f"{mean}.astype(np.float64)"))
    cell = run(tree, COMMAND, "--duration", "0.5")
    sentence = (
        "the answer of sample 0 has 16 bytes, expected 8 of mask bool [8, 8] and 4 of weight"
        " float32 []"
    )
    assert cell["cause"] == "accuracy" and sentence in cell["reason"]
