"""The checks of a training's run directory. Step times, losses and figures are computed again from
the workers' files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from compliance.checks import evidence
from compliance.checks import result as results
from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, manual, mismatch, not_applicable, shorten
from compliance.findings.verdict import ResultLine
from compliance.logs import files
from compliance.rules import EvidenceRule
from compliance.scoring import loss_curve
from compliance.training import mllog
from compliance.training import steps as step_files
from compliance.training.run_directory import COPIES, FOLDER, LOG, TrainingRun, limits, passes
from formats import figures
from formats.cell import IN_WORKLOAD
from formats.figures import FIGURES
from formats.job import Job
from formats.record import Record

# The fields of a job that may differ between the two tests. A training is not calibrated.
_OF_A_TEST = ("test", "log_dir", "calibration")
_LARGEST_REFERENCE = 64 << 20


def line(training: TrainingRun) -> ResultLine:
    """Return the result that the directory states. A field is empty if record.json cannot be
    read.
    """
    record, steps = training.record, training.steps["performance"]
    if record is None:
        return ResultLine(
            place=FOLDER, division="none", submitter="", system="", benchmark="", scenario=""
        )
    return ResultLine(
        place=FOLDER,
        division="none",
        submitter=shorten(record.submitter),
        system=shorten(record.cell.sut),
        benchmark=shorten(record.benchmark.name),
        scenario=shorten(record.cell.scenario),
        figure=f"{step_files.figures(steps)['ms_per_step']:.6g} ms/step" if steps else "",
        verdict="no verdict of LoadGen's",
        tested=shorten(record.started),
    )


def checks(training: TrainingRun) -> list[Check]:
    """Every check of a training."""
    files_check = judge(
        "training-files",
        _files(training),
        "all there, and the copies are those of raw/",
        file=FOLDER,
        fix=fixes.RUN,
    )
    record = training.record
    if record is None:
        return [files_check]
    return [
        files_check,
        judge(
            "training-record",
            _record(training, record),
            "record.json, jobs and step files agree",
            file="record.json",
            fix=fixes.OWN,
        ),
        judge(
            "training-steps",
            _steps(training),
            _sum(training),
            file="raw/performance/steps.json",
            fix=fixes.RUN,
        ),
        judge(
            "training-step-count",
            _count(training),
            _sum(training),
            file="raw/performance/steps.json",
            fix="measure with --mode valid",
        ),
        judge(
            "training-window",
            _window(training),
            "nothing was left to do when the window closed",
            file="raw/performance/steps.json",
        ),
        *_accuracy(training, record),
        *_evidence(training, record),
        _speed(training, record),
        judge(
            "training-log",
            _log(training),
            "every line follows from steps, record and job",
            file=f"{FOLDER}/{LOG}",
            fix=fixes.RUN,
        ),
        judge(
            "training-result",
            _result(training, record),
            "the figures of result.json are those of the steps",
            file="result.json",
            fix=fixes.RUN,
        ),
    ]


def _files(training: TrainingRun) -> Iterator[Fault]:
    for name, fault in training.faults.items():
        yield Fault(fault, file=name)
    record = training.record
    for copy, source in COPIES.items():
        if source == "reference.npz" and record and record.no_reference:
            continue
        one, fault = files.attempt(
            lambda path: files.bounded_sha256(path, _LARGEST_REFERENCE),
            training.directory / FOLDER / copy,
        )
        other, _ = files.attempt(
            lambda path: files.bounded_sha256(path, _LARGEST_REFERENCE), training.directory / source
        )
        if one is None or one != other:
            yield Fault(fault or f"{copy} is not the copy of {source}", file=f"{FOLDER}/{copy}")
        if source == "reference.npz" and record and other != record.digests.reference:
            yield mismatch(
                "the sha256 of reference.npz", other, record.digests.reference, "record.json has"
            )


def _record(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Yield a fault for each contradiction between record, jobs and step files."""
    cell, first, second = record.cell, training.jobs["performance"], training.jobs["accuracy"]
    if not (first and second):
        yield Fault("a job.json is missing")
        return
    for key in sorted({each.name for each in fields(Job)} - {*_OF_A_TEST}):
        if getattr(first, key) != getattr(second, key):
            yield mismatch(
                f"{key} of the accuracy test's job",
                getattr(second, key),
                getattr(first, key),
                "the performance test has",
            )
    work, trained = first.workload, record.training
    expected: dict[str, tuple[Any, Any]] = {
        "sut": (first.sut, cell.sut),
        "scenario": (first.scenario, cell.scenario),
        "procedure": (first.procedure, "fit"),
        "execution": (work.execution, record.execution),
        "whether LoRA is trained": (bool(work.config.get("lora")), bool(cell.lora)),
    }
    for key in IN_WORKLOAD:
        expected[key] = (getattr(work, key), getattr(cell, key))
    for test, job in training.jobs.items():
        expected[f"test of raw/{test}"] = (job and job.test, test)
    parameters = trained.parameters if trained else None
    for test, steps in training.steps.items():
        if steps is None:
            continue
        samples = steps.total * steps.batch_size
        expected[f"batch size of the {test} test's steps"] = (steps.batch_size, cell.batch_size)
        expected[f"steps of the {test} test, times the batch size"] = (samples, record.qsl.samples)
        if record.digests.weights_source != "none":
            expected[f"trained parameters of the {test} test"] = (steps.trainable, parameters)
    if not cell.lora and not (trained and trained.part):
        expected["training.parameters"] = (parameters, record.parameters)
    if record.qsl.synthetic:
        expected["training.seed"] = (trained and trained.seed, limits()["seed"])
    for what, (value, right) in expected.items():
        if value != right or value is None:
            yield mismatch(what, value, right, "record.json makes it")


