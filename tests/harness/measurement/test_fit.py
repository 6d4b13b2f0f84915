"""Scenario Fit on the mock: what an honest training leaves, what a broken one is called, and what
is seen of changed files.
"""

import itertools
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compliance import audit
from formats.checks import Verdict
from formats.writing import write_json
from harness import result
from harness.comparison import compare, tables
from harness.errors import UsageError
from harness.inputs import models
from harness.request import plan
from results import summary
from scenarios.worker.system import host_memory
from tests.support.cells import Killer, Reporter, measure, request
from tests.support.commands import call
from tests.support.files import edit_json, read_json, update_json, write_rows
from tests.support.reports import gathered, groups

MILLISECONDS = 2.0


def asked(out, **changes):
    return request(out, scenario="Fit", **{"duration": None} | changes)


def trained(out, **options):
    return measure(asked(out, options={"latency-ms": MILLISECONDS} | options))


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


def failed(directory, level="quick"):
    return {
        check.id
        for check in audit.audit(directory, harness=result.HARNESS).checks_for(level)
        if check.verdict is Verdict.FAIL
    }


def test_a_training_is_timed_judged_and_audited(good):
    assert (good.cell.task, good.cell.scenario, good.loadgen) == ("fit", "Fit", None)
    assert good.metric.unit == "ms/step"
    assert good.metric.value == good.metrics["ms_per_step"] >= MILLISECONDS
    batch, rate = good.cell.batch_size, good.metrics["samples_per_second"]
    assert rate == pytest.approx(1e3 * batch / good.metric.value)
    assert good.metrics["tokens_per_second"] == pytest.approx(32 * rate)
    assert good.measured == {"samples": 20 * batch, "batches": 20, "padding_fraction": 0}
    assert good.accuracy.passed and good.accuracy.detail["steps"] == 22
    assert good.levels == ("quick",) and not failed(Path(good.directory))
    assert failed(Path(good.directory), "valid") == {"training-step-count"}


def test_a_result_is_derived_again_from_the_files_alone(good):
    again = result.derive(Path(good.directory))
    assert asdict(again) | {"audit": {}} == asdict(good) | {"audit": {}}


def test_what_a_result_prints_names_steps(good):
    lines = dict(summary.rows(good))
    assert "LoadGen" not in lines
    assert all(unit in lines["speed"] for unit in ("ms/step", "samples/s", "tokens/s"))
    what = f"20 steps of {good.cell.batch_size} samples of uneven length, padded to 32 tokens"
    assert lines["measured"].startswith(f"{what}, after two untimed ones, the first of ")


@pytest.mark.parametrize(
    ("wrong", "cause", "words"),
    [
        *(
            (w, "accuracy", "losses: ")
            for w in ("learning-rate", "skip-batch", "shuffle", "frozen")
        ),
        ("other-when-timed", "accuracy", "losses while timed: "),
        ("early-end", "speed", "end of the window: "),
    ],
)
def test_a_broken_training_is_invalid_and_says_why(tmp_path, wrong, cause, words):
    milliseconds = 75.0 if wrong == "early-end" else MILLISECONDS
    found = trained(tmp_path, **{"wrong-fit": wrong, "latency-ms": milliseconds})
    assert (found.status, found.cause, found.ranked) == ("invalid", cause, False)
    assert found.reason.startswith(f"training: {words}")


def put(**values):
    return lambda document: document.update(values)


def put_in(part, key, value):
    return lambda document: document[part].__setitem__(key, value)


def later(name, nanoseconds):
    return lambda document: document.update({name: document[name] + nanoseconds})


