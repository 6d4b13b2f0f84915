"""LoadGen's verdict, taken apart and put together again from its own figures (loadgen/results.cc). Pure: parsed logs → checks."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, shown
from compliance.findings.entries import no_number, of_entry
from compliance.loadgen import counts, early_stopping, schedule, server
from compliance.loadgen.latency_keys import QUERIES, SAMPLES
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS, close
from compliance.rules import Rules
from compliance.subject import Subject, Test, asked

# Between two queries of SingleStream LoadGen and the SUT's binding take some microseconds; of the latency this is far more than enough.
_IDLE, _IDLE_NS = 0.1, 1e5
# What a test may last longer than the work it tells of: this project's own.
_LOOSE, _LOOSE_S = 0.05, 10.0
# Of two dates of whole milliseconds.
_CALENDAR_NS = 2e6


def checks(s: Subject) -> list[Check]:
    detail, rules, scenario = s.performance.detail, s.rules, s.scenario
    file = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    return [
        error_lines(s.performance, s),
        error_lines(s.accuracy, s),
        judge(
            "counts",
            _counts(s),
            f"{counts.samples(detail, scenario)} samples issued and completed",
            source="C4",
            file=file,
            fix=fixes.FIGURES,
        ),
        judge(
            "latencies",
            _latencies(detail, scenario),
            "minimum, mean, percentiles, maximum and rate agree",
            source="C4",
            file=file,
            fix=fixes.FIGURES,
        ),
        judge(
            "validity",
            _validity(detail, scenario, rules),
            f"{detail.get('result_validity')}, as re-derived from duration, counts and early stopping",
            source="C1",
            file=file,
            fix=fixes.FIGURES,
        ),
        judge(
            "duration",
            _duration(detail, scenario, rules),
            "the latencies fit into the time that passed",
            source="C3",
            file=file,
            fix=fixes.FIGURES,
        ),
        judge(
            "early stopping",
            early_stopping.faults(detail, scenario, rules),
            "as re-derived from the number of queries",
            source="C9",
            file=file,
            fix=fixes.FIGURES,
        ),
        judge(
            "accuracy duration",
            clocks(s.accuracy.detail, rules),
            "calendar and log agree",
            source="C3",
            file=s.place.show(s.accuracy.folder / "mlperf_log_detail.txt"),
            fix=fixes.FIGURES,
        ),
        judge("LoadGen's verdict", _verdict(detail), "VALID", level="valid", source="C1", file=file, fix=fixes.VALID),
        judge(
            "measured duration",
            _long_enough(detail, scenario, rules),
            f"at least {_least_s(rules, scenario):g} s",
            level="valid",
            source="C3",
            file=file,
            fix=fixes.VALID,
        ),
    ]


def error_lines(test: Test, s: Subject) -> Check:
    """C2: LoadGen's own verdict does not look at errors."""
    return judge(
        f"{test.name} errors",
        _errors(test),
        "no error line, none counted",
        source="C2",
        file=s.place.show(test.folder / "mlperf_log_detail.txt"),
        fix="see the line in the log, and measure again",
    )


def _errors(test: Test) -> Iterator[Fault | str]:
    for line in test.detail.errors:
        text = f"line {line.number}: {shown(line.key)}: {str(line.value)[:120]}"
        yield Fault(text, "no error line", shown(line.value), line=line.number)
    if not test.detail.values:
        yield f"the {test.name} log shows nothing, neither errors nor their absence"
    if test.name == "performance" and (test.detail.get("num_errors") != 0 or test.detail.get("num_errors") is False):
        yield of_entry(test.detail, "num_errors", 0, "it must be there and")
    if "No errors encountered during test." not in test.summary.text:
        yield "the summary does not say that no errors were encountered"


def _missing(d: Detail, *keys: str) -> list[Fault]:
    return [no_number(d, key) for key in keys if d.number(key) is None]


