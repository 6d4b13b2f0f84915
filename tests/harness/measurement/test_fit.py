"""Scenario Fit on the mock: what an honest training leaves, what a broken one is called, and what is seen of changed files."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from compliance import audit
from compliance.findings.check import Verdict
from harness import cli, result, terminal
from harness.cell import Result
from harness.comparison import compare, history, tables
from harness.errors import UsageError
from harness.measurement import run
from harness.report import content
from harness.tree import training
from tests.support.cells import Reporter, request

MILLISECONDS = 2.0


def trained(out, **options):
    return run.run(request(out, scenario="Fit", duration=None, options={"latency-ms": MILLISECONDS} | options), Reporter(), 0)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run directory that no test may change."""
    found = trained(tmp_path_factory.mktemp("fit"))
    assert (found.status, found.reason) == ("ok", "")
    return found


@pytest.fixture
def copy(good, tmp_path):
    """The same, to be changed."""
    return shutil.copytree(good.directory, tmp_path / "quick-1")


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def failed(directory, level="quick"):
    return {check.id for check in audit.audit(directory).checks_for(level) if check.verdict is Verdict.FAIL}


def test_a_training_is_timed_judged_and_audited(good):
    assert (good.cell.task, good.cell.scenario, good.loadgen, good.metric.unit) == ("fit", "Fit", None, "ms/step")
    assert good.metric.value == good.metrics["ms_per_step"] >= MILLISECONDS
    assert good.metrics["samples_per_second"] == pytest.approx(1e3 * good.cell.batch_size / good.metric.value)
    assert good.measured == {"samples": 20 * good.cell.batch_size, "batches": 20, "padding_fraction": 0}
    assert good.accuracy["passed"] and good.accuracy["detail"]["steps"] == 21
    assert good.levels == ("quick",) and not failed(Path(good.directory))
    assert failed(Path(good.directory), "valid") == {"training-step-count"}


def test_a_result_is_derived_again_from_the_files_alone(good):
    assert asdict(result.derive(Path(good.directory))) | {"audit": {}} == asdict(good) | {"audit": {}}


def test_what_a_result_prints_names_steps(good):
    lines = dict(terminal.rows(good))
    assert "LoadGen" not in lines and "ms/step" in lines["speed"] and "samples/s" in lines["speed"]
    assert lines["measured"].startswith(f"20 steps of {good.cell.batch_size} samples of 32 tokens, after a first one of ")


@pytest.mark.parametrize(
    ("wrong", "cause", "words"),
    [
        ("learning-rate", "accuracy", "training: losses: "),
        ("skip-batch", "accuracy", "training: losses: "),
        ("shuffle", "accuracy", "training: losses: "),
        ("frozen", "accuracy", "training: losses: "),
        ("other-when-timed", "accuracy", "training: losses while timed: "),
        ("early-end", "speed", "training: end of the window: "),
    ],
)
def test_a_broken_training_is_invalid_and_says_why(tmp_path, wrong, cause, words):
    found = trained(tmp_path, **{"wrong-fit": wrong, "latency-ms": 75.0 if wrong == "early-end" else MILLISECONDS})
    assert (found.status, found.cause) == ("invalid", cause) and found.reason.startswith(words)
    assert not found.ranked


def changed(name, change):
    """Edits the JSON file `name` of a run directory."""
    return lambda directory: edit(directory / name, change)


def faster(document):
    document["marks_ns"] = [mark - 1_000_000 for mark in document["marks_ns"]]


def both_copies(change):
    """Edits the timed run's steps and their copy alike, as a careful forger would."""

    def apply(directory):
        for name in ("raw/performance/steps.json", "training/performance/steps.json"):
            edit(directory / name, change)

    return apply


def shortened(document):
    document["marks_ns"] = document["marks_ns"][:-1]


def earlier_end(document):
    document["closed_ns"] -= 5_000_000


def sooner_started(document):
    document["started_ns"] += 5_000_000


def other_loss(document):
    document["losses"][5] += 0.5