RECORD, RESULT, LOSSES = "record.json", "result.json", "raw/accuracy/steps.json"
STEPS, TIMED = "raw/performance/steps.json", "raw/performance/outcome.json"
SEEN, JOB = "raw/accuracy/outcome.json", "raw/accuracy/job.json"
TAMPERED = {
    "a step less": (STEPS, lambda d: d["marks_ns"].__delitem__(-1), "training-record"),
    "an earlier end": (STEPS, later("closed_ns", -5_000_000), "training-steps"),
    "a later beginning": (STEPS, later("started_ns", 5_000_000), "training-steps"),
    "a first step that ends in the window": (
        STEPS,
        lambda d: d.update(first_ended_ns=d["closed_ns"]),
        "training-steps",
    ),
    "a time that runs back": (STEPS, lambda d: d["marks_ns"].reverse(), "training-steps"),
    "a long tail": (STEPS, later("returned_ns", 2 * 10**9), "training-window"),
    "a long queue": (STEPS, later("queued_ns", 3 * 10**9), "training-steps"),
    "no losses while timed": (STEPS, put(losses=[]), "training-while-timed"),
    "other losses while timed": (STEPS, put(losses=[1.0, 9.0]), "training-while-timed"),
    "text for a time": (STEPS, put(closed_ns="1"), "training-files"),
    "other losses held out": (STEPS, put_in("held_out", 0, 9.0), "training-held-out"),
    "an evaluation before the end": (
        STEPS,
        lambda d: d.update(evaluation_started_ns=d["closed_ns"] - 1),
        "training-steps",
    ),
    "not a number for a loss": (LOSSES, put_in("losses", 5, math.nan), "training-loss"),
    "another loss": (
        LOSSES,
        lambda d: put_in("losses", 5, d["losses"][5] + 0.5)(d),
        "training-loss",
    ),
    "a loss less": (LOSSES, lambda d: d["losses"].__delitem__(-1), "training-loss"),
    "losses held out left away": (LOSSES, put(held_out=[]), "training-held-out"),
    "a looser tolerance": (
        RECORD,
        lambda d: d["accuracy"]["tolerance"].update(loss_error=1.0),
        "training-tolerance",
    ),
    "no tolerance": (RECORD, put_in("accuracy", "tolerance", None), "training-files"),
    "another batch size": (RECORD, put_in("cell", "batch_size", 8), "training-record"),
    "another SUT": (RECORD, put_in("cell", "sut", "keras3-jax"), "training-record"),
    "fewer parameters said to be trained": (
        RECORD,
        put_in("training", "parameters", 1),
        "training-record",
    ),
    "another seed": (RECORD, put_in("training", "seed", 7), "training-record"),
    "another optimizer": (
        JOB,
        lambda d: d["config"]["optimizer"].update(learning_rate=1.0),
        "training-record",
    ),
    "another time of the worker": (TIMED, later("test_ns", -1), "training-steps"),
    "something compiled": (TIMED, put_in("evidence_after", "graphs", 1), "training-evidence"),
    "faster than products": (
        TIMED,
        put_in("evidence_after", "matrix_flops", 1.0),
        "training-speed",
    ),
    "no evidence": (SEEN, put(evidence_before=None), "training-evidence"),
    "another precision": (
        SEEN,
        put_in("evidence_after", "precision", "tf32"),
        "training-precision",
    ),
    "a better figure": (RESULT, put_in("metric", "value", 0.1), "derived-files"),
    "more is better": (RESULT, put_in("metric", "higher_is_better", True), "derived-files"),
    "a better rate": (RESULT, put_in("metrics", "samples_per_second", 1e9), "derived-files"),
    "more steps": (RESULT, put_in("measured", "batches", 2000), "derived-files"),
    "ranked at size tiny": (RESULT, put(ranked=True), "derived-files"),
}
"""Name → (file of a run directory, change of its content, the check that sees it)."""


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_file_is_seen(copy, name):
    file, change, check = TAMPERED[name]
    edit_json(copy / file, change)
    assert check in failed(copy)


@pytest.mark.parametrize("name", ["reference.npz", STEPS])
def test_a_file_that_cannot_be_read_is_seen(copy, name):
    (copy / name).write_text("[")
    assert "training-files" in failed(copy)


@pytest.mark.parametrize("name", [JOB, RECORD])
def test_a_file_that_is_not_there_is_seen(copy, name):
    (copy / name).unlink()
    assert "training-files" in failed(copy)


def test_what_the_record_of_a_training_lacks_is_left_empty(copy):
    edit_json(copy / RECORD, lambda d: d.__delitem__("submitter"))
    (line,) = audit.audit(copy).results
    assert (line.submitter, line.system, line.scenario) == ("", "mock", "Fit")


def test_the_operations_of_a_step_are_those_of_three_forward_passes(copy):
    edit_json(copy / RECORD, put(least_flops=1e6))
    edit_json(copy / RECORD, put_in("digests", "weights_source", "seeded"))
    edit_json(copy / TIMED, put_in("evidence_after", "matrix_flops", 4e12))
    found = result.derive(copy)
    reached = found.metrics["flops_per_second"]
    assert reached == pytest.approx(3e6 * found.metrics["samples_per_second"])
    assert reached == found.metrics["matrix_share"] * 4e12
    write_json(copy / RESULT, asdict(found))
    assert "derived-files" not in failed(copy)
    edit_json(copy / RESULT, put_in("metrics", "matrix_share", 0.5))
    assert "derived-files" in failed(copy)
    edit_json(copy / RECORD, put_in("cell", "lora", "own"))
    assert "flops_per_second" not in result.derive(copy).metrics  # too few operations are counted


def test_a_training_that_ends_badly_says_how_and_goes_on_where_it_was(tmp_path):
    # The parent looks once a second.
    slow = asked(tmp_path, options={"latency-ms": 75.0})
    killed = measure(slow, Killer())
    assert killed.status == "error" and "SIGKILL" in killed.reason and killed.metric is not None
    reporter = Reporter()
    found = measure(slow, reporter)
    assert (found.status, found.directory) == ("ok", killed.directory)
    assert "performance: kept from an earlier attempt" in reporter.said


