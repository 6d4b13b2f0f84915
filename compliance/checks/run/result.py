"""The check that compares the workers' outcomes with the logs, and computes the figures of
result.json again from its sources.

The sources are record.json, outcomes and logs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import judge, mismatch, not_applicable, shorten
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject
from formats import computing, figures
from formats.checks import Check, Fault
from formats.figures import FIGURES, Figures
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Metric, Result

_ALWAYS = ("samples_per_second", "ms_per_step", "ms_per_denoising_step", "tokens_per_second")
"""Figures of `metrics` that have to be there."""
_COMPUTING = (
    "flops_per_second",
    "matrix_share",
    "bytes_per_second",
    "flops_per_byte",
    "bandwidth_share",
    "operators_per_batch",
)

_LEAST_OF_WORK = 0.8
"""The work is counted on six of the lengths of a data set, and `least_flops` follows from all."""
_MOST_OF_ROOF = 10.0
"""How many times the kept rate of a matrix product a worker may reach. Another program may have
slowed down the measurement of the limits, but not so much.
"""


def check(subject: Subject) -> Check:
    """The check of every worker's outcome, and of result.json."""
    if subject.record is None:
        return not_applicable("outcomes-and-result", subject.no_record)
    faults: list[Fault] = []
    for test in (*subject.tests, *subject.compliance.values()):
        faults += _outcome(test, subject)
    faults += _result(subject, subject.record)
    faults += _computed(subject.record, subject.performance.outcome)
    good = "samples and time of every worker are those of its log, and so is the result's figure"
    return judge("outcomes-and-result", faults, good, fix=fixes.RUN)


def clock(subject: Subject) -> Check:
    """The check that nobody set the calendar clock, by which LoadGen measures, during the
    performance test.
    """
    if subject.record is None:
        return not_applicable("clock", subject.no_record)
    fix = "measure again while nothing sets the clock"
    file = "raw/performance/outcome.json"
    faults = _clock_step(subject)
    return judge("clock", faults, "the calendar and the monotonic clock agree", file=file, fix=fix)


def _clock_step(subject: Subject) -> Iterator[Fault]:
    """Yield a fault if the worker saw that the clock was set, or if more time passed for LoadGen
    than for the worker, whose time includes LoadGen's.
    """
    outcome, logged_ms = subject.performance.outcome, _logged_ms(subject.performance)
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
    step_s = outcome.disturbance.get("clock_step_seconds", 0.0)
    return step_s if isinstance(step_s, float) else 0.0