TAMPERED = {
    "a step file without its copy": (changed("raw/performance/steps.json", faster), "training-files"),
    "a step less": (both_copies(shortened), "training-record"),
    "an earlier end": (both_copies(earlier_end), "training-steps"),
    "a later beginning": (both_copies(sooner_started), "training-steps"),
    "a time that runs back": (both_copies(lambda d: d["marks_ns"].reverse()), "training-steps"),
    "a long tail": (both_copies(lambda d: d.update(returned_ns=d["returned_ns"] + 2 * 10**9)), "training-window"),
    "a long queue": (
        both_copies(lambda d: d.update(returned_ns=d["returned_ns"] + 2 * 10**9, queued_ns=d["queued_ns"] + 3 * 10**9)),
        "training-steps",
    ),
    "no losses while timed": (both_copies(lambda d: d.update(losses=[])), "training-while-timed"),
    "other losses while timed": (both_copies(lambda d: d.update(losses=[1.0, 9.0])), "training-while-timed"),
    "text for a time": (both_copies(lambda d: d.update(closed_ns="1")), "training-files"),
    "not a number for a loss": (changed("raw/accuracy/steps.json", lambda d: d["losses"].__setitem__(5, float("nan"))), "training-loss"),
    "another loss": (changed("raw/accuracy/steps.json", other_loss), "training-loss"),
    "a loss less": (changed("raw/accuracy/steps.json", lambda d: d["losses"].pop()), "training-loss"),
    "a looser tolerance": (changed("record.json", lambda d: d["accuracy"]["tolerance"].update(loss_error=1.0)), "training-tolerance"),
    "no tolerance": (changed("record.json", lambda d: d["accuracy"].update(tolerance=None)), "training-tolerance"),
    "another reference": (lambda directory: (directory / "reference.npz").write_bytes(b"none"), "training-files"),
    "another batch size": (changed("record.json", lambda d: d["cell"].update(batch_size=8)), "training-record"),
    "another SUT": (changed("record.json", lambda d: d["cell"].update(sut="keras3-jax")), "training-record"),
    "another optimizer": (
        changed("raw/accuracy/job.json", lambda d: d["workload"]["config"]["optimizer"].update(learning_rate=1.0)),
        "training-record",
    ),
    "another time of the worker": (changed("raw/performance/outcome.json", lambda d: d.update(test_ns=d["test_ns"] - 1)), "training-steps"),
    "something compiled": (changed("raw/performance/outcome.json", lambda d: d["evidence_after"].update(graphs=1)), "training-evidence"),
    "no evidence": (changed("raw/accuracy/outcome.json", lambda d: d.update(evidence_before=None)), "training-evidence"),
    "another precision": (
        changed("raw/accuracy/outcome.json", lambda d: d["evidence_after"].update(precision="tf32")),
        "training-precision",
    ),
    "faster than products": (
        changed("raw/performance/outcome.json", lambda d: d["evidence_after"].update(matrix_flops=1.0)),
        "training-speed",
    ),
    "a better figure": (changed("result.json", lambda d: d["metric"].update(value=0.1)), "training-result"),
    "more is better": (changed("result.json", lambda d: d["metric"].update(higher_is_better=True)), "training-result"),
    "a better rate": (changed("result.json", lambda d: d["metrics"].update(samples_per_second=1e9)), "training-result"),
    "more steps": (changed("result.json", lambda d: d["measured"].update(batches=2000)), "training-result"),
    "ranked at size tiny": (changed("result.json", lambda d: d.update(ranked=True)), "training-result"),
    "no worker's log": (lambda directory: (directory / "raw" / "accuracy" / "job.json").unlink(), "training-files"),
    "no record": (lambda directory: (directory / "record.json").unlink(), "training-files"),
    "no JSON": (lambda directory: (directory / "raw" / "performance" / "steps.json").write_text("["), "training-files"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_file_is_seen(copy, name):
    tamper, check = TAMPERED[name]
    tamper(copy)
    assert check in failed(copy)


def test_the_folder_of_a_training_is_made_again_from_the_raw_files(copy):
    files = sorted(path.relative_to(copy) for path in (copy / "training").rglob("*"))
    shutil.rmtree(copy / "training")
    score = training.write(copy)
    assert score.passed and sorted(path.relative_to(copy) for path in (copy / "training").rglob("*")) == files
    assert not failed(copy)


def test_a_training_that_was_interrupted_goes_on_with_the_test_that_is_left(tmp_path):
    asked = request(tmp_path, scenario="Fit", duration=None, options={"latency-ms": 75.0})  # the parent looks once a second
    with pytest.raises(KeyboardInterrupt):
        run.run(asked, Reporter(stop="accuracy"), 0)
    reporter = Reporter()
    found = run.run(asked, reporter, 0)
    assert found.status == "ok" and "performance: kept from an earlier attempt" in reporter.said


def test_what_no_fit_is_written_for_is_unsupported_with_its_reason(tmp_path):
    def reason(sut, model):
        found = run.run(request(tmp_path, scenario="Fit", duration=None, sut=sut, model=model), Reporter(), 0)
        assert found.status == "unsupported"
        return found.reason

    assert reason("keras3-jax", "gemma") == "keras3-jax has no sut/keras3/causal_lm_fit.py, no fit is written for gemma's family"
    assert reason("keras2-tensorflow", "bert") == "keras2-tensorflow has no sut/keras2/bert_fit.py, no fit is written for bert's family"
    assert reason("mock", "mistral").startswith("mistral.toml has no [fit]")


def test_compliance_tests_are_refused(good, capsys):
    assert cli.main(["compliance", good.directory]) == 2
    assert "is a training, and these tests are LoadGen's" in capsys.readouterr().err


def test_flags_that_say_nothing_of_a_training_are_refused_or_noted(tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a")
    with pytest.raises(UsageError, match="nothing to submit: take --mode valid"):
        request(tmp_path, scenario="Fit", duration=None, mode="submission")
    with pytest.raises(UsageError, match="trains on synthetic inputs only"):
        request(tmp_path, scenario="Fit", duration=None, dataset=prompts)
    assert "--duration 3 is not used: Fit times 20 steps in mode quick" in request(tmp_path, scenario="Fit", duration=3.0).reasons
    assert request(tmp_path, scenario="Fit", duration=None, mode="valid").samples == 101 * 4


def test_trainings_stand_in_tables_reports_and_comparisons_like_other_cells(tmp_path, capsys):
    out = {name: tmp_path / name for name in ("a", "b")}
    for folder, milliseconds in ((out["a"], MILLISECONDS), (out["b"], 3 * MILLISECONDS)):
        found = trained(folder, **{"latency-ms": milliseconds})
        assert found.status == "ok"
        for repeat in (2, 3):
            shutil.copytree(found.directory, Path(found.directory).with_name(f"quick-{repeat}"))
    (row,) = (tables.row(group) for group in tables.groups([out["a"]]))
    assert (row["task"], row["scenario"], row["unit"], row["higher_is_better"]) == ("fit", "Fit", "ms/step", False)
    assert row["figure"] == row["ms_per_step"] and row["repeats"] == 3
    groups = [tables.groups([folder]) for folder in out.values()]
    (both,) = (compare.with_published(groups[0]), history.trends(groups[0]))[1:]
    assert both[0].unit == "ms/step"
    report = content.gather(tmp_path, "runs")
    slow, fast = "mock latency-ms=6.0", "mock latency-ms=2.0"
    assert fast in report.headline and slow in report.headline and " × " in report.headline
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path), "--html", str(tmp_path / "report.html")]) == 0
    assert "ms/step, less is better" in (tmp_path / "report.html").read_text()


def test_the_published_training_stands_beside_ours(good):
    document = json.loads(json.dumps(asdict(good)))
    document["cell"] |= {"sut": "keras3-jax", "batch_size": 32}
    (beside,) = compare.with_published(tables.grouped([Result.from_json(document)]))
    assert beside.a_figure == "222.4 ms/step" and not beside.comparable
