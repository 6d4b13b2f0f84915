"""The checks of how long a test measured, and whether it measured whole batches.

The time is taken from three clocks, which must agree: the latencies, the calendar and the log's own
time.
"""

from __future__ import annotations

from compliance.findings.check import differs, failed, judge, not_applicable
from compliance.loadgen.log import Log
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.subject import Subject
from formats.checks import Check, Fault, Faults

# Allowed idle time: how much longer than its logged work a test may take. This limit is this
# project's, not MLPerf's.
_IDLE = 0.05
_IDLE_S = 10.0
# The least number of batches of a quick run. A round requires far more.
_LEAST_BATCHES = 3


def performance(subject: Subject) -> Check:
    """The check that the performance test's latencies and the passed time agree."""
    good = "the latencies fit into the time that passed"
    return judge("duration", _duration(subject.log), good, subject.performance.file)


def accuracy(subject: Subject) -> Check:
    """The check that calendar and log give the same duration of the accuracy test."""
    test = subject.accuracy
    tolerance_s = subject.rules.dates.clock_tolerance_s
    faults = _clocks(test.detail, tolerance_s, slow_loading=subject.place.run is None)
    return judge("accuracy-duration", faults, "calendar and log agree", test.file)


def measured(subject: Subject) -> Check:
    """The check that the performance test measured as long as the round requires. If six digits do
    not decide it, LoadGen's own verdict counts.
    """
    least_s = subject.rules.scenarios[subject.scenario].min_duration_ms / 1e3
    passed_ns = subject.log.last_issue_ns
    good = f"at least {least_s:g} s"
    file = subject.performance.file
    if passed_ns and passed_ns[1] / 1e9 >= least_s:
        return judge("measured-duration", (), good, file)
    passed = f"{passed_ns[1] / 1e9:.3f} s" if passed_ns else "unknown"
    fault = Fault(f"{passed}; the round requires {least_s:g} s", good, passed)
    return failed("measured-duration", fault, file)


def _duration(log: Log) -> Faults:
    """Yield a fault for each contradiction between the latencies, the calendar (power_begin,
    power_end) and the log's own time.
    """
    issued = log.last_issue_ns
    wall_s = wall_seconds(log)
    tolerance_s = log.rules.dates.clock_tolerance_s
    if issued is None or wall_s is None:
        yield "the latencies, power_begin or power_end are missing or no dates"
        return
    busy_s = max(issued[0], log.one_by_one_ns) / 1e9
    line = log.line("power_end")
    busy = f"{busy_s:.3f} s"
    if busy_s > wall_s + tolerance_s:
        text = (
            f"the latencies add up to {busy} and {wall_s:.3f} s passed between power_begin"
            " and power_end"
        )
        yield Fault(text, f"at most {wall_s:.3f} s", busy, line=line)
    # The last answer comes after the last issue. Offline's figure is the time of the last answer
    # already.
    tail_ns = 0 if log.scenario == "Offline" else log.number("result_max_latency_ns") or 0
    work_s = max(issued[1], log.one_by_one_ns) / 1e9 + tail_ns / 1e9
    most_s = (1 + _IDLE) * work_s + _IDLE_S
    if wall_s > most_s:
        sentence = (
            "{found} passed between power_begin and power_end, and the figures account for {busy}"
        )
        most = f"at most {most_s:.3f} s"
        yield differs(sentence, f"{wall_s:.3f} s", most, line=line, busy=busy)
    yield from _clocks(log, tolerance_s)
    for verdict in log.occurrences.get("result_validity", ())[-1:]:
        clock_s = verdict.time_ms / 1e3
        if not busy_s <= clock_s + tolerance_s:
            text = f"the latencies add up to {busy} and the log's own clock to {clock_s:.3f} s"
            yield Fault(text, f"at most {clock_s:.3f} s", busy, line=verdict.number)


def _clocks(detail: Detail, tolerance_s: float, *, slow_loading: bool = False) -> Faults:
    """Yield a fault if calendar and log differ between the last generation of queries and
    power_end. NTP may move the calendar a little.

    Args:
        slow_loading: whether samples may have been loaded for a long time before power_begin, so
            that the log's time may be longer.
    """
    begin = detail.occurrences.get("generated_query_duration")
    end = detail.occurrences.get("power_end")
    wall_s = wall_seconds(detail)
    if not begin or not end or wall_s is None:
        return
    spent_s = (end[-1].time_ms - begin[-1].time_ms) / 1e3
    loaded = slow_loading and spent_s > wall_s
    if not loaded and not abs(spent_s - wall_s) <= 10 * tolerance_s + 1e-2 * wall_s:
        sentence = (
            "{expected} passed between power_begin and power_end by the calendar, and {found} by"
            " the log's own clock"
        )
        yield differs(sentence, f"{spent_s:.3f} s", f"{wall_s:.3f} s", line=end[-1].number)


def whole_batches(subject: Subject) -> Check:
    """The check that Offline was measured on whole batches. A padded batch costs as much as a full
    one and has fewer samples.

    It reports the padding, and fails a quick run with padding.
    """
    file = subject.performance.file
    check_id = "whole-batches"
    record = subject.record
    if record is None:
        return not_applicable(check_id, "there is no record of the batch size", file)
    if subject.scenario != "Offline":
        return not_applicable(check_id, f"{subject.scenario} has no batches", file)
    size = record.cell.batch_size
    samples, batches = subject.log.batches(size)
    if samples is None or batches is None:
        return failed(check_id, "the number of samples or the batch size is missing", file)
    rows = batches * size
    padding = (rows - samples) / rows
    share = f"{padding:.2%} of their rows are padding" if padding else "no padding"
    faults = _padding(samples, batches, rows) if record.mode == "quick" else ()
    return judge(check_id, faults, f"{samples} samples in {batches} batches, {share}", file)


def _padding(samples: int, batches: int, rows: int) -> Faults:
    if samples != rows:
        sentence = (
            "{found} samples are not a whole number of batches: {padding} of {expected} rows in"
            " {batches} batches are padding"
        )
        yield differs(sentence, samples, rows, padding=rows - samples, batches=batches)
    if batches < _LEAST_BATCHES:
        sentence = "{found} batch(es) were measured; a quick run requires {expected}"
        yield differs(sentence, batches, f"at least {_LEAST_BATCHES}")