def _counts(s: Subject) -> Iterator[Fault | str]:
    d, scenario = s.performance.detail, s.scenario
    keys = (
        "generated_query_count",
        "generated_samples_per_query",
        "result_query_count",
        "effective_samples_per_query",
        "effective_performance_sample_count",
    )
    if missing := _missing(d, *keys):
        yield from missing
        return
    generated, each, issued, wanted, loaded = (d.number(key) or 0 for key in keys)
    if scenario == "Offline":
        padded = -(-wanted // loaded) * loaded if loaded and d.get("effective_sample_concatenate_permutation") else wanted
        if each != padded:
            yield of_entry(d, "generated_samples_per_query", padded, "the effective settings ask for")
        if generated != 1 or issued != 1:
            text = f"{generated} queries generated and {issued} issued; Offline has one"
            yield Fault(text, "1 and 1", f"{generated} and {issued}", line=d.line("result_query_count"))
    else:
        if each != counts.each(d, scenario):
            yield of_entry(d, "generated_samples_per_query", counts.each(d, scenario), f"{scenario} has")
        if not 1 <= issued <= generated:
            text = f"{issued} queries issued of {generated} generated"
            yield Fault(text, f"1 to {generated}", str(issued), line=d.line("result_query_count"))
        yield from server.generated(s) if scenario == "Server" else _generated(s)


def _generated(s: Subject) -> Iterator[Fault | str]:
    """SingleStream and MultiStream prepare queries for twice the duration at the expected latency (loadgen.cc, GenerateQueries)."""
    d, latency_ns = s.performance.detail, asked(s, "target_latency")
    demand, count, spent_ns = schedule.demand(d), d.number("generated_query_count"), d.number("generated_query_duration")
    period = schedule.period_ns(latency_ns[0]) if latency_ns else 0
    want = schedule.stream(demand, period) if demand else None
    if latency_ns is None or demand is None or want is None or count is None or spent_ns is None:
        yield "a setting that says how many queries are generated, or their count or duration, is missing"
        return
    slack = 0 if latency_ns[1] else demand.whole + DIGITS * want
    if abs(count - want) > slack:
        yield of_entry(d, "generated_query_count", want, "duration and target make")
    elif not close(spent_ns, count * period, 0 if latency_ns[1] else DIGITS + 1 / period):
        yield of_entry(d, "generated_query_duration", int(count * period), "duration and target make")


def _latencies(d: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from SAMPLES.faults(d)
    yield from {"Offline": _offline, "SingleStream": _single_stream, "MultiStream": _multi_stream, "Server": server.figures}[scenario](d)


def _offline(d: Detail) -> Iterator[Fault | str]:
    key, samples, most = "result_samples_per_second", counts.samples(d, "Offline") or 0, d.number("result_max_latency_ns")
    if d.number(key) is None:
        yield no_number(d, key)
    elif most and not close(d.number(key) or 0, samples * 1e9 / most, DIGITS):
        yield of_entry(d, key, f"{samples * 1e9 / most:.6g}", "counts and latencies give")


def _single_stream(d: Detail) -> Iterator[Fault | str]:
    key, mean = "result_qps_without_loadgen_overhead", d.number("result_mean_latency_ns")
    count, shortest = d.number("result_query_count") or 0, d.number("result_min_latency_ns") or 0
    yield from _missing(d, key, "result_qps_with_loadgen_overhead")
    whole = d.number("result_qps_with_loadgen_overhead")
    # From the first issue to the last all queries pass but the last one, which may be the shortest.
    most = (1 + _IDLE) * (count * mean - shortest) / (count - 1) + _IDLE_NS if mean and count > 1 else math.inf
    if whole and mean and whole > 0 and 1e9 / whole > most:
        found, line = f"{1e9 / whole / 1e6:.4g} ms", d.line("result_qps_with_loadgen_overhead")
        text = f"a query comes every {found} and takes {mean / 1e6:.4g} ms on average; the next follows at once"
        yield Fault(text, f"at most {most / 1e6:.4g} ms", found, line=line)
    # The mean is logged in whole nanoseconds, which shows in short latencies.
    if mean and d.number(key) is not None and not close(d.number(key) or 0, 1e9 / mean, DIGITS + 1 / mean):
        yield of_entry(d, key, f"{1e9 / mean:.6g}", "counts and latencies give")


def _multi_stream(d: Detail) -> Iterator[Fault | str]:
    """A query takes as long as its slowest sample: none of its figures is below that of the samples, and the largest is the same."""
    yield from QUERIES.faults(d)
    steps = zip(QUERIES.steps(d), SAMPLES.steps(d), strict=False)
    pairs = [(key, value, other) for (key, _, value), (_, _, other) in steps]
    pairs.append((QUERIES.mean, d.number(QUERIES.mean) or 0, d.number(SAMPLES.mean) or 0))
    for key, of_queries, of_samples in pairs:
        if of_queries < of_samples or (key == QUERIES.maximum and of_queries != of_samples):
            yield of_entry(d, key, of_samples, "that of the samples is")


def _last_issue_ns(d: Detail, scenario: str) -> tuple[float, float] | None:
    """Between which times lies what min_duration is compared with.

    Offline: its largest latency; SingleStream and Server: when the last query was issued, or due (from the rate, which has six digits);
    MultiStream, which logs no rate: the last query is answered at the end of all, which the calendar tells to the millisecond.
    """
    count, wall_s = d.number("result_query_count"), wall_seconds(d)
    if scenario == "Offline":
        found = d.number("result_max_latency_ns")
        return None if found is None else (found, found)
    if scenario == "MultiStream":
        shortest, longest = d.number(QUERIES.minimum), d.number(QUERIES.maximum)
        if wall_s is None or shortest is None or longest is None:
            return None
        return wall_s * 1e9 - longest - _CALENDAR_NS, wall_s * 1e9 - shortest + _CALENDAR_NS
    rate = d.number("result_scheduled_samples_per_sec" if scenario == "Server" else "result_qps_with_loadgen_overhead")
    if not count or not rate or rate < 0:
        return None
    found = (count - 1) * 1e9 / rate
    return found * (1 - DIGITS), found * (1 + DIGITS)


def _validity(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    parts = {
        "result_min_duration_met": _min_duration_met(d, scenario),
        "result_min_queries_met": _min_queries_met(d, scenario),
        "early_stopping_met": early_stopping.met(d, scenario, rules),
    }
    if scenario == "Server":
        parts["result_perf_constraints_met"] = server.constraints_met(d, rules.scenarios[scenario].percentile)
    for key, derived in parts.items():
        if not isinstance(d.get(key), bool):
            value = shown(repr(d.get(key)))
            yield Fault(f"{key} is {value}; true or false belongs there", "true or false", value, line=d.line(key))
        elif derived is not None and d.get(key) is not derived:
            yield of_entry(d, key, derived, "the figures say")
    early = next((line for line in d.occurrences.get("generic_message", ()) if "Ending early" in str(line.value)), None)
    if early and d.get("result_validity") == "VALID":
        yield Fault(f"VALID, and LoadGen says {shown(early.value)!r}", "no early end", shown(early.value), line=early.number)
    verdict = "VALID" if all(d.get(key) is True for key in parts) else "INVALID"
    if d.get("result_validity") != verdict:
        value = shown(repr(d.get("result_validity")))
        text = f"result_validity is {value}; its parts make it {verdict}"
        yield Fault(text, verdict, value, line=d.line("result_validity"))


def _min_duration_met(d: Detail, scenario: str) -> bool | None:
    """None: too close to tell from six digits, or figures missing (another check says so)."""
    passed, least_ms = _last_issue_ns(d, scenario), d.number("effective_min_duration_ms")
    if passed is None or least_ms is None or passed[0] < least_ms * 1e6 <= passed[1]:
        return None
    return passed[0] >= least_ms * 1e6


def _min_queries_met(d: Detail, scenario: str) -> bool | None:
    queries, samples = d.number("result_query_count"), counts.samples(d, scenario)
    least_queries, least_samples = d.number("effective_min_query_count"), d.number("effective_min_sample_count")
    if queries is None or samples is None or least_queries is None or least_samples is None:
        return None
    return queries >= least_queries and samples >= least_samples


def _duration(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """Three clocks: the latencies, the calendar (power_begin, power_end) and the log's own."""
    issued, wall_s = _last_issue_ns(d, scenario), wall_seconds(d)
    if issued is None or wall_s is None:
        yield "the latencies, power_begin or power_end are missing or no dates"
        return
    busy_s = max(issued[0], _one_by_one_ns(d, scenario)) / 1e9
    if busy_s > wall_s + rules.dates.clock_tolerance_s:
        text = f"the latencies add up to {busy_s:.3f} s and {wall_s:.3f} s passed between power_begin and power_end"
        yield Fault(text, f"at most {wall_s:.3f} s", f"{busy_s:.3f} s", line=d.line("power_end"))
    # After the last issue, or due time, comes its answer; Offline's figure is that of the last answer.
    tail_s = 0 if scenario == "Offline" else (d.number("result_max_latency_ns") or 0) / 1e9
    most_s = (1 + _LOOSE) * (max(issued[1], _one_by_one_ns(d, scenario)) / 1e9 + tail_s) + _LOOSE_S
    if wall_s > most_s:
        text = f"{wall_s:.3f} s passed between power_begin and power_end, and the figures tell of {busy_s:.3f} s"
        yield Fault(text, f"at most {most_s:.3f} s", f"{wall_s:.3f} s", line=d.line("power_end"))
    yield from clocks(d, rules)
    line = d.occurrences.get("result_validity", ())
    if line and not busy_s * 1e3 <= line[-1].time_ms + rules.dates.clock_tolerance_s * 1e3:
        clock_s = line[-1].time_ms / 1e3
        text = f"the latencies add up to {busy_s:.3f} s and the log's own clock stands at {clock_s:.3f} s"
        yield Fault(text, f"at most {clock_s:.3f} s", f"{busy_s:.3f} s", line=line[-1].number)


def clocks(d: Detail, rules: Rules) -> Iterator[Fault]:
    """From the last generation of queries to power_end the log's own clock advances as the calendar does, give or take what NTP moves."""
    begin, end, wall_s = d.occurrences.get("generated_query_duration"), d.occurrences.get("power_end"), wall_seconds(d)
    if not begin or not end or wall_s is None:
        return
    spent_s = (end[-1].time_ms - begin[-1].time_ms) / 1e3
    if not abs(spent_s - wall_s) <= 10 * rules.dates.clock_tolerance_s + 1e-2 * wall_s:
        text = f"{wall_s:.3f} s passed between power_begin and power_end by the calendar, and {spent_s:.3f} s by the log's own clock"
        yield Fault(text, f"{wall_s:.3f} s", f"{spent_s:.3f} s", line=end[-1].number)


def _one_by_one_ns(d: Detail, scenario: str) -> float:
    """What the queries took that were issued one after the other."""
    mean = {"SingleStream": SAMPLES.mean, "MultiStream": QUERIES.mean}.get(scenario)
    return (d.number("result_query_count") or 0) * (d.number(mean) or 0) if mean else 0.0


def _verdict(d: Detail) -> Iterator[Fault | str]:
    if d.get("result_validity") != "VALID":
        found = shown(d.get("result_validity", "none"))
        reasons = " ".join(str(r) for r in d.all("result_invalid_reason")).strip()
        yield Fault(f"{found}{': ' if reasons else ''}{reasons[:300]}", "VALID", found, line=d.line("result_validity"))


def _least_s(rules: Rules, scenario: str) -> float:
    return rules.scenarios[scenario].min_duration_ms / 1e3


def _long_enough(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """The time that passed, not the setting. Where the figures do not tell to the last digit, it is what LoadGen says of the setting."""
    passed_ns, least_s = _last_issue_ns(d, scenario), _least_s(rules, scenario)
    if passed_ns is None or passed_ns[1] / 1e9 < least_s:
        found = "unknown" if passed_ns is None else f"{passed_ns[1] / 1e9:.3f} s"
        yield Fault(f"{found}; the round asks for {least_s:g} s", f"at least {least_s:g} s", found)
