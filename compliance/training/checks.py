"""The checks of a training's run directory. Step times, losses and figures are computed again from
the workers' files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any

from compliance.checks.run import evidence
from compliance.checks.run import result as results
from compliance.checks.run.answers_while_measuring import UNKNOWN_SPEED
from compliance.findings import fixes
from compliance.findings.check import judge, mismatch, not_applicable, shorten
from compliance.logs import files
from compliance.rules import EvidenceRule
from compliance.training import losses
from compliance.training import steps as step_files
from compliance.training.run_directory import TrainingRun, limits, passes
from formats import figures
from formats.cell import IN_WORKLOAD
from formats.checks import Check, Fault, ResultLine
from formats.figures import FIGURES
from formats.job import Job
from formats.record import Record

# The fields of a job that may differ between the two tests. A training is not calibrated.
_OF_A_TEST = ("test", "log_dir", "calibration")
_LARGEST_REFERENCE = 64 << 20
_VALID = "measure with --mode valid"


def line(training: TrainingRun) -> ResultLine:
    """Return the result that the directory states. A field is empty if record.json cannot be
    read.
    """
    record, steps = training.record, training.steps["performance"]
    if record is None:
        return ResultLine(
            place=".", division="none", submitter="", system="", benchmark="", scenario=""
        )
    return ResultLine(
        place=".",
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
    files_check = judge("training-files", _files(training), "all files are there", fix=fixes.RUN)
    record = training.record
    if record is None:
        return [files_check]
    steps_file, good = "raw/performance/steps.json", _sum(training)
    return [
        files_check,
        judge(
            "training-record",
            _record(training, record),
            "record.json, jobs and step files agree",
            file="record.json",
            fix=fixes.OWN,
        ),
        judge("training-steps", _steps(training), good, file=steps_file, fix=fixes.RUN),
        judge("training-step-count", _count(training), good, file=steps_file, fix=_VALID),
        judge(
            "training-window",
            _window(training),
            "no work was left when the window closed",
            file=steps_file,
        ),
        *losses.checks(training, record),
        *_evidence(training, record),
        _speed(training, record),
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
    if record is None or record.no_reference:
        return
    digest = partial(files.bounded_sha256, most=_LARGEST_REFERENCE)
    found, fault = files.attempt(digest, training.directory / "reference.npz")
    if found != record.digests.reference:
        what = "the sha256 of reference.npz"
        expected = record.digests.reference
        yield mismatch(what, fault or found, expected, "record.json has", file="reference.npz")


def _record(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Yield a fault for each contradiction between record, jobs and step files."""
    cell, first, second = record.cell, training.jobs["performance"], training.jobs["accuracy"]
    if not (first and second):
        yield Fault("a job.json is missing")
        return
    for key in sorted({each.name for each in fields(Job)} - {*_OF_A_TEST}):
        one, other = getattr(first, key), getattr(second, key)
        if one != other:
            what = f"{key} of the accuracy test's job"
            yield mismatch(what, other, one, "the performance test has")
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
            yield mismatch(what, value, right, "by record.json it is")


def _sum(training: TrainingRun) -> str:
    steps = training.steps["performance"]
    if steps is None:
        return "the performance test left no steps"
    seen = "step by step"
    if not steps.seen:
        seen = "as a whole: the last one was long, because the framework runs ahead of its device"
    return f"{steps.count} steps in {steps.window_ns / 1e9:.4g} s, {seen}"


