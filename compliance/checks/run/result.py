"""The checks that compare the workers' outcomes with the logs."""

from __future__ import annotations

import math
from itertools import chain

from compliance.findings.check import judge, mismatch
from compliance.loadgen.log import Log
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults
from formats.outcome import WorkerOutcome
from formats.record import Record

_LEAST_OF_WORK = 0.8
"""The work is counted on six of the lengths of a data set, and `least_flops` follows from all."""
_MOST_OF_ROOF = 10.0
"""How many times the kept rate of a matrix product a worker may reach. Another program may have
slowed down the measurement of the limits, but not so much.
"""


def check(subject: Subject) -> Check:
    """The check of every worker's outcome."""
    faults: list[Fault | str] = []
    for test in (*subject.tests, *subject.compliance.values()):
        faults += _outcome(test, subject)
    faults += _computed(subject.recorded, subject.performance.outcome)
    good = "samples and time of every worker are those of its log"
    return judge("outcomes-and-result", faults, good)


def clock(subject: Subject) -> Check:
    """The check that nobody set the calendar clock, by which LoadGen measures, during the
    performance test.
    """
    good = "the calendar and the monotonic clock agree"
    return judge("clock", _clock_step(subject), good, "raw/performance/outcome.json")


def _clock_step(subject: Subject) -> Faults:
    """Yield a fault if the worker saw that the clock was set, or if more time passed for LoadGen
    than for the worker, whose time includes LoadGen's.
    """
    outcome = subject.performance.outcome
    logged_ms = _logged_ms(subject.performance)
    if outcome is None or outcome.status != "ok" or logged_ms is None:
        return
    passed_s = outcome.test_ns / 1e9
    slack = subject.rules.project_limits.clock_step
    most_s = slack["seconds"] + slack["fraction"] * passed_s
    step_s = _clock_step_s(outcome)
    step_s += max(0.0, logged_ms / 1e3 - step_s - passed_s)
    if not abs(step_s) <= most_s:
        text = (
            f"the calendar, by which LoadGen measures, was set by {step_s:+.3g} s in a test of"
            f" {passed_s:.3g} s"
        )
        yield Fault(text, f"at most {most_s:.3g} s", f"{step_s:.3g} s")


def _clock_step_s(outcome: WorkerOutcome) -> float:
    """By how much the worker saw the calendar clock set."""
    return outcome.disturbance.clock_step_seconds if outcome.disturbance else 0.0


def _outcome(test: LoadGenRun, subject: Subject) -> Faults:
    """Yield a fault for each contradiction between a worker's outcome and its log. The check
    `worker-outcomes` judges a failed outcome.
    """
    outcome = test.outcome
    file = f"raw/{test.name}/outcome.json"
    if outcome is None:
        raw = subject.place.raw(test.name)
        if raw and (raw / "outcome.json").exists():
            yield Fault(f"{test.name}: {test.faults['outcome.json']}", file=file)
        return
    if outcome.status != "ok":
        return
    count = outcome.answered.get("samples")
    samples = _issued_samples(test, subject.log_of(test))
    if samples is not None and count != samples:
        what = f"{test.name}: answered.samples"
        yield mismatch(what, repr(count), f"{samples:.0f}", "LoadGen issued", file=file)
    each = outcome.replicas.each if outcome.replicas else ()
    of_replicas = sum(replica.samples for replica in each)
    if each and of_replicas != count:
        what = f"{test.name}: the samples of all replicas"
        yield mismatch(what, of_replicas, count, "the worker answered", file=file)
    logged = _logged_ms(test)
    if logged is None:
        return
    logged -= 1e3 * _clock_step_s(outcome)
    slack = subject.rules.project_limits.outcome_slack
    most = logged * (1 + slack["fraction"]) + 1e3 * slack["seconds"]
    if not logged <= outcome.test_ns / 1e6 <= most:
        expected = f"{logged * 1e6:.0f} to {most * 1e6:.0f}"
        what = f"{test.name}: test_ns"
        who = "by the log's own time it is"
        yield mismatch(what, outcome.test_ns, expected, who, file=file)


def _issued_samples(test: LoadGenRun, log: Log) -> float | None:
    """The number of samples that a test issued, by its log; None if the log does not say."""
    if test.name != "accuracy":
        return log.samples
    sets = log.sets
    if sets is None:
        return log.number("effective_accuracy_sample_count")
    return log.accuracy_samples(sets)


def _logged_ms(test: LoadGenRun) -> float | None:
    """The time of the log's last entry, in milliseconds; None if no entry has a time."""
    lines = chain.from_iterable(test.detail.occurrences.values())
    return max((line.time_ms for line in lines if math.isfinite(line.time_ms)), default=None)


def _computed(record: Record, outcome: WorkerOutcome | None) -> Faults:
    """Yield a fault for counted work and for limits of the machine that contradict other facts of
    the run. The shares of the machine are computed from them.
    """
    least_flops = record.least_flops
    if record.work and least_flops:
        flops = record.work.of_sample(record.new_tokens_per_sample).all_flops
        least = _LEAST_OF_WORK * least_flops
        if flops < least:
            text = f"record.json: work counts {flops:.4g} operations of a sample"
            who = f"its weights and lengths need {least_flops:.4g}"
            yield Fault(f"{text}; {who}", f"{least:.4g}", f"{flops:.4g}", "record.json")
    after = outcome.evidence_after if outcome else None
    rate = after.matrix_flops if after else None
    roof = record.roof
    if roof and rate and rate > _MOST_OF_ROOF * roof.matrix_flops:
        text = f"record.json: roof has {roof.matrix_flops:.4g} operations a second"
        who = f"the worker's own product reached {rate:.4g}: ./run.sh doctor --limits --again"
        yield Fault(f"{text}; {who}", f"{rate:.4g}", "", "record.json")