@pytest.mark.parametrize(
    ("option", "words"),
    [("raise-at", "RuntimeError: told to raise at batch 3"), ("kill-at", "signal SIGKILL")],
)
def test_a_worker_that_fails_while_it_trains_leaves_a_status_with_its_reason(
    tmp_path, option, words
):
    found = trained(tmp_path, **{option: 3})
    assert found.status == "error" and words in found.reason and found.metric is None


def test_a_training_that_the_kernel_ends_for_want_of_memory_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "kernel_oom_kills", itertools.count().__next__)
    found = trained(tmp_path, **{"kill-at": 3})
    assert found.status == "oom" and "in the performance test for want of memory" in found.reason


def test_what_no_fit_is_written_for_is_unsupported_with_its_reason(tmp_path):
    def reason(model):
        found = measure(asked(tmp_path, sut="hf-tensorflow", model=model))
        assert found.status == "unsupported"
        return found.reason

    lacks = "sut/hf_tensorflow/bert.py has no load_training"
    assert reason("bert") == f"no training is written for the architecture bert: {lacks}"
    assert "there is no sut/hf_tensorflow/sam.py" in reason("sam")
    without = asked(tmp_path)
    without = replace(without, model=replace(without.model, fit={}))
    assert plan.unsupported(without).startswith("bert.toml has no [fit]")


def test_a_language_model_is_trained_by_lora_and_its_cell_says_which(tmp_path):
    found = measure(asked(tmp_path, model="mistral"))
    assert (found.status, found.reason) == ("ok", "")
    assert (found.cell.lora, found.cell.seq_len, found.cell.eos) == ("own", 32, None)
    job = read_json(Path(found.directory) / "raw/performance/job.json")
    assert job["config"]["lora"] == {"rank": 4, "alpha": 4, "factors": "matrix"}


def test_of_sam_the_image_encoder_alone_is_trained(tmp_path):
    found = measure(asked(tmp_path, model="sam"))
    assert (found.status, found.reason, found.cell.batch_size) == ("ok", "", 1)
    training = read_json(Path(found.directory) / "record.json")["training"]
    assert training["parameters"] == 296_000 < models.load("sam").sizes["tiny"].parameters


def test_a_users_labels_are_trained_on(tmp_path):
    rows = [{"prompt": f"{n} {chr(97 + n)} prompt", "label": n % 2} for n in range(12)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    found = measure(asked(tmp_path, dataset=path))
    assert (found.status, found.reason) == ("ok", "") and found.cell.dataset != "synthetic"
    record = read_json(Path(found.directory) / "record.json")
    assert record["training"]["seed"] is None
    note = "rows.jsonl: trained on its first 8 inputs 11 times"
    assert any(text.startswith(note) for text in found.warnings)


def test_compliance_tests_are_refused(good, capsys):
    code, _, said = call(["compliance", good.directory], capsys)
    assert code == 2 and "is a training, and these tests are LoadGen's" in said


def test_flags_that_say_nothing_of_a_training_are_refused_or_noted(tmp_path):
    with pytest.raises(UsageError, match="cannot be submitted: take --mode valid"):
        asked(tmp_path, mode="submission")
    with pytest.raises(UsageError, match="mistral does not in Fit: leave it out"):
        asked(tmp_path, model="mistral", eos="stop")
    note = "--duration 3 is not used: Fit times 20 steps in mode quick"
    assert note in asked(tmp_path, duration=3.0).reasons
    assert asked(tmp_path, mode="valid").samples == 102 * 4


def test_trainings_stand_in_tables_reports_and_comparisons_like_other_cells(tmp_path, capsys):
    out = {name: tmp_path / name for name in ("a", "b")}
    for folder, milliseconds in ((out["a"], MILLISECONDS), (out["b"], 3 * MILLISECONDS)):
        found = trained(folder, **{"latency-ms": milliseconds})
        assert found.status == "ok"
        for repeat in (2, 3):
            shutil.copytree(found.directory, Path(found.directory).with_name(f"quick-{repeat}"))
    # What else this machine did is not what this test is about.
    for path in tmp_path.rglob("result.json"):
        update_json(path, disturbance={})
    (row,) = (tables.row(group) for group in groups(out["a"]))
    of_steps = {"task": "fit", "scenario": "Fit", "unit": "ms/step", "higher_is_better": False}
    assert row | of_steps == row
    assert row["figure"] == pytest.approx(row["ms_per_step"]) and row["repeats"] == 3
    (both,) = compare.compare(*(groups(folder) for folder in out.values()))
    assert "ms/step" in both.a_figure
    report = gathered(tmp_path)
    slow, fast = "mock latency-ms=6.0", "mock latency-ms=2.0"
    assert fast in report.headline and slow in report.headline and " × " in report.headline
    code, *_ = call(["report", tmp_path, "--html", tmp_path / "report.html"], capsys)
    assert code == 0
    assert "ms/step, less is better" in (tmp_path / "report.html").read_text()
