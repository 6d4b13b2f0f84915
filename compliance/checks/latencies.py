"""The counts, latencies and rates of a performance test, against each other (loadgen/results.cc, loadgen/loadgen.cc). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge
from compliance.findings.entries import no_number, of_entry
from compliance.loadgen import counts, schedule
from compliance.loadgen.latency_keys import FIRST_TOKENS, LATER_TOKENS, PERCENTILES, QUERIES, SAMPLES, Ladder
from compliance.loadgen.latency_limits import by_steps
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject, asked

# Between two queries of SingleStream LoadGen and the SUT's binding take some microseconds; of the latency this is far more than enough.
_IDLE, _IDLE_NS = 0.1, 1e5


def checks(s: Subject) -> list[Check]:
    d, file = s.performance.detail, s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    issued = f"{counts.samples(d, s.scenario)} samples issued and completed"
    agreement = "minimum, mean, percentiles, maximum and rate agree"
    return [
        judge("counts", _counts(s), issued, file=file, fix=fixes.FIGURES),
        judge("latencies", _latencies(d, s.scenario), agreement, file=file, fix=fixes.FIGURES),
    ]


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
        yield from _scheduled(s) if scenario == "Server" else _generated(s)


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


def _scheduled(s: Subject) -> Iterator[Fault | str]:
    """Count and duration of what was generated, to the query and nanosecond where the rate is known in all its digits."""
    d, rate = s.performance.detail, asked(s, "target_qps")
    due = schedule.due(d, rate[0]) if rate else None
    count, duration_ns = d.number("generated_query_count"), d.number("generated_query_duration")
    if rate is None or count is None or duration_ns is None:
        yield "the rate, generated_query_count or generated_query_duration is missing"
        return
    if due is None:
        want = max(d.number("effective_min_query_count") or 0, rate[0] * (d.number("effective_min_duration_ms") or 0) / 1e3)
        if not close(count, want, 6 * max(want, 1) ** -0.5 + DIGITS):  # six standard deviations of as many arrivals
            yield of_entry(d, "generated_query_count", f"about {want:.6g}", "rate and duration make")
        return
    want = len(due) - 1
    slack = 0.0 if rate[1] else 10 + DIGITS * want
    if abs(count - want) > slack:
        yield of_entry(d, "generated_query_count", want, "the seed, the rate and the duration make")
    # Another logarithm may round the last bit otherwise: a nanosecond or two.
    elif abs(duration_ns - int(due[-1])) > (2 if rate[1] else (slack + 20) * float(due[-1]) / want):
        yield of_entry(d, "generated_query_duration", int(due[-1]), "the seed, the rate and the duration make")


def _latencies(d: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from _of_ladder(SAMPLES, d)
    yield from {"Offline": _offline, "SingleStream": _single_stream, "MultiStream": _multi_stream, "Server": _server}[scenario](d)


def _of_ladder(ladder: Ladder, d: Detail) -> Iterator[Fault | str]:
    """Where minimum, percentiles, maximum and mean are missing or contradict each other."""
    steps = ladder.steps(d)
    present = {key for key, _, _ in steps}
    keys = [ladder.minimum, *(ladder.percentile.format(p) for p in PERCENTILES), ladder.maximum]
    if missing := [key for key in keys if key not in present]:
        yield from (no_number(d, key) for key in missing)
        return
    for (low_key, _, low), (high_key, _, high) in zip(steps, steps[1:], strict=False):
        if low > high:
            yield Fault(f"{low_key} = {low} is above {high_key} = {high}", f"at most {high}", str(low), line=d.line(low_key))
    mean, least, most = d.number(ladder.mean), steps[0][2], steps[-1][2]
    if mean is None:
        yield no_number(d, ladder.mean)
    elif not 0 < least <= mean <= most:
        text = f"the mean {ladder.name} {mean} is not between minimum {least} and maximum {most}"
        yield Fault(text, f"{least} to {most}", str(mean), line=d.line(ladder.mean))


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
    yield from _of_ladder(QUERIES, d)
    steps = zip(QUERIES.steps(d), SAMPLES.steps(d), strict=False)
    pairs = [(key, value, other) for (key, _, value), (_, _, other) in steps]
    pairs.append((QUERIES.mean, d.number(QUERIES.mean) or 0, d.number(SAMPLES.mean) or 0))
    for key, of_queries, of_samples in pairs:
        if of_queries < of_samples or (key == QUERIES.maximum and of_queries != of_samples):
            yield of_entry(d, key, of_samples, "that of the samples is")


def _server(d: Detail) -> Iterator[Fault | str]:
    """The two rates, the count of those over the limit, and with tokens their ladders and rates."""
    queries, scheduled, completed = (
        d.number(f"result_{key}") for key in ("query_count", "scheduled_samples_per_sec", "completed_samples_per_sec")
    )
    least, most = d.number("result_min_latency_ns"), d.number("result_max_latency_ns")
    if queries is None or scheduled is None or completed is None or least is None or most is None or not 0 < queries < 1 << 40:
        yield "a count, a rate or a latency of Server is missing"
        return
    if queries > 1 and scheduled > 0 and least >= 0 and most >= 0:
        last_s = (queries - 1) / scheduled
        slowest, fastest = ((queries - 1) / (last_s + ns / 1e9) for ns in (most, least))
        if not slowest * (1 - 2 * DIGITS) <= completed <= fastest * (1 + 2 * DIGITS):
            yield of_entry(d, "result_completed_samples_per_sec", f"{slowest:.6g} to {fastest:.6g}", "schedule and latencies make it")
    limit = d.number("effective_target_latency_ns")
    if limit is not None:
        low, high = by_steps(d, SAMPLES, int(queries), limit)
        found = d.get("result_overlatency_query_count")
        if type(found) is not int or not low <= found <= high:
            want = f"{low} to {high}" if low < high else str(low)
            yield of_entry(d, "result_overlatency_query_count", want, "the percentiles make it")
    if counts.tokens(d):
        yield from _of_ladder(FIRST_TOKENS, d)
        yield from _of_ladder(LATER_TOKENS, d)
        yield from _tokens(d, queries, completed)


def _tokens(d: Detail, queries: float, completed: float) -> Iterator[Fault | str]:
    """The number of tokens is not logged; two of the rates show it."""
    mean, rate, by_latency = (d.number(f"result_{key}") for key in ("mean_latency_ns", "completed_tokens_per_second", "token_throughput"))
    if mean is None or rate is None or by_latency is None or completed <= 0 or queries < 2:
        yield "a rate of tokens is missing"
        return
    first, second = rate * (queries - 1) / completed, by_latency * mean * queries
    if not close(first, second, 4 * DIGITS):
        text = f"result_completed_tokens_per_second makes {first:.6g} tokens, result_token_throughput {second:.6g}"
        yield Fault(text, f"{second:.6g}", f"{first:.6g}", line=d.line("result_completed_tokens_per_second"))