def _sum(training: TrainingRun) -> str:
    steps = training.steps["performance"]
    if steps is None:
        return "the performance test left no steps"
    seen = (
        "step by step"
        if steps.seen
        else "as a whole: the last one was long, as where a framework runs ahead of its device"
    )
    return f"{steps.count} steps in {steps.window_ns / 1e9:.4g} s, {seen}"


def _steps(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault for each test whose times cannot be those of a training.

    The times must be in order, no part may be longer than the whole, and the window must be as long
    as in the worker's report.
    """
    for test, steps in training.steps.items():
        if steps is None:
            yield Fault(
                f"the {test} test left no steps that can be read", file=f"raw/{test}/steps.json"
            )
            continue
        where = f"raw/{test}/steps.json"
        marks = [
            steps.began_ns,
            steps.first_ended_ns,
            steps.started_ns,
            *steps.marks_ns,
            steps.closed_ns,
            steps.returned_ns,
        ]
        marks += [steps.evaluation_started_ns, steps.evaluation_ended_ns]
        if any(b < a for a, b in zip(marks, marks[1:], strict=False)):
            yield Fault(f"the times of the {test} test do not ascend", file=where)
        if steps.queued_ns > 1.1 * (steps.returned_ns - steps.closed_ns) + 1e6:
            yield Fault(f"the {test} test stood in a queue for longer than it took", file=where)
        if steps.input_ns > steps.returned_ns - steps.began_ns:
            yield Fault(
                f"the {test} test took longer to hand over its batches than it lasted", file=where
            )
        outcome = training.outcomes[test]
        test_ns = outcome and outcome.test_ns
        if test_ns != steps.window_ns or int(steps.times_ns.sum()) != steps.window_ns:
            yield mismatch(
                f"test_ns of the {test} test",
                test_ns,
                steps.window_ns,
                "its steps add up to",
                file=f"raw/{test}/outcome.json",
            )


def _count(training: TrainingRun) -> Iterator[Fault]:
    steps, least = training.steps["performance"], limits()["least_steps"]
    if steps is None or steps.count < least:
        yield mismatch(
            "the number of timed steps",
            steps and steps.count,
            f"{least} or more",
            "mode valid takes",
        )


def _window(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault if the framework's loop went on after its last step for longer than the end of
    an epoch may take.

    The time counts from when the device had finished the last step.
    """
    steps, tail = training.steps["performance"], limits()["tail"]
    if steps is None:
        yield Fault("the performance test left no steps that can be read")
        return
    took_s = (steps.returned_ns - steps.closed_ns - steps.queued_ns) / 1e9
    most_s = tail["window_fraction"] * steps.window_ns / 1e9 + tail["seconds"]
    if took_s > most_s:
        text = (
            f"the framework's loop and its device went on for {took_s:.3g} s after the last step"
            f" was said to be done; {most_s:.3g} s may"
        )
        yield Fault(text, f"at most {most_s:.3g}", f"{took_s:.3g}")


def _accuracy(training: TrainingRun, record: Record) -> Iterator[Check]:
    tolerance, precision = record.accuracy.tolerance, record.cell.precision
    bounds = limits()["tolerance_of_lora" if record.cell.lora else "tolerance"].get(precision, {})
    loose = [
        mismatch(
            f"accuracy.tolerance.{name}",
            tolerance.get(name),
            f"at most {bounds.get(name)}",
            f"{precision} may have",
        )
        for name in ("first_loss_error", "loss_error")
        if not _number(tolerance.get(name)) or not tolerance[name] <= bounds.get(name, -1)
    ]
    yield judge(
        "training-tolerance",
        loose,
        "within this project's limits",
        file="record.json",
        fix=fixes.RUN,
    )
    where = {
        "file": "raw/accuracy/steps.json",
        "fix": "mend the SUT: it does not train as the reference does",
    }
    if record.no_reference:
        why = f"there is no reference to compare with: {shorten(record.accuracy.reason)}"
        yield manual("training-loss", why, **where)
    else:
        score, fault = files.reckon(lambda: loss_score(training))
        wrong = (
            [fault]
            if score is None
            else []
            if score.passed
            else [f"{score.line()}: the losses leave the reference's"]
        )
        yield judge("training-loss", wrong, score.line() if score else "", **where)
    yield judge(
        "training-while-timed",
        _while_timed(training, record),
        "the timed run's losses are the accuracy test's",
        **where,
    )
    yield judge(
        "training-held-out",
        _held_out(training, record),
        "both runs' losses on batches that are held out are right",
        **where,
    )


def loss_score(training: TrainingRun) -> loss_curve.Accuracy:
    """The score of the accuracy test's losses. Raises ValueError if there is nothing to compare."""
    steps = training.steps["accuracy"]
    if steps is None or training.reference is None or training.record is None:
        raise ValueError("steps, reference or record are missing")
    return loss_curve.score(
        steps.losses, training.reference["loss"], training.record.accuracy.tolerance
    )


def _held_out(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Compare the losses on held-out batches after the training with those of the reference, or
    with those of the accuracy test if there is no reference.
    """
    limit, each = record.accuracy.tolerance.get("loss_error"), training.steps["accuracy"]
    if (
        each is None
        or len(each.losses) < 3
        or not _number(limit)
        or not (training.reference or record.no_reference)
    ):
        yield Fault("there are no losses to compare, or no tolerance")
        return
    losses, held_out = (
        (training.reference[key] for key in ("loss", "held_out"))
        if training.reference
        else (each.losses, each.held_out)
    )
    with np.errstate(all="ignore"):  # a value that is not finite gives NaN, which is never close
        allowed = limit * float(np.std(losses))
    for test, steps in training.steps.items():
        found = steps.held_out if steps else ()
        close = len(found) == len(held_out) and all(
            abs(a - b) <= allowed for a, b in zip(found, held_out, strict=True)
        )
        if not (found and close):
            values, expected = (
                " ".join(f"{loss:.7g}" for loss in row) or "nothing" for row in (found, held_out)
            )
            yield mismatch(
                "the losses held out",
                values,
                f"{expected}, ± {allowed:.2g}",
                f"in the {test} test they have to be",
            )


def _log(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault at the first line of the log that differs from the log computed from steps,
    record and job.
    """
    steps, job = training.steps["performance"], training.jobs["performance"]
    expected, fault = files.reckon(
        lambda: (
            mllog.lines(steps, training.record, job) if steps and training.record and job else None
        )
    )
    if expected is None:
        yield Fault(f"it cannot be told what has to stand in it: {fault}")
        return
    whole = "".join(expected).encode()
    found, fault = files.attempt(
        lambda path: _start_of(path, len(whole) + 1), training.directory / FOLDER / LOG
    )
    if found != whole:
        other = (found or b"").decode(errors="replace").splitlines(keepends=True)
        number = next(
            (n for n, (a, b) in enumerate(zip(expected, other, strict=False), 1) if a != b),
            min(len(expected), len(other)) + 1,
        )
        yield Fault(
            fault or f"line {number} is not what steps, record and job make it", line=number
        )


def _start_of(path: Path, count: int) -> bytes:
    with path.open("rb") as f:
        return f.read(count)


def _while_timed(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Compare the two losses of the timed run with those of the accuracy test: the loss of the
    first step and the mean of the others.
    """
    timed, each = training.steps["performance"], training.steps["accuracy"]
    limit = record.accuracy.tolerance.get("loss_error")
    if (
        timed is None
        or each is None
        or len(timed.losses) != 2
        or len(each.losses) < 3
        or not _number(limit)
    ):
        yield Fault("a test left no losses, or not those it has to leave")
        return
    expected = (each.losses[0], float(np.mean(each.losses[1:])))
    allowed = limits()["timed_loss"] * limit * float(np.std(each.losses))
    for what, value, other in zip(
        ("the loss of the first step", "the mean loss of the others"),
        timed.losses,
        expected,
        strict=True,
    ):
        if not abs(value - other) <= allowed:
            yield mismatch(
                what,
                f"{value:.7g} in the timed run",
                f"{other:.7g} ± {allowed:.2g}",
                "in the accuracy test it is",
            )


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _evidence(training: TrainingRun, record: Record) -> Iterator[Check]:
    execution, precision = record.execution, record.cell.precision
    rule = limits()["evidence"].get(execution)
    faults: list[Fault | str] = []
    if not rule:
        faults.append(f"there is no rule for the execution {shorten(execution)}")
    lower: list[Fault | str] = []
    for test, outcome in training.outcomes.items():
        before = outcome.evidence_before if outcome else None
        after = outcome.evidence_after if outcome else None
        if before is None or after is None:
            faults.append(f"the {test} test left no evidence")
            lower.append(f"the {test} test left no evidence")
            continue
        if rule:
            found, why = files.reckon(
                partial(evidence.findings, EvidenceRule(**rule), before, after, execution)
            )
            faults += [
                Fault(f"{test}: {text}", file=f"raw/{test}/outcome.json")
                for text in (found if found is not None else [why])
            ]
        seen = {before.get("precision"), after.get("precision")}
        if seen != {precision}:
            lower.append(
                mismatch(
                    f"the precision of the {test} test",
                    ", ".join(sorted(map(str, seen))),
                    precision,
                    "the cell says",
                )
            )
    yield judge(
        "training-evidence",
        faults,
        f"{execution}: what the watched steps ran",
        file="raw/performance/outcome.json",
    )
    yield judge(
        "training-precision",
        lower,
        f"{precision}, read off weights and products",
        file="raw/performance/outcome.json",
    )


def _speed(training: TrainingRun, record: Record) -> Check:
    """Judge whether the model can have been trained so fast.

    The model's operations a second are compared with those of a large matrix product.
    """
    steps, outcome = training.steps["performance"], training.outcomes["performance"]
    product = ((outcome.evidence_after if outcome else None) or {}).get("matrix_flops")
    if steps is None or record.least_flops is None or not _number(product) or not product > 0:
        return not_applicable(
            "training-speed",
            "nobody knows the model's operations, or how fast the framework multiplies",
        )
    reached = (
        passes(record.cell.lora)
        * record.least_flops
        * step_files.figures(steps)["samples_per_second"]
    )
    text = f"{reached / 1e9:.3g} GFLOP/s at least; a large product has {product / 1e9:.3g}"
    faults = (
        [f"{text}: it did not train"]
        if reached > limits()["faster_than_products"] * product
        else []
    )
    return judge("training-speed", faults, text, file="raw/performance/steps.json")


def _result(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Yield a fault for each contradiction of result.json with record and steps. There is none yet
    while result.json is being computed.
    """
    result, steps, outcome = (
        training.result,
        training.steps["performance"],
        training.outcomes["performance"],
    )
    if why := training.faults.get("result.json"):
        yield Fault(why)
    if result is None or steps is None or outcome is None:
        return
    yield from results.copied(result, record, outcome)
    rates, samples = step_files.figures(steps), steps.count * steps.batch_size
    sample_passes = passes(record.cell.lora)
    yield from results.other_figures(
        result,
        lambda: figures.of_training(
            rates,
            samples=samples,
            batches=steps.count,
            record=record,
            outcome=outcome,
            figure=FIGURES["Fit"],
            passes=sample_passes,
        ),
    )
    score, _ = files.reckon(lambda: loss_score(training))
    passed = score is not None and score.passed
    if result.accuracy and result.accuracy.get("passed") is True and not passed:
        yield mismatch("accuracy.passed", True, False, "the losses make it")
    if result.ranked and (record.cell.size == "tiny" or not passed):
        yield mismatch("ranked", True, False, "size and losses make it")