def _outcome(test: LoadGenRun, subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each contradiction between a worker's outcome and its log. The check
    `worker-outcomes` judges a failed outcome.
    """
    outcome, file = test.outcome, f"raw/{test.name}/outcome.json"
    if outcome is None:
        raw = subject.place.raw(test.name)
        if raw and (raw / "outcome.json").exists():
            yield Fault(f"{test.name}: {test.faults['outcome.json']}", file=file)
        return
    if outcome.status != "ok":
        return
    count, samples = outcome.answered.get("samples"), _issued_samples(test, subject.scenario)
    if samples is not None and count != samples:
        what = f"{test.name}: answered.samples"
        yield mismatch(what, repr(count), f"{samples:.0f}", "LoadGen issued", file=file)
    logged = _logged_ms(test)
    if logged is None:
        return
    logged -= 1e3 * _clock_step_s(outcome)
    slack = subject.rules.project_limits.outcome_slack
    most = logged * (1 + slack["fraction"]) + 1e3 * slack["seconds"]
    if not logged <= outcome.test_ns / 1e6 <= most:
        expected = f"{logged * 1e6:.0f} to {most * 1e6:.0f}"
        what, who = f"{test.name}: test_ns", "by the log's own time it is"
        yield mismatch(what, outcome.test_ns, expected, who, file=file)


def _issued_samples(test: LoadGenRun, scenario: str) -> float | None:
    """The number of samples that a test issued, by its log; None if the log does not say."""
    if test.name != "accuracy":
        return counts.samples(test.detail, scenario)
    sets = counts.logged_sets(test.detail, scenario)
    if sets is None:
        return test.detail.number("effective_accuracy_sample_count")
    return counts.accuracy_samples(sets, test.detail, scenario)


def _logged_ms(test: LoadGenRun) -> float | None:
    """The time of the log's last entry, in milliseconds; None if no entry has a time."""
    lines = chain.from_iterable(test.detail.occurrences.values())
    return max((line.time_ms for line in lines if math.isfinite(line.time_ms)), default=None)


def _computed(record: Record, outcome: WorkerOutcome | None) -> Iterator[Fault]:
    """Yield a fault for counted work and for limits of the machine that contradict other facts of
    the run. The shares of the machine are computed from them.
    """
    if record.work and record.least_flops:
        flops = record.work.of_sample(record.new_tokens_per_sample).all_flops
        least = _LEAST_OF_WORK * record.least_flops
        if flops < least:
            text = f"record.json: work counts {flops:.4g} operations of a sample"
            who = f"its weights and lengths need {record.least_flops:.4g}"
            yield Fault(f"{text}; {who}", f"{least:.4g}", f"{flops:.4g}", "record.json")
    after = (outcome.evidence_after if outcome else None) or {}
    rate = after.get("matrix_flops")
    if record.roof and rate and rate > _MOST_OF_ROOF * record.roof.matrix_flops:
        text = f"record.json: roof has {record.roof.matrix_flops:.4g} operations a second"
        who = f"the worker's own product reached {rate:.4g}: ./run.sh doctor --limits --again"
        yield Fault(f"{text}; {who}", f"{rate:.4g}", "", "record.json")


def _result(subject: Subject, record: Record) -> Iterator[Fault]:
    """Yield a fault for each contradiction between result.json and its sources. result.json is
    written after the audit, with the audit's counts.
    """
    path = subject.place.result
    if path and (path.exists() or path.is_symlink()):
        result, why = files.attempt(files.result, path)
        faults = [Fault(why)] if result is None else [*_contradictions(result, subject, record)]
        for fault in faults:
            yield replace(fault, text=f"result.json: {fault.text}", file="result.json")


def _contradictions(result: Result, subject: Subject, record: Record) -> Iterator[Fault]:
    yield from copied(result, record, subject.performance.outcome)
    detail, outcome = subject.performance.detail, subject.performance.outcome
    verdict = shorten(detail.get("result_validity"))
    if result.loadgen is not None and shorten(result.loadgen).partition(":")[0] != verdict:
        yield mismatch("loadgen", repr(result.loadgen), verdict, "the log says")
    figure = FIGURES.get(subject.place.scenario)
    if figure and outcome:
        yield from other_figures(
            result, lambda: figures.of_loadgen(detail, record, outcome, figure, 1)
        )
    lines = (subject.accuracy_text or "").split("\n")
    if record.official:
        line = shorten(result.official.get("line"))
        if line != shorten(lines[0]):
            yield mismatch("official.line", line, shorten(lines[0]), "accuracy.txt says")
        lines = lines[1:]
    score_line = lines[0] if lines else ""
    passed = result.accuracy and result.accuracy.get("passed") is True
    if passed and '"passed": true' not in score_line:
        yield mismatch("accuracy.passed", True, shorten(score_line), "accuracy.txt says")
    if result.ranked and (why := _unranked(result, subject, record)):
        yield Fault(f"ranked is true, and {why}", "false", "true")


def copied(result: Result, record: Record, outcome: WorkerOutcome | None) -> Iterator[Fault]:
    """Yield a fault for each value of result.json that differs from its original in record.json or
    the performance test's outcome.
    """
    for key in ("cell", "mode", "round"):
        value, original = getattr(result, key), getattr(record, key)
        if value != original:
            yield mismatch(key, repr(value), repr(original), "record.json has")
    if outcome is None:
        return
    who = "raw/performance/outcome.json has"
    after = result.evidence.get("after")
    if after != (outcome.evidence_after or {}):
        yield mismatch("evidence.after", after, outcome.evidence_after, who)
    for key in ("peak_host_bytes", "energy", "disturbance"):
        value, original = getattr(result, key), getattr(outcome, key)
        if value != original:
            yield mismatch(key, value, original, who)


def other_figures(result: Result, make: Callable[[], Figures]) -> Iterator[Fault]:
    """Yield a fault for each figure of result.json that differs from the one that `make` computes
    from its sources.
    """
    expected, why = files.reckon(make)
    if expected is None:
        yield Fault(f"its figures cannot be computed again: {why}")
        return
    metric, right, who = result.metric, expected.metric, "its sources give"
    if right and not _same_kind(metric, right):
        yield mismatch("metric", metric and metric.name, right.name, who)
    elif right and metric and not _close(metric.value, right.value):
        yield mismatch("metric", f"{metric.name} {metric.value}", f"{right.value:g}", who)
    stated = {name for name in (*expected.metrics, *_COMPUTING) if name in result.metrics}
    required = {name for name in _ALWAYS if name in expected.metrics}
    for name in sorted(stated | required):
        figure, value = result.metrics.get(name), expected.metrics.get(name)
        if not _close(figure, value):
            yield mismatch(f"metrics.{name}", figure, value, who)
    binds = computing.binds(expected.metrics)
    if result.binds not in ("", binds):
        yield mismatch("binds", result.binds, binds, who)
    for name, value in expected.measured.items():
        figure = result.measured.get(name)
        if not _close(figure, value):
            yield mismatch(f"measured.{name}", figure, value, who)


def _same_kind(metric: Metric | None, other: Metric) -> bool:
    if metric is None:
        return False
    return (metric.name, metric.higher_is_better) == (other.name, other.higher_is_better)


def _close(figure: Any, value: float | None) -> bool:
    if figure is None or value is None:
        return False
    return math.isclose(figure, value, rel_tol=1e-6, abs_tol=1e-12)


def _unranked(result: Result, subject: Subject, record: Record) -> str:
    """Why the figure may not be compared with others, as far as files show it; empty if they show
    no reason.
    """
    if record.cell.size == "tiny":
        return "size tiny shows that a cell works, and no more"
    if record.digests.weights_source == "none":
        return "the SUT reads no weights"
    if subject.performance.detail.get("result_validity") != "VALID":
        return "LoadGen does not call it VALID"
    if result.accuracy is None:
        return "its accuracy was not judged"
    return "unranked names reasons against it" if result.unranked else ""
