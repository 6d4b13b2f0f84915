"""How long the tests took, by three clocks: the latencies, the calendar and the log's own."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge
from compliance.loadgen.duration import last_issue_ns, one_by_one_ns
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.rules import Rules
from compliance.subject import Subject

# What a test may last longer than the work it tells of: this project's own.
_LOOSE, _LOOSE_S = 0.05, 10.0


def performance(s: Subject) -> Check:
    d, file = s.performance.detail, s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    good = "the latencies fit into the time that passed"
    return judge("duration", _duration(d, s.scenario, s.rules), good, file=file, fix=fixes.FIGURES)


def accuracy(s: Subject) -> Check:
    return judge(
        "accuracy-duration",
        _clocks(s.accuracy.detail, s.rules),
        "calendar and log agree",
        file=s.place.show(s.accuracy.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def measured(s: Subject) -> Check:
    return judge(
        "measured-duration",
        _long_enough(s.performance.detail, s.scenario, s.rules),
        f"at least {_least_s(s.rules, s.scenario):g} s",
        file=s.place.show(s.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.VALID,
    )


def _duration(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """Three clocks: the latencies, the calendar (power_begin, power_end) and the log's own."""
    issued, wall_s = last_issue_ns(d, scenario), wall_seconds(d)
    if issued is None or wall_s is None:
        yield "the latencies, power_begin or power_end are missing or no dates"
        return
    busy_s = max(issued[0], one_by_one_ns(d, scenario)) / 1e9
    if busy_s > wall_s + rules.dates.clock_tolerance_s:
        text = f"the latencies add up to {busy_s:.3f} s and {wall_s:.3f} s passed between power_begin and power_end"
        yield Fault(text, f"at most {wall_s:.3f} s", f"{busy_s:.3f} s", line=d.line("power_end"))
    # After the last issue, or due time, comes its answer; Offline's figure is that of the last answer.
    tail_s = 0 if scenario == "Offline" else (d.number("result_max_latency_ns") or 0) / 1e9
    most_s = (1 + _LOOSE) * (max(issued[1], one_by_one_ns(d, scenario)) / 1e9 + tail_s) + _LOOSE_S
    if wall_s > most_s:
        text = f"{wall_s:.3f} s passed between power_begin and power_end, and the figures tell of {busy_s:.3f} s"
        yield Fault(text, f"at most {most_s:.3f} s", f"{wall_s:.3f} s", line=d.line("power_end"))
    yield from _clocks(d, rules)
    line = d.occurrences.get("result_validity", ())
    if line and not busy_s * 1e3 <= line[-1].time_ms + rules.dates.clock_tolerance_s * 1e3:
        clock_s = line[-1].time_ms / 1e3
        text = f"the latencies add up to {busy_s:.3f} s and the log's own clock stands at {clock_s:.3f} s"
        yield Fault(text, f"at most {clock_s:.3f} s", f"{busy_s:.3f} s", line=line[-1].number)


def _clocks(d: Detail, rules: Rules) -> Iterator[Fault]:
    """From the last generation of queries to power_end the log's own clock advances as the calendar does, give or take what NTP moves."""
    begin, end, wall_s = d.occurrences.get("generated_query_duration"), d.occurrences.get("power_end"), wall_seconds(d)
    if not begin or not end or wall_s is None:
        return
    spent_s = (end[-1].time_ms - begin[-1].time_ms) / 1e3
    if not abs(spent_s - wall_s) <= 10 * rules.dates.clock_tolerance_s + 1e-2 * wall_s:
        text = f"{wall_s:.3f} s passed between power_begin and power_end by the calendar, and {spent_s:.3f} s by the log's own clock"
        yield Fault(text, f"{wall_s:.3f} s", f"{spent_s:.3f} s", line=end[-1].number)


def _long_enough(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """The time that passed, not the setting. Where the figures do not tell to the last digit, it is what LoadGen says of the setting."""
    passed_ns, least_s = last_issue_ns(d, scenario), _least_s(rules, scenario)
    if passed_ns is None or passed_ns[1] / 1e9 < least_s:
        found = "unknown" if passed_ns is None else f"{passed_ns[1] / 1e9:.3f} s"
        yield Fault(f"{found}; the round asks for {least_s:g} s", f"at least {least_s:g} s", found)


def _least_s(rules: Rules, scenario: str) -> float:
    return rules.scenarios[scenario].min_duration_ms / 1e3