def _steps(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault for each test whose times cannot be those of a training.

    The times must be in order, no part may be longer than the whole, and the window must be as long
    as in the worker's report.
    """
    for test, steps in training.steps.items():
        if steps is None:
            text = f"the {test} test left no steps that can be read"
            yield Fault(text, file=f"raw/{test}/steps.json")
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
            yield Fault(f"the {test} test waited in a queue for longer than it took", file=where)
        if steps.input_ns > steps.returned_ns - steps.began_ns:
            text = f"the {test} test took longer to hand over its batches than it lasted"
            yield Fault(text, file=where)
        outcome = training.outcomes[test]
        test_ns, sum_ns = outcome and outcome.test_ns, steps.window_ns
        if test_ns != sum_ns or int(steps.times_ns.sum()) != sum_ns:
            what, file = f"test_ns of the {test} test", f"raw/{test}/outcome.json"
            yield mismatch(what, test_ns, sum_ns, "its steps add up to", file=file)


def _count(training: TrainingRun) -> Iterator[Fault]:
    steps, least = training.steps["performance"], limits()["least_steps"]
    count = steps and steps.count
    if count is None or count < least:
        what = "the number of timed steps"
        yield mismatch(what, count, f"{least} or more", "mode valid requires")


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
            f"the framework's loop and its device went on for {took_s:.3g} s after the end of the"
            f" last step; {most_s:.3g} s are allowed"
        )
        yield Fault(text, f"at most {most_s:.3g}", f"{took_s:.3g}")


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
            compute = partial(evidence.findings, EvidenceRule(**rule), before, after, execution)
            texts, why = files.reckon(compute)
            for text in [why] if texts is None else texts:
                faults.append(Fault(f"{test}: {text}", file=f"raw/{test}/outcome.json"))
        for each in (before, after):
            faults += evidence.thread_faults(each, record.cell)
        seen = {before.get("precision"), after.get("precision")}
        if seen != {precision}:
            names = ", ".join(sorted(map(str, seen)))
            what = f"the precision of the {test} test"
            lower.append(mismatch(what, names, precision, "the cell says"))
    file = "raw/performance/outcome.json"
    yield judge("training-evidence", faults, f"{execution}, by the watched steps", file=file)
    good = f"{precision}, seen on weights and products"
    yield judge("training-precision", lower, good, file=file)


def _speed(training: TrainingRun, record: Record) -> Check:
    """Judge whether the model can have been trained so fast.

    The model's operations a second are compared with those of a large matrix product.
    """
    steps, outcome = training.steps["performance"], training.outcomes["performance"]
    product = ((outcome.evidence_after if outcome else None) or {}).get("matrix_flops")
    unknown = not_applicable("training-speed", UNKNOWN_SPEED)
    if steps is None or record.least_flops is None:
        return unknown
    if not losses.is_number(product) or product <= 0:
        return unknown
    rate = step_files.figures(steps)["samples_per_second"]
    reached = passes(record.cell.lora) * record.least_flops * rate
    text = f"{reached / 1e9:.3g} GFLOP/s at least; a large product has {product / 1e9:.3g}"
    faults = []
    if reached > limits()["faster_than_products"] * product:
        faults.append(f"{text}: it did not train")
    return judge("training-speed", faults, text, file="raw/performance/steps.json")


def _result(training: TrainingRun, record: Record) -> Iterator[Fault]:
    """Yield a fault for each contradiction of result.json with record and steps. There is none yet
    while result.json is being computed.
    """
    result, steps = training.result, training.steps["performance"]
    outcome = training.outcomes["performance"]
    if why := training.faults.get("result.json"):
        yield Fault(why)
    if result is None or steps is None or outcome is None:
        return
    yield from results.copied(result, record, outcome)
    make = partial(
        figures.of_training,
        step_files.figures(steps),
        samples=steps.count * steps.batch_size,
        batches=steps.count,
        record=record,
        outcome=outcome,
        figure=FIGURES["Fit"],
        passes=passes(record.cell.lora),
    )
    yield from results.other_figures(result, make)
    score, _ = files.reckon(lambda: losses.score(training))
    passed = score is not None and score.passed
    if result.accuracy and result.accuracy.get("passed") is True and not passed:
        yield mismatch("accuracy.passed", True, False, "by the losses it is")
    if result.ranked and (record.cell.size == "tiny" or not passed):
        yield mismatch("ranked", True, False, "by size and losses it is")
