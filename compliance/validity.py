"""LoadGen's verdict, taken apart and put together again from its own figures (loadgen/results.cc). Pure: parsed logs → checks."""

from __future__ import annotations

from collections.abc import Iterator

from compliance import early_stopping
from compliance.check import Check, Fault, judge, shown
from compliance.early_stopping import discards
from compliance.entries import no_number, of_entry
from compliance.logs import Detail
from compliance.provenance import power_date
from compliance.rules import Rules
from compliance.tree import Subject, Test

# Floats are logged with six significant digits.
_DIGITS = 1.1e-5
FIX_VALID = "run it with --mode valid"
_AGAIN = "measure again: the figures are not of one unchanged run"


def checks(s: Subject) -> list[Check]:
    detail, rules, scenario = s.performance.detail, s.rules, s.place.scenario
    file = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    return [
        error_lines(s.performance, s),
        error_lines(s.accuracy, s),
        judge(
            "counts",
            _counts(detail, scenario),
            f"{_samples(detail, scenario)} samples issued and completed",
            source="C4",
            file=file,
            fix=_AGAIN,
        ),
        judge(
            "latencies",
            _latencies(detail, scenario),
            "minimum, mean, percentiles, maximum and rate agree",
            source="C4",
            file=file,
            fix=_AGAIN,
        ),
        judge(
            "validity",
            _validity(detail, scenario, rules),
            f"{detail.get('result_validity')}, as re-derived from duration, counts and early stopping",
            source="C1",
            file=file,
            fix=_AGAIN,
        ),
        judge(
            "duration",
            _duration(detail, scenario, rules),
            "the latencies fit into the time that passed",
            source="C3",
            file=file,
            fix=_AGAIN,
        ),
        judge(
            "early stopping",
            early_stopping.faults(detail, scenario, rules),
            "as re-derived from the number of queries",
            source="C9",
            file=file,
            fix=_AGAIN,
        ),
        judge("LoadGen's verdict", _verdict(detail), "VALID", level="valid", source="C1", file=file, fix=FIX_VALID),
        judge(
            "measured duration",
            _long_enough(detail, scenario, rules),
            f"at least {_least_s(rules, scenario):g} s",
            level="valid",
            source="C3",
            file=file,
            fix=FIX_VALID,
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
    if test.name == "performance" and test.detail.get("num_errors") != 0:
        yield of_entry(test.detail, "num_errors", 0, "it must be there and")
    if "No errors encountered during test." not in test.summary.text:
        yield "the summary does not say that no errors were encountered"


def _samples(d: Detail, scenario: str) -> float | None:
    """Samples of a performance run."""
    return d.number("generated_samples_per_query") if scenario == "Offline" else d.number("result_query_count")


def _missing(d: Detail, *keys: str) -> list[Fault]:
    return [no_number(d, key) for key in keys if d.number(key) is None]


def _counts(d: Detail, scenario: str) -> Iterator[Fault | str]:
    keys = (
        "generated_query_count",
        "generated_samples_per_query",
        "result_query_count",
        "effective_samples_per_query",
        "effective_performance_sample_count",
        "effective_min_sample_count",
    )
    if missing := _missing(d, *keys):
        yield from missing
        return
    generated, each, issued, wanted, loaded, _ = (d.number(key) or 0 for key in keys)
    if scenario == "Offline":
        padded = -(-wanted // loaded) * loaded if loaded and d.get("effective_sample_concatenate_permutation") else wanted
        if each != padded:
            yield of_entry(d, "generated_samples_per_query", padded, "the effective settings ask for")
        if generated != 1 or issued != 1:
            text = f"{generated} queries generated and {issued} issued; Offline has one"
            yield Fault(text, "1 and 1", f"{generated} and {issued}", line=d.line("result_query_count"))
    else:
        if each != 1:
            yield of_entry(d, "generated_samples_per_query", 1, "SingleStream has")
        if not 1 <= issued <= generated:
            text = f"{issued} queries issued of {generated} generated"
            yield Fault(text, f"1 to {generated}", str(issued), line=d.line("result_query_count"))
        yield from _generated(d, generated)


def _generated(d: Detail, generated: float) -> Iterator[Fault | str]:
    """SingleStream prepares queries for twice the duration at the target rate, and at least the least count (loadgen.cc)."""
    rate, duration_ms, least = (d.number(f"effective_{key}") or 0 for key in ("target_qps", "min_duration_ms", "min_query_count"))
    # Equal issue has made the least count larger than what the duration asks for.
    want = least if d.get("effective_sample_concatenate_permutation") else max(least, 2 * duration_ms / 1e3 * rate)
    if abs(generated - want) > 2 + _DIGITS * want:
        text = f"{generated} queries generated; duration and target make {want:.0f}"
        yield Fault(text, f"{want:.0f}", str(generated), line=d.line("generated_query_count"))


def _latencies(d: Detail, scenario: str) -> Iterator[Fault | str]:
    ladder = [
        "result_min_latency_ns",
        *(f"result_{p}_percentile_latency_ns" for p in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")),
        "result_max_latency_ns",
    ]
    rates = (
        ["result_samples_per_second"]
        if scenario == "Offline"
        else ["result_qps_without_loadgen_overhead", "result_qps_with_loadgen_overhead"]
    )
    if missing := _missing(d, *ladder, *rates, "result_mean_latency_ns"):
        yield from missing
        return
    steps = [(key, d.number(key) or 0) for key in ladder]
    for (low_key, low), (high_key, high) in zip(steps, steps[1:], strict=False):
        if low > high:
            yield Fault(f"{low_key} = {low} is above {high_key} = {high}", f"at most {high}", str(low), line=d.line(low_key))
    minimum, mean, maximum = steps[0][1], d.number("result_mean_latency_ns") or 0, steps[-1][1]
    if not 0 < minimum <= mean <= maximum:
        text = f"the mean latency {mean} is not between minimum {minimum} and maximum {maximum}"
        yield Fault(text, f"{minimum} to {maximum}", str(mean), line=d.line("result_mean_latency_ns"))
        return
    samples = _samples(d, scenario) or 0
    if scenario == "Offline":
        expected = {"result_samples_per_second": samples * 1e9 / maximum}
    else:
        expected = {"result_qps_without_loadgen_overhead": 1e9 / mean}
    for key, value in expected.items():
        # The mean is logged in whole nanoseconds, which shows in short latencies.
        if not close(d.number(key) or 0, value, _DIGITS + (1 / mean if scenario != "Offline" else 0)):
            yield of_entry(d, key, f"{value:.6g}", "counts and latencies give")


def close(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b))


def _last_issue_ns(d: Detail, scenario: str) -> float | None:
    """What min_duration is compared with: Offline's largest latency, else the time of the last query's issue (from the rate)."""
    if scenario == "Offline":
        return d.number("result_max_latency_ns")
    count, rate = d.number("result_query_count"), d.number("result_qps_with_loadgen_overhead")
    return (count - 1) * 1e9 / rate if count and rate else None


def _validity(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    parts = {
        "result_min_duration_met": _min_duration_met(d, scenario),
        "result_min_queries_met": _min_queries_met(d, scenario),
        "early_stopping_met": _early_stopping_met(d, scenario, rules),
    }
    for key, derived in parts.items():
        if not isinstance(d.get(key), bool):
            value = shown(repr(d.get(key)))
            yield Fault(f"{key} is {value}; true or false belongs there", "true or false", value, line=d.line(key))
        elif derived is not None and d.get(key) is not derived:
            yield of_entry(d, key, derived, "the figures say")
    verdict = "VALID" if all(d.get(key) is True for key in parts) else "INVALID"
    if d.get("result_validity") != verdict:
        value = shown(repr(d.get("result_validity")))
        text = f"result_validity is {value}; its parts make it {verdict}"
        yield Fault(text, verdict, value, line=d.line("result_validity"))


def _min_duration_met(d: Detail, scenario: str) -> bool | None:
    """None: too close to tell from six digits, or figures missing (another check says so)."""
    passed, least_ms = _last_issue_ns(d, scenario), d.number("effective_min_duration_ms")
    if passed is None or least_ms is None:
        return None
    if scenario != "Offline" and close(passed, least_ms * 1e6, _DIGITS):
        return None
    return passed >= least_ms * 1e6


def _min_queries_met(d: Detail, scenario: str) -> bool | None:
    queries, samples = d.number("result_query_count"), _samples(d, scenario)
    least_queries, least_samples = d.number("effective_min_query_count"), d.number("effective_min_sample_count")
    if queries is None or samples is None or least_queries is None or least_samples is None:
        return None
    return queries >= least_queries and samples >= least_samples


def _early_stopping_met(d: Detail, scenario: str, rules: Rules) -> bool | None:
    if scenario == "Offline":
        return True
    queries = d.number("result_query_count")
    return None if queries is None else discards(int(queries), rules.scenarios[scenario].percentile / 100, rules) is not None


def _duration(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """Three clocks: the latencies, the calendar (power_begin, power_end) and the log's own."""
    needed_ns, wall_s = _last_issue_ns(d, scenario), wall_seconds(d)
    if needed_ns is None or wall_s is None:
        yield "the latencies, power_begin or power_end are missing or no dates"
        return
    mean, samples = d.number("result_mean_latency_ns") or 0, _samples(d, scenario) or 0
    busy_s = max(needed_ns, samples * mean if scenario != "Offline" else 0) / 1e9
    if busy_s > wall_s + rules.dates.clock_tolerance_s:
        text = f"the latencies add up to {busy_s:.3f} s and {wall_s:.3f} s passed between power_begin and power_end"
        yield Fault(text, f"at most {wall_s:.3f} s", f"{busy_s:.3f} s", line=d.line("power_end"))
    line = d.occurrences.get("result_validity", ())
    if line and not busy_s * 1e3 <= line[-1].time_ms + rules.dates.clock_tolerance_s * 1e3:
        clock_s = line[-1].time_ms / 1e3
        text = f"the latencies add up to {busy_s:.3f} s and the log's own clock stands at {clock_s:.3f} s"
        yield Fault(text, f"at most {clock_s:.3f} s", f"{busy_s:.3f} s", line=line[-1].number)


def wall_seconds(d: Detail) -> float | None:
    begin, end = power_date(d.get("power_begin")), power_date(d.get("power_end"))
    return None if begin is None or end is None else (end - begin).total_seconds()


def _verdict(d: Detail) -> Iterator[Fault | str]:
    if d.get("result_validity") != "VALID":
        found = shown(d.get("result_validity", "none"))
        reasons = " ".join(str(r) for r in d.all("result_invalid_reason")).strip()
        yield Fault(f"{found}{': ' if reasons else ''}{reasons[:300]}", "VALID", found, line=d.line("result_validity"))


def _least_s(rules: Rules, scenario: str) -> float:
    return rules.scenarios[scenario].min_duration_ms / 1e3


def _long_enough(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    """The time that passed, not the setting."""
    passed_ns, least_s = _last_issue_ns(d, scenario), _least_s(rules, scenario)
    if passed_ns is None or passed_ns / 1e9 < least_s * (1 - _DIGITS):
        found = "unknown" if passed_ns is None else f"{passed_ns / 1e9:.3f} s"
        yield Fault(f"{found}; the round asks for {least_s:g} s", f"at least {least_s:g} s", found)
