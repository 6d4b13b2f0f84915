"""Scenario Fit on the mock: what an honest training leaves, what a broken one is called, and what
is seen of changed files.
"""

import itertools
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compliance import audit
from formats.checks import Verdict
from harness import cli, result
from harness.comparison import compare, tables
from harness.errors import UsageError
from harness.inputs import models
from harness.measurement import run
from harness.request import plan
from results import summary
from scenarios.worker.system import host_memory
from tests.support.cells import Killer, Reporter, request
from tests.support.reports import gathered, groups

MILLISECONDS = 2.0


def trained(out, **options):
    return run.run(
        request(out, scenario="Fit", duration=None, options={"latency-ms": MILLISECONDS} | options),
        Reporter(),
        0,
    )


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
    return {
        check.id
        for check in audit.audit(directory, harness=result.HARNESS).checks_for(level)
        if check.verdict is Verdict.FAIL
    }


def test_a_training_is_timed_judged_and_audited(good):
    assert (good.cell.task, good.cell.scenario, good.loadgen, good.metric.unit) == (
        "fit",
        "Fit",
        None,
        "ms/step",
    )
    assert good.metric.value == good.metrics["ms_per_step"] >= MILLISECONDS
    assert good.metrics["samples_per_second"] == pytest.approx(
        1e3 * good.cell.batch_size / good.metric.value
    )
    assert good.metrics["tokens_per_second"] == pytest.approx(
        32 * good.metrics["samples_per_second"]
    )
    assert good.measured == {
        "samples": 20 * good.cell.batch_size,
        "batches": 20,
        "padding_fraction": 0,
    }
    assert good.accuracy.passed and good.accuracy.detail["steps"] == 22
    assert good.levels == ("quick",) and not failed(Path(good.directory))
    assert failed(Path(good.directory), "valid") == {"training-step-count"}


def test_a_result_is_derived_again_from_the_files_alone(good):
    assert asdict(result.derive(Path(good.directory))) | {"audit": {}} == asdict(good) | {
        "audit": {}
    }


def test_what_a_result_prints_names_steps(good):
    lines = dict(summary.rows(good))
    assert "LoadGen" not in lines and all(
        unit in lines["speed"] for unit in ("ms/step", "samples/s", "tokens/s")
    )
    what = f"20 steps of {good.cell.batch_size} samples of uneven length, padded to 32 tokens"
    assert lines["measured"].startswith(f"{what}, after two untimed ones, the first of ")


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
    found = trained(
        tmp_path,
        **{"wrong-fit": wrong, "latency-ms": 75.0 if wrong == "early-end" else MILLISECONDS},
    )
    assert (found.status, found.cause) == ("invalid", cause) and found.reason.startswith(words)
    assert not found.ranked


def changed(name, change):
    """Edits the JSON file `name` of a run directory."""
    return lambda directory: edit(directory / name, change)


def of_timed(change):
    """Edits the timed run's steps."""
    return changed("raw/performance/steps.json", change)


def shortened(document):
    document["marks_ns"] = document["marks_ns"][:-1]


def earlier_end(document):
    document["closed_ns"] -= 5_000_000


def sooner_started(document):
    document["started_ns"] += 5_000_000


def other_loss(document):
    document["losses"][5] += 0.5


