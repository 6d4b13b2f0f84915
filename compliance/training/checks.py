"""The checks of a training's run directory. Step times, losses and figures are computed again from
the workers' files.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from compliance.checks.run import evidence
from compliance.checks.run.answers_while_measuring import UNKNOWN_SPEED, speed
from compliance.checks.run.record import Pairs, differing, of_jobs
from compliance.checks.submission import dates_and_digests
from compliance.findings.check import differs, judge, mismatch, not_applicable, shorten
from compliance.logs import files
from compliance.rules import EvidenceRule
from compliance.training import losses
from compliance.training import steps as step_files
from compliance.training.run_directory import TrainingRun, limits, passes
from formats.checks import Check, Checks, Fault, Faults, ResultLine
from formats.record import Record


def line(training: TrainingRun) -> ResultLine:
    """Return the result that the directory states. A field is empty if record.json cannot be
    read.
    """
    record = training.record
    steps = training.steps["performance"]
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


def checks(training: TrainingRun) -> Checks:
    """Every check of a training."""
    files_check = judge("training-files", _files(training), "all files are there")
    record = training.record
    if record is None:
        return [files_check]
    steps_file = "raw/performance/steps.json"
    good = _sum(training)
    return [
        files_check,
        judge(
            "training-record",
            _record(training, record),
            "record.json, jobs and step files agree",
            "record.json",
        ),
        judge("training-steps", _steps(training), good, steps_file),
        judge("training-step-count", _count(training), good, steps_file),
        judge(
            "training-window",
            _window(training),
            "no work was left when the window closed",
            steps_file,
        ),
        *losses.checks(training, record),
        *_evidence(training, record),
        _speed(training, record),
    ]


def _files(training: TrainingRun) -> Faults:
    for name, fault in training.faults.items():
        yield Fault(fault, file=name)
    record = training.record
    if record and not record.no_reference:
        yield from dates_and_digests.reference(training.directory / "reference.npz", record)


def _record(training: TrainingRun, record: Record) -> Faults:
    """Yield a fault for each contradiction between record, jobs and step files."""
    cell = record.cell
    trained = record.training
    jobs = {test: job for test, job in training.jobs.items() if job}
    if len(jobs) < len(training.jobs):
        yield Fault("a job.json is missing")
        return
    yield from of_jobs(record, jobs, training.outcomes["performance"])
    if trained is None:
        yield Fault("record.json does not say what is trained")
        return
    parameters = trained.parameters
    expected: Pairs = {}
    for test, steps in training.steps.items():
        if steps is None:
            continue
        samples = steps.total * steps.batch_size
        expected[f"batch size of the {test} test's steps"] = (steps.batch_size, cell.batch_size)
        expected[f"steps of the {test} test, times the batch size"] = (samples, record.qsl.samples)
        if record.digests.weights_source != "none":
            expected[f"trained parameters of the {test} test"] = (steps.trainable, parameters)
    if not cell.lora and not trained.part:
        expected["training.parameters"] = (parameters or "missing", record.parameters)
    if record.qsl.synthetic:
        expected["training.seed"] = (trained.seed, limits()["seed"])
    yield from differing(expected, "by record.json it is")


def _sum(training: TrainingRun) -> str:
    steps = training.steps["performance"]
    if steps is None:
        return "the performance test left no steps"
    seen = "step by step"
    if not steps.seen:
        seen = "as a whole: the last one was long, because the framework runs ahead of its device"
    return f"{steps.count} steps in {steps.window_ns / 1e9:.4g} s, {seen}"


def _steps(training: TrainingRun) -> Faults:
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
        if any(b < a for a, b in pairwise(marks)):
            yield Fault(f"the times of the {test} test do not ascend", file=where)
        if steps.queued_ns > 1.1 * (steps.returned_ns - steps.closed_ns) + 1e6:
            yield Fault(f"the {test} test waited in a queue for longer than it took", file=where)
        if steps.input_ns > steps.returned_ns - steps.began_ns:
            text = f"the {test} test took longer to hand over its batches than it lasted"
            yield Fault(text, file=where)
        outcome = training.outcomes[test]
        test_ns = outcome and outcome.test_ns
        sum_ns = steps.window_ns
        if test_ns != sum_ns or int(steps.times_ns.sum()) != sum_ns:
            what = f"test_ns of the {test} test"
            file = f"raw/{test}/outcome.json"
            yield mismatch(what, test_ns, sum_ns, "its steps add up to", file=file)


def _count(training: TrainingRun) -> Faults:
    steps = training.steps["performance"]
    least = limits()["least_steps"]
    if steps is None or steps.count < least:
        what = "the number of timed steps"
        count = steps and steps.count
        yield mismatch(what, count, f"{least} or more", "mode valid requires")


def _window(training: TrainingRun) -> Faults:
    """Yield a fault if the framework's loop went on after its last step for longer than the end of
    an epoch may take.

    The time counts from when the device had finished the last step.
    """
    steps = training.steps["performance"]
    tail = limits()["tail"]
    if steps is None:
        yield Fault("the performance test left no steps that can be read")
        return
    took_s = (steps.returned_ns - steps.closed_ns - steps.queued_ns) / 1e9
    most_s = tail["window_fraction"] * steps.window_ns / 1e9 + tail["seconds"]
    if took_s > most_s:
        sentence = (
            "the framework's loop and its device went on for {found} after the end of the last"
            " step; {expected} are allowed"
        )
        yield differs(sentence, f"{took_s:.3g} s", f"{most_s:.3g} s")


def _evidence(training: TrainingRun, record: Record) -> Iterator[Check]:
    execution = record.execution
    precision = record.cell.precision
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
        seen = {before.precision, after.precision}
        if seen != {precision}:
            names = ", ".join(sorted(seen))
            what = f"the precision of the {test} test"
            lower.append(mismatch(what, names, precision, "the cell says"))
    file = "raw/performance/outcome.json"
    yield judge("training-evidence", faults, f"{execution}, by the watched steps", file)
    good = f"{precision}, seen on weights and products"
    yield judge("training-precision", lower, good, file)


def _speed(training: TrainingRun, record: Record) -> Check:
    """Judge whether the model can have been trained so fast.

    The model's operations a second are compared with those of a large matrix product.
    """
    steps = training.steps["performance"]
    outcome = training.outcomes["performance"]
    evidence_after = outcome.evidence_after if outcome else None
    product = evidence_after.matrix_flops if evidence_after else None
    if steps is None or record.least_flops is None or not product or product <= 0:
        return not_applicable("training-speed", UNKNOWN_SPEED)
    rate = step_files.figures(steps)["samples_per_second"]
    reached = passes(record.cell.lora) * record.least_flops * rate
    most = limits()["faster_than_products"] * product
    where = {"file": "raw/performance/steps.json"}
    return speed("training-speed", reached, product, most, "train", where)
