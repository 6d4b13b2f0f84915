"""The checks of how long a test measured, and whether it measured whole batches.

The time is taken from three clocks, which must agree: the latencies, the calendar and the log's own
time.
"""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import judge, not_applicable
from compliance.loadgen import counts
from compliance.loadgen.duration import last_issue_ns, one_by_one_ns
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.rules import Rules
from compliance.subject import Subject
from formats.checks import Check, Fault

# Allowed idle time: how much longer than its logged work a test may take. This limit is this
# project's, not MLPerf's.
_IDLE, _IDLE_S = 0.05, 10.0
# The least number of batches of a quick run. A round requires far more.
_LEAST_BATCHES = 3


def performance(subject: Subject) -> Check:
    """The check that the performance test's latencies and the passed time agree."""
    detail, file = (
        subject.performance.detail,
        subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
    )
    good = "the latencies fit into the time that passed"
    return judge(
        "duration",
        _duration(detail, subject.scenario, subject.rules),
        good,
        file=file,
        fix=fixes.FIGURES,
    )


def accuracy(subject: Subject) -> Check:
    """The check that calendar and log give the same duration of the accuracy test."""
    return judge(
        "accuracy-duration",
        _clocks(subject.accuracy.detail, subject.rules),
        "calendar and log agree",
        file=subject.place.show(subject.accuracy.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def measured(subject: Subject) -> Check:
    """The check that the performance test measured as long as the round requires."""
    return judge(
        "measured-duration",
        _long_enough(subject.performance.detail, subject.scenario, subject.rules),
        f"at least {_least_s(subject.rules, subject.scenario):g} s",
        file=subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.VALID,
    )


def _duration(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """Yield a fault for each contradiction between the latencies, the calendar (power_begin,
    power_end) and the log's own time.
    """
    issued, wall_s = last_issue_ns(detail, scenario), wall_seconds(detail)
    if issued is None or wall_s is None:
        yield "the latencies, power_begin or power_end are missing or no dates"
        return
    busy_s = max(issued[0], one_by_one_ns(detail, scenario)) / 1e9
    if busy_s > wall_s + rules.dates.clock_tolerance_s:
        text = (
            f"the latencies add up to {busy_s:.3f} s and {wall_s:.3f} s passed between power_begin"
            " and power_end"
        )
        yield Fault(
            text, f"at most {wall_s:.3f} s", f"{busy_s:.3f} s", line=detail.line("power_end")
        )
    # The last answer comes after the last issue. Offline's figure is the time of the last answer
    # already.
    tail_s = 0 if scenario == "Offline" else (detail.number("result_max_latency_ns") or 0) / 1e9
    most_s = (1 + _IDLE) * (
        max(issued[1], one_by_one_ns(detail, scenario)) / 1e9 + tail_s
    ) + _IDLE_S
    if wall_s > most_s:
        text = (
            f"{wall_s:.3f} s passed between power_begin and power_end, and the figures tell of"
            f" {busy_s:.3f} s"
        )
        yield Fault(
            text, f"at most {most_s:.3f} s", f"{wall_s:.3f} s", line=detail.line("power_end")
        )
    yield from _clocks(detail, rules)
    line = detail.occurrences.get("result_validity", ())
    if line and not busy_s * 1e3 <= line[-1].time_ms + rules.dates.clock_tolerance_s * 1e3:
        clock_s = line[-1].time_ms / 1e3
        text = (
            f"the latencies add up to {busy_s:.3f} s and the log's own clock stands at"
            f" {clock_s:.3f} s"
        )
        yield Fault(text, f"at most {clock_s:.3f} s", f"{busy_s:.3f} s", line=line[-1].number)


def _clocks(detail: Detail, rules: Rules) -> Iterator[Fault]:
    """Yield a fault if calendar and log differ between the last generation of queries and
    power_end. NTP may move the calendar a little.
    """
    begin, end, wall_s = (
        detail.occurrences.get("generated_query_duration"),
        detail.occurrences.get("power_end"),
        wall_seconds(detail),
    )
    if not begin or not end or wall_s is None:
        return
    spent_s = (end[-1].time_ms - begin[-1].time_ms) / 1e3
    if not abs(spent_s - wall_s) <= 10 * rules.dates.clock_tolerance_s + 1e-2 * wall_s:
        text = (
            f"{wall_s:.3f} s passed between power_begin and power_end by the calendar, and"
            f" {spent_s:.3f} s by the log's own clock"
        )
        yield Fault(text, f"{wall_s:.3f} s", f"{spent_s:.3f} s", line=end[-1].number)


def _long_enough(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """Yield a fault if the measured time is certainly shorter than the round requires. If six
    digits do not decide it, LoadGen's own verdict counts.
    """
    passed_ns, least_s = last_issue_ns(detail, scenario), _least_s(rules, scenario)
    if passed_ns is None or passed_ns[1] / 1e9 < least_s:
        passed_text = "unknown" if passed_ns is None else f"{passed_ns[1] / 1e9:.3f} s"
        yield Fault(
            f"{passed_text}; the round asks for {least_s:g} s",
            f"at least {least_s:g} s",
            passed_text,
        )


def _least_s(rules: Rules, scenario: str) -> float:
    return rules.scenarios[scenario].min_duration_ms / 1e3


def whole_batches(subject: Subject) -> Check:
    """The check that Offline was measured on whole batches. A padded batch costs as much as a full
    one and has fewer samples.

    It reports the padding, and fails a quick run with padding.
    """
    file = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    where = {"file": file, "fix": "measure again: the harness chooses whole batches by itself"}
    record = subject.record
    if subject.scenario != "Offline" or record is None:
        why = (
            f"{subject.scenario} has none"
            if record is not None
            else "no record says what the batch size is"
        )
        return not_applicable("whole-batches", why, **where)
    size = record.cell.batch_size
    samples, batches = counts.batches(subject.performance.detail, subject.scenario, size)
    if samples is None or batches is None:
        return judge(
            "whole-batches", ["the number of samples or the batch size is missing"], "", **where
        )
    rows = batches * size
    padding = (rows - samples) / rows
    summary = f"{samples} samples in {batches} batches, " + (
        f"{padding:.2%} of their rows padding" if padding else "no padding"
    )
    faults = _padding(samples, batches, rows) if record.mode == "quick" else ()
    return judge("whole-batches", faults, summary, **where)


def _padding(samples: int, batches: int, rows: int) -> Iterator[Fault]:
    if samples != rows:
        text = (
            f"{samples} samples are no whole number of batches: {rows - samples} of the {rows} rows"
            f" of {batches} batches are padding"
        )
        yield Fault(text, str(rows), str(samples))
    if batches < _LEAST_BATCHES:
        yield Fault(
            f"a figure of {batches} batch(es); a quick run has {_LEAST_BATCHES} at least",
            f"at least {_LEAST_BATCHES}",
            str(batches),
        )