TAMPERED = {
    "a step less": (of_timed(shortened), "training-record"),
    "an earlier end": (of_timed(earlier_end), "training-steps"),
    "a later beginning": (of_timed(sooner_started), "training-steps"),
    "a first step that ends in the window": (
        of_timed(lambda d: d.update(first_ended_ns=d["closed_ns"])),
        "training-steps",
    ),
    "a time that runs back": (of_timed(lambda d: d["marks_ns"].reverse()), "training-steps"),
    "a long tail": (
        of_timed(lambda d: d.update(returned_ns=d["returned_ns"] + 2 * 10**9)),
        "training-window",
    ),
    "a long queue": (
        of_timed(lambda d: d.update(queued_ns=d["queued_ns"] + 3 * 10**9)),
        "training-steps",
    ),
    "no losses while timed": (of_timed(lambda d: d.update(losses=[])), "training-while-timed"),
    "other losses while timed": (
        of_timed(lambda d: d.update(losses=[1.0, 9.0])),
        "training-while-timed",
    ),
    "text for a time": (of_timed(lambda d: d.update(closed_ns="1")), "training-files"),
    "not a number for a loss": (
        changed("raw/accuracy/steps.json", lambda d: d["losses"].__setitem__(5, float("nan"))),
        "training-loss",
    ),
    "another loss": (changed("raw/accuracy/steps.json", other_loss), "training-loss"),
    "a loss less": (
        changed("raw/accuracy/steps.json", lambda d: d["losses"].pop()),
        "training-loss",
    ),
    "a looser tolerance": (
        changed("record.json", lambda d: d["accuracy"]["tolerance"].update(loss_error=1.0)),
        "training-tolerance",
    ),
    "no tolerance": (
        changed("record.json", lambda d: d["accuracy"].update(tolerance=None)),
        "training-files",
    ),
    "another reference": (
        lambda directory: (directory / "reference.npz").write_bytes(b"none"),
        "training-files",
    ),
    "another batch size": (
        changed("record.json", lambda d: d["cell"].update(batch_size=8)),
        "training-record",
    ),
    "another SUT": (
        changed("record.json", lambda d: d["cell"].update(sut="keras3-jax")),
        "training-record",
    ),
    "another optimizer": (
        changed(
            "raw/accuracy/job.json",
            lambda d: d["config"]["optimizer"].update(learning_rate=1.0),
        ),
        "training-record",
    ),
    "another time of the worker": (
        changed("raw/performance/outcome.json", lambda d: d.update(test_ns=d["test_ns"] - 1)),
        "training-steps",
    ),
    "something compiled": (
        changed("raw/performance/outcome.json", lambda d: d["evidence_after"].update(graphs=1)),
        "training-evidence",
    ),
    "no evidence": (
        changed("raw/accuracy/outcome.json", lambda d: d.update(evidence_before=None)),
        "training-evidence",
    ),
    "another precision": (
        changed(
            "raw/accuracy/outcome.json", lambda d: d["evidence_after"].update(precision="tf32")
        ),
        "training-precision",
    ),
    "faster than products": (
        changed(
            "raw/performance/outcome.json", lambda d: d["evidence_after"].update(matrix_flops=1.0)
        ),
        "training-speed",
    ),
    "a better figure": (
        changed("result.json", lambda d: d["metric"].update(value=0.1)),
        "derived-files",
    ),
    "more is better": (
        changed("result.json", lambda d: d["metric"].update(higher_is_better=True)),
        "derived-files",
    ),
    "a better rate": (
        changed("result.json", lambda d: d["metrics"].update(samples_per_second=1e9)),
        "derived-files",
    ),
    "more steps": (
        changed("result.json", lambda d: d["measured"].update(batches=2000)),
        "derived-files",
    ),
    "ranked at size tiny": (
        changed("result.json", lambda d: d.update(ranked=True)),
        "derived-files",
    ),
    "other losses held out": (
        of_timed(lambda d: d["held_out"].__setitem__(0, 9.0)),
        "training-held-out",
    ),
    "losses held out left away": (
        changed("raw/accuracy/steps.json", lambda d: d.update(held_out=[])),
        "training-held-out",
    ),
    "an evaluation before the end": (
        of_timed(lambda d: d.update(evaluation_started_ns=d["closed_ns"] - 1)),
        "training-steps",
    ),
    "fewer parameters said to be trained": (
        changed("record.json", lambda d: d["training"].update(parameters=1)),
        "training-record",
    ),
    "another seed": (
        changed("record.json", lambda d: d["training"].update(seed=7)),
        "training-record",
    ),
    "no worker's log": (
        lambda directory: (directory / "raw" / "accuracy" / "job.json").unlink(),
        "training-files",
    ),
    "no record": (lambda directory: (directory / "record.json").unlink(), "training-files"),
    "no JSON": (
        lambda directory: (directory / "raw" / "performance" / "steps.json").write_text("["),
        "training-files",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_file_is_seen(copy, name):
    tamper, check = TAMPERED[name]
    tamper(copy)
    assert check in failed(copy)


def test_what_the_record_of_a_training_lacks_is_left_empty(copy):
    edit(copy / "record.json", lambda d: d.pop("submitter"))
    (line,) = audit.audit(copy).results
    assert (line.submitter, line.system, line.scenario) == ("", "mock", "Fit")


def test_the_operations_of_a_step_are_those_of_three_forward_passes(copy):
    edit(
        copy / "record.json",
        lambda d: d.update(least_flops=1e6, digests={**d["digests"], "weights_source": "seeded"}),
    )
    edit(
        copy / "raw/performance/outcome.json",
        lambda d: d["evidence_after"].update(matrix_flops=4e12),
    )
    found = result.derive(copy)
    reached = found.metrics["flops_per_second"]
    assert (
        reached
        == pytest.approx(3e6 * found.metrics["samples_per_second"])
        == found.metrics["matrix_share"] * 4e12
    )
    (copy / "result.json").write_text(json.dumps(asdict(found)))
    assert "derived-files" not in failed(copy)
    edit(copy / "result.json", lambda d: d["metrics"].update(matrix_share=0.5))
    assert "derived-files" in failed(copy)
    edit(copy / "record.json", lambda d: d["cell"].update(lora="own"))
    assert "flops_per_second" not in result.derive(copy).metrics  # too few operations are counted


def test_a_training_that_was_interrupted_goes_on_with_the_test_that_is_left(tmp_path):
    # The parent looks once a second.
    asked = request(tmp_path, scenario="Fit", duration=None, options={"latency-ms": 75.0})
    with pytest.raises(KeyboardInterrupt):
        run.run(asked, Reporter(stop="accuracy"), 0)
    reporter = Reporter()
    found = run.run(asked, reporter, 0)
    assert found.status == "ok" and "performance: kept from an earlier attempt" in reporter.said


def test_a_training_that_ends_badly_says_how_and_goes_on_where_it_was(tmp_path):
    asked = request(tmp_path, scenario="Fit", duration=None, options={"latency-ms": 75.0})

    killed = run.run(asked, Killer(), 0)
    assert killed.status == "error" and "SIGKILL" in killed.reason and killed.metric is not None
    reporter = Reporter()
    found = run.run(asked, reporter, 0)
    assert (found.status, found.directory) == (
        "ok",
        killed.directory,
    ) and "performance: kept from an earlier attempt" in reporter.said


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
    def reason(sut, model):
        found = run.run(
            request(tmp_path, scenario="Fit", duration=None, sut=sut, model=model), Reporter(), 0
        )
        assert found.status == "unsupported"
        return found.reason

    lacks = "sut/hf_tensorflow/bert.py has no load_training"
    assert (
        reason("hf-tensorflow", "bert")
        == f"no training is written for the architecture bert: {lacks}"
    )
    assert "there is no sut/hf_tensorflow/sam.py" in reason("hf-tensorflow", "sam")
    asked = request(tmp_path, scenario="Fit", duration=None)
    assert plan.unsupported(replace(asked, model=replace(asked.model, fit={}))).startswith(
        "bert.toml has no [fit]"
    )


def test_a_language_model_is_trained_by_lora_and_its_cell_says_which(tmp_path):
    found = run.run(
        request(tmp_path, scenario="Fit", duration=None, model="mistral"), Reporter(), 0
    )
    assert (found.status, found.reason, found.cell.lora, found.cell.seq_len, found.cell.eos) == (
        "ok",
        "",
        "own",
        32,
        None,
    )
    job = json.loads((Path(found.directory) / "raw/performance/job.json").read_text())
    assert job["config"]["lora"] == {"rank": 4, "alpha": 4, "factors": "matrix"}


def test_of_sam_the_image_encoder_alone_is_trained(tmp_path):
    found = run.run(request(tmp_path, scenario="Fit", duration=None, model="sam"), Reporter(), 0)
    assert (found.status, found.reason, found.cell.batch_size) == ("ok", "", 1)
    training = json.loads((Path(found.directory) / "record.json").read_text())["training"]
    assert training["parameters"] == 296_000 < models.load("sam").sizes["tiny"].parameters


def test_a_users_labels_are_trained_on(tmp_path):
    rows = [{"prompt": f"{n} {chr(97 + n)} prompt", "label": n % 2} for n in range(12)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = run.run(request(tmp_path, scenario="Fit", duration=None, dataset=path), Reporter(), 0)
    assert (found.status, found.reason) == ("ok", "") and found.cell.dataset != "synthetic"
    record = json.loads((Path(found.directory) / "record.json").read_text())
    assert record["training"]["seed"] is None
    assert any(
        note.startswith("rows.jsonl: trained on its first 8 inputs 11 times")
        for note in found.warnings
    )


def test_compliance_tests_are_refused(good, capsys):
    assert cli.main(["compliance", good.directory]) == 2
    assert "is a training, and these tests are LoadGen's" in capsys.readouterr().err


def test_flags_that_say_nothing_of_a_training_are_refused_or_noted(tmp_path):
    with pytest.raises(UsageError, match="cannot be submitted: take --mode valid"):
        request(tmp_path, scenario="Fit", duration=None, mode="submission")
    with pytest.raises(UsageError, match="mistral does not in Fit: leave it out"):
        request(tmp_path, scenario="Fit", duration=None, model="mistral", eos="stop")
    assert (
        "--duration 3 is not used: Fit times 20 steps in mode quick"
        in request(tmp_path, scenario="Fit", duration=3.0).reasons
    )
    assert request(tmp_path, scenario="Fit", duration=None, mode="valid").samples == 102 * 4


def test_trainings_stand_in_tables_reports_and_comparisons_like_other_cells(tmp_path, capsys):
    out = {name: tmp_path / name for name in ("a", "b")}
    for folder, milliseconds in ((out["a"], MILLISECONDS), (out["b"], 3 * MILLISECONDS)):
        found = trained(folder, **{"latency-ms": milliseconds})
        assert found.status == "ok"
        for repeat in (2, 3):
            shutil.copytree(found.directory, Path(found.directory).with_name(f"quick-{repeat}"))
    # What else this machine did is not what this test is about.
    for path in tmp_path.rglob("result.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "disturbance": {}}))
    (row,) = (tables.row(group) for group in groups(out["a"]))
    assert (row["task"], row["scenario"], row["unit"], row["higher_is_better"]) == (
        "fit",
        "Fit",
        "ms/step",
        False,
    )
    assert row["figure"] == row["ms_per_step"] and row["repeats"] == 3
    (both,) = compare.compare(*(groups(folder) for folder in out.values()))
    assert "ms/step" in both.a_figure
    report = gathered(tmp_path)
    slow, fast = "mock latency-ms=6.0", "mock latency-ms=2.0"
    assert fast in report.headline and slow in report.headline and " × " in report.headline
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path), "--html", str(tmp_path / "report.html")]) == 0
    assert "ms/step, less is better" in (tmp_path / "report.html").read_text()
