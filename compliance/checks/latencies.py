"""The checks that the counts, latencies and rates of a performance test agree. All functions are
pure.

Sources: loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import judge
from compliance.findings.entries import entry_fault, not_a_number
from compliance.loadgen import counts, schedule
from compliance.loadgen.latency_keys import (
    FIRST_TOKENS,
    LATER_TOKENS,
    PERCENTILES,
    QUERIES,
    SAMPLES,
    LatencyKeys,
)
from compliance.loadgen.latency_limits import over_by_percentiles
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject, requested_value
from formats.checks import Check, Fault

# The allowed idle time between two queries of SingleStream. LoadGen and the SUT's binding take only
# some microseconds.
_IDLE, _IDLE_NS = 0.1, 1e5


def checks(subject: Subject) -> list[Check]:
    """The checks of counts and of latencies."""
    detail, file = (
        subject.performance.detail,
        subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
    )
    issued = f"{counts.samples(detail, subject.scenario)} samples issued and completed"
    agreement = "minimum, mean, percentiles, maximum and rate agree"
    return [
        judge("counts", _counts(subject), issued, file=file, fix=fixes.FIGURES),
        judge(
            "latencies",
            _latencies(detail, subject.scenario),
            agreement,
            file=file,
            fix=fixes.FIGURES,
        ),
    ]


def _missing(detail: Detail, *keys: str) -> list[Fault]:
    return [not_a_number(detail, key) for key in keys if detail.number(key) is None]


def _counts(subject: Subject) -> Iterator[Fault | str]:
    detail, scenario = subject.performance.detail, subject.scenario
    keys = (
        "generated_query_count",
        "generated_samples_per_query",
        "result_query_count",
        "effective_samples_per_query",
        "effective_performance_sample_count",
    )
    if missing := _missing(detail, *keys):
        yield from missing
        return
    generated, each, issued, expected, loaded = (detail.number(key) or 0 for key in keys)
    if scenario == "Offline":
        padded = (
            -(-expected // loaded) * loaded
            if loaded and detail.get("effective_sample_concatenate_permutation")
            else expected
        )
        if each != padded:
            yield entry_fault(
                detail, "generated_samples_per_query", padded, "the effective settings ask for"
            )
        if generated != 1 or issued != 1:
            text = f"{generated} queries generated and {issued} issued; Offline has one"
            yield Fault(
                text, "1 and 1", f"{generated} and {issued}", line=detail.line("result_query_count")
            )
    else:
        if each != counts.samples_per_query(detail, scenario):
            yield entry_fault(
                detail,
                "generated_samples_per_query",
                counts.samples_per_query(detail, scenario),
                f"{scenario} has",
            )
        if not 1 <= issued <= generated:
            text = f"{issued} queries issued of {generated} generated"
            yield Fault(
                text, f"1 to {generated}", str(issued), line=detail.line("result_query_count")
            )
        yield from _scheduled(subject) if scenario == "Server" else _generated(subject)


def _generated(subject: Subject) -> Iterator[Fault | str]:
    """Yield a fault if count or duration of the generated queries do not follow from the settings,
    for SingleStream and MultiStream (loadgen.cc, GenerateQueries).
    """
    detail, latency_ns = subject.performance.detail, requested_value(subject, "target_latency")
    demand, count, spent_ns = (
        schedule.demand(detail),
        detail.number("generated_query_count"),
        detail.number("generated_query_duration"),
    )
    period = schedule.period_ns(latency_ns[0]) if latency_ns else 0
    expected = schedule.stream(demand, period) if demand else None
    if (
        latency_ns is None
        or demand is None
        or expected is None
        or count is None
        or spent_ns is None
    ):
        yield (
            "a setting that says how many queries are generated, or their count or duration, is"
            " missing"
        )
        return
    slack = 0 if latency_ns[1] else demand.multiple_of + DIGITS * expected
    if abs(count - expected) > slack:
        yield entry_fault(detail, "generated_query_count", expected, "duration and target make")
    elif not close(spent_ns, count * period, 0 if latency_ns[1] else DIGITS + 1 / period):
        yield entry_fault(
            detail, "generated_query_duration", int(count * period), "duration and target make"
        )


def _scheduled(subject: Subject) -> Iterator[Fault | str]:
    """Yield a fault if count or duration of Server's generated queries do not follow from the
    settings. The comparison is exact if all digits of the rate are known.
    """
    detail, rate = subject.performance.detail, requested_value(subject, "target_qps")
    due = schedule.due(detail, rate[0]) if rate else None
    count, duration_ns = (
        detail.number("generated_query_count"),
        detail.number("generated_query_duration"),
    )
    if rate is None or count is None or duration_ns is None:
        yield "the rate, generated_query_count or generated_query_duration is missing"
        return
    if due is None:
        expected = max(
            detail.number("effective_min_query_count") or 0,
            rate[0] * (detail.number("effective_min_duration_ms") or 0) / 1e3,
        )
        # Six standard deviations of a Poisson count.
        if not close(count, expected, 6 * max(expected, 1) ** -0.5 + DIGITS):
            yield entry_fault(
                detail, "generated_query_count", f"about {expected:.6g}", "rate and duration make"
            )
        return
    expected = len(due) - 1
    slack = 0.0 if rate[1] else 10 + DIGITS * expected
    if abs(count - expected) > slack:
        yield entry_fault(
            detail, "generated_query_count", expected, "the seed, the rate and the duration make"
        )
    # Another implementation of the logarithm may round the last bit differently, which is a
    # nanosecond or two.
    elif abs(duration_ns - int(due[-1])) > (
        2 if rate[1] else (slack + 20) * float(due[-1]) / expected
    ):
        yield entry_fault(
            detail,
            "generated_query_duration",
            int(due[-1]),
            "the seed, the rate and the duration make",
        )


def _latencies(detail: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from _latency_faults(SAMPLES, detail)
    yield from {
        "Offline": _offline,
        "SingleStream": _single_stream,
        "MultiStream": _multi_stream,
        "Server": _server,
    }[scenario](detail)


def _latency_faults(latency: LatencyKeys, detail: Detail) -> Iterator[Fault | str]:
    """Yield a fault for each minimum, percentile, maximum or mean that is missing or contradicts
    another.
    """
    percentiles = latency.percentiles(detail)
    present = {key for key, _, _ in percentiles}
    keys = [latency.minimum, *(latency.percentile.format(p) for p in PERCENTILES), latency.maximum]
    if missing := [key for key in keys if key not in present]:
        yield from (not_a_number(detail, key) for key in missing)
        return
    for (low_key, _, low), (high_key, _, high) in zip(percentiles, percentiles[1:], strict=False):
        if low > high:
            yield Fault(
                f"{low_key} = {low} is above {high_key} = {high}",
                f"at most {high}",
                str(low),
                line=detail.line(low_key),
            )
    mean, least, most = detail.number(latency.mean), percentiles[0][2], percentiles[-1][2]
    if mean is None:
        yield not_a_number(detail, latency.mean)
    elif not 0 < least <= mean <= most:
        text = f"the mean {latency.name} {mean} is not between minimum {least} and maximum {most}"
        yield Fault(text, f"{least} to {most}", str(mean), line=detail.line(latency.mean))


def _offline(detail: Detail) -> Iterator[Fault | str]:
    key, samples, most = (
        "result_samples_per_second",
        counts.samples(detail, "Offline") or 0,
        detail.number("result_max_latency_ns"),
    )
    if detail.number(key) is None:
        yield not_a_number(detail, key)
    elif most and not close(detail.number(key) or 0, samples * 1e9 / most, DIGITS):
        yield entry_fault(detail, key, f"{samples * 1e9 / most:.6g}", "counts and latencies give")


def _single_stream(detail: Detail) -> Iterator[Fault | str]:
    key, mean = "result_qps_without_loadgen_overhead", detail.number("result_mean_latency_ns")
    count, shortest = (
        detail.number("result_query_count") or 0,
        detail.number("result_min_latency_ns") or 0,
    )
    yield from _missing(detail, key, "result_qps_with_loadgen_overhead")
    whole = detail.number("result_qps_with_loadgen_overhead")
    # All queries but the last are answered between the first issue and the last. The last one may
    # be the shortest.
    most = (
        (1 + _IDLE) * (count * mean - shortest) / (count - 1) + _IDLE_NS
        if mean and count > 1
        else math.inf
    )
    if whole and mean and whole > 0 and 1e9 / whole > most:
        period, line = (
            f"{1e9 / whole / 1e6:.4g} ms",
            detail.line("result_qps_with_loadgen_overhead"),
        )
        text = (
            f"a query comes every {period} and takes {mean / 1e6:.4g} ms on average; the next"
            " follows at once"
        )
        yield Fault(text, f"at most {most / 1e6:.4g} ms", period, line=line)
    # The mean is logged in whole nanoseconds. Short latencies show the rounding.
    if (
        mean
        and detail.number(key) is not None
        and not close(detail.number(key) or 0, 1e9 / mean, DIGITS + 1 / mean)
    ):
        yield entry_fault(detail, key, f"{1e9 / mean:.6g}", "counts and latencies give")


def _multi_stream(detail: Detail) -> Iterator[Fault | str]:
    """Yield a fault for each figure of MultiStream's queries below that of its samples. A query
    takes as long as its slowest sample, and the two maxima are the same.
    """
    yield from _latency_faults(QUERIES, detail)
    percentiles = zip(QUERIES.percentiles(detail), SAMPLES.percentiles(detail), strict=False)
    pairs = [(key, value, other) for (key, _, value), (_, _, other) in percentiles]
    pairs.append((QUERIES.mean, detail.number(QUERIES.mean) or 0, detail.number(SAMPLES.mean) or 0))
    for key, of_queries, of_samples in pairs:
        if of_queries < of_samples or (key == QUERIES.maximum and of_queries != of_samples):
            yield entry_fault(detail, key, of_samples, "that of the samples is")


def _server(detail: Detail) -> Iterator[Fault | str]:
    """Yield the faults of Server: of its two rates, of the count over the limit and, with token
    latencies, of their percentiles and rates.
    """
    queries, scheduled, completed = (
        detail.number(f"result_{key}")
        for key in ("query_count", "scheduled_samples_per_sec", "completed_samples_per_sec")
    )
    least, most = detail.number("result_min_latency_ns"), detail.number("result_max_latency_ns")
    if (
        queries is None
        or scheduled is None
        or completed is None
        or least is None
        or most is None
        or not 0 < queries < 1 << 40
    ):
        yield "a count, a rate or a latency of Server is missing"
        return
    if queries > 1 and scheduled > 0 and least >= 0 and most >= 0:
        last_s = (queries - 1) / scheduled
        slowest, fastest = ((queries - 1) / (last_s + ns / 1e9) for ns in (most, least))
        if not slowest * (1 - 2 * DIGITS) <= completed <= fastest * (1 + 2 * DIGITS):
            yield entry_fault(
                detail,
                "result_completed_samples_per_sec",
                f"{slowest:.6g} to {fastest:.6g}",
                "schedule and latencies make it",
            )
    limit = detail.number("effective_target_latency_ns")
    if limit is not None:
        low, high = over_by_percentiles(detail, SAMPLES, int(queries), limit)
        count = detail.get("result_overlatency_query_count")
        if type(count) is not int or not low <= count <= high:
            expected = f"{low} to {high}" if low < high else str(low)
            yield entry_fault(
                detail, "result_overlatency_query_count", expected, "the percentiles make it"
            )
    if counts.has_token_latencies(detail):
        yield from _latency_faults(FIRST_TOKENS, detail)
        yield from _latency_faults(LATER_TOKENS, detail)
        yield from _tokens(detail, queries, completed)


def _tokens(detail: Detail, queries: float, completed: float) -> Iterator[Fault | str]:
    """Yield a fault if two rates imply different numbers of tokens. The number itself is not
    logged.
    """
    mean, rate, by_latency = (
        detail.number(f"result_{key}")
        for key in ("mean_latency_ns", "completed_tokens_per_second", "token_throughput")
    )
    if mean is None or rate is None or by_latency is None or completed <= 0 or queries < 2:
        yield "a rate of tokens is missing"
        return
    first, second = rate * (queries - 1) / completed, by_latency * mean * queries
    if not close(first, second, 4 * DIGITS):
        text = (
            f"result_completed_tokens_per_second makes {first:.6g} tokens, result_token_throughput"
            f" {second:.6g}"
        )
        yield Fault(
            text,
            f"{second:.6g}",
            f"{first:.6g}",
            line=detail.line("result_completed_tokens_per_second"),
        )
