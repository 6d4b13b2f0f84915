"""The checks that the counts, latencies and rates of a performance test agree. All functions are
pure.

Sources: loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from compliance.findings.check import judge
from compliance.findings.entries import entry_fault, not_a_number
from compliance.loadgen import counts, rates, schedule
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
from formats.checks import Check, Fault, Faults

# The allowed idle time between two queries of SingleStream. LoadGen and the SUT's binding take only
# some microseconds.
_IDLE, _IDLE_NS = 0.1, 1e5
_LARGEST_SUM_NS = 2.0**63
_TWO_TOKENS = (
    "an answer has one token or none: report n_tokens of at least 2 for each answer, or set"
    " use_token_latencies to 0"
)


def checks(subject: Subject) -> list[Check]:
    """The checks of counts and of latencies."""
    detail, scenario = subject.performance.detail, subject.scenario
    file = subject.detail_file(subject.performance)
    issued = f"{counts.samples(detail, scenario)} samples issued and completed"
    agreement = "minimum, mean, percentiles, maximum and rate agree"
    faults = _latencies(detail, scenario)
    return [
        judge(
            "counts",
            _counts(subject),
            issued,
            file=file,
        ),
        judge(
            "latencies",
            faults,
            agreement,
            file=file,
        ),
    ]


def _missing(detail: Detail, *keys: str) -> list[Fault]:
    return [not_a_number(detail, key) for key in keys if detail.number(key) is None]


def _counts(subject: Subject) -> Faults:
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
    generated, each, issued, expected, _ = (detail.number(key) or 0 for key in keys)
    loaded = counts.loaded_samples(detail)
    line = detail.line("result_query_count")
    if scenario == "Offline":
        padded = expected
        if loaded and detail.get("effective_sample_concatenate_permutation"):
            padded = -(-expected // loaded) * loaded
        if each != padded:
            who = "the effective settings give"
            yield entry_fault(detail, "generated_samples_per_query", padded, who)
        if generated != 1 or issued != 1:
            text = f"{generated} queries generated and {issued} issued; Offline has one"
            yield Fault(text, "1 and 1", f"{generated} and {issued}", line=line)
        return
    per_query = counts.samples_per_query(detail, scenario)
    if each != per_query:
        yield entry_fault(detail, "generated_samples_per_query", per_query, f"{scenario} has")
    if not 1 <= issued <= generated:
        text = f"{issued} queries issued of {generated} generated"
        yield Fault(text, f"1 to {generated}", str(issued), line=line)
    yield from _scheduled(subject) if scenario == "Server" else _generated(subject)


def _generated(subject: Subject) -> Faults:
    """Yield a fault if count or duration of the generated queries do not follow from the settings,
    for SingleStream and MultiStream (loadgen.cc, GenerateQueries).
    """
    detail = subject.performance.detail
    latency_ns = requested_value(subject, "target_latency")
    demand = schedule.demand(detail)
    count = detail.number("generated_query_count")
    spent_ns = detail.number("generated_query_duration")
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
    exact = latency_ns[1]
    slack = 0 if exact else demand.multiple_of + DIGITS * expected
    tolerance = 0 if exact else DIGITS + 1 / period
    who = "duration and target give"
    if abs(count - expected) > slack:
        yield entry_fault(detail, "generated_query_count", expected, who)
    elif not close(spent_ns, count * period, tolerance):
        yield entry_fault(detail, "generated_query_duration", int(count * period), who)


def _scheduled(subject: Subject) -> Faults:
    """Yield a fault if count or duration of Server's generated queries do not follow from the
    settings. The comparison is exact if all digits of the rate are known.
    """
    detail = subject.performance.detail
    rate = requested_value(subject, "target_qps")
    due = schedule.due(detail, rate[0]) if rate else None
    count = detail.number("generated_query_count")
    duration_ns = detail.number("generated_query_duration")
    if rate is None or count is None or duration_ns is None:
        yield "the rate, generated_query_count or generated_query_duration is missing"
        return
    if due is None:
        least = detail.number("effective_min_query_count") or 0
        duration_s = (detail.number("effective_min_duration_ms") or 0) / 1e3
        about = max(least, rate[0] * duration_s)
        # Six standard deviations of a Poisson count.
        if not close(count, about, 6 * max(about, 1) ** -0.5 + DIGITS):
            who = "rate and duration give"
            yield entry_fault(detail, "generated_query_count", f"about {about:.6g}", who)
        return
    expected = len(due) - 1
    # Another implementation of the logarithm may round the last bit differently, which is a
    # nanosecond or two.
    slack, slack_ns = 0.0, 2.0
    if not rate[1]:
        slack = 10 + DIGITS * expected
        slack_ns = (slack + 20) * float(due[-1]) / max(expected, 1)
    who = "the seed, the rate and the duration give"
    if abs(count - expected) > slack:
        yield entry_fault(detail, "generated_query_count", expected, who)
    elif abs(duration_ns - int(due[-1])) > slack_ns:
        yield entry_fault(detail, "generated_query_duration", int(due[-1]), who)


def _latencies(detail: Detail, scenario: str) -> Faults:
    yield from _latency_faults(SAMPLES, detail)
    yield from _FIGURES[scenario](detail)


def _latency_faults(latency: LatencyKeys, detail: Detail) -> Faults:
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
            text = f"{low_key} = {low} is above {high_key} = {high}"
            yield Fault(text, f"at most {high}", str(low), line=detail.line(low_key))
    mean = detail.number(latency.mean)
    least, most = percentiles[0][2], percentiles[-1][2]
    if most == 0:
        text = f"every {latency.name} is 0: the SUT did not report it to LoadGen"
        yield Fault(text, "above 0", "0", line=detail.line(latency.maximum))
        return
    if least < 0 and latency is LATER_TOKENS:
        text = (
            f"{latency.minimum} is {least}: LoadGen divides the time after the first token by -1;"
            f" {_TWO_TOKENS}"
        )
        yield Fault(text, "above 0", str(least), line=detail.line(latency.minimum))
        return
    samples = detail.number("generated_samples_per_query") or 0
    if mean is None:
        yield not_a_number(detail, latency.mean)
    elif samples * most >= _LARGEST_SUM_NS:
        return  # the sum of the latencies, of which LoadGen computes the mean, is too large for it
    elif not 0 < least <= mean <= most:
        text = f"the mean {latency.name} {mean} is not between minimum {least} and maximum {most}"
        yield Fault(text, f"{least} to {most}", str(mean), line=detail.line(latency.mean))


def _offline(detail: Detail) -> Faults:
    key = "result_samples_per_second"
    value, rate = detail.number(key), rates.offline(detail)
    if value is None:
        yield not_a_number(detail, key)
    elif rate is not None and not close(value, rate, DIGITS):
        yield entry_fault(detail, key, f"{rate:.6g}", "counts and latencies give")
    tokens_key = "result_tokens_per_second"
    if counts.has_token_latencies(detail) and detail.number(tokens_key) == 0:
        text = f"{tokens_key} is 0: LoadGen counts no token; {_TWO_TOKENS}"
        yield Fault(text, "above 0", "0", line=detail.line(tokens_key))


def _single_stream(detail: Detail) -> Faults:
    whole_key = "result_qps_with_loadgen_overhead"
    bare_key = "result_qps_without_loadgen_overhead"
    whole, bare = detail.number(whole_key), detail.number(bare_key)
    if counts.has_token_latencies(detail):
        yield from _latency_faults(FIRST_TOKENS, detail)
        yield from _latency_faults(LATER_TOKENS, detail)
    yield from _missing(detail, bare_key, whole_key)
    mean = detail.number("result_mean_latency_ns")
    if not mean:
        return
    count = detail.number("result_query_count") or 0
    shortest = detail.number("result_min_latency_ns") or 0
    # All queries but the last are answered between the first issue and the last. The last one may
    # be the shortest.
    most = math.inf
    if count > 1:
        most = (1 + _IDLE) * (count * mean - shortest) / (count - 1) + _IDLE_NS
    if whole and whole > 0 and 1e9 / whole > most:
        period = f"{1e9 / whole / 1e6:.4g} ms"
        text = (
            f"a query is issued every {period} and takes {mean / 1e6:.4g} ms on average; the next"
            " must follow at once"
        )
        yield Fault(text, f"at most {most / 1e6:.4g} ms", period, line=detail.line(whole_key))
    # The mean is logged in whole nanoseconds. Short latencies show the rounding.
    if bare is not None and not close(bare, 1e9 / mean, DIGITS + 1 / mean):
        yield entry_fault(detail, bare_key, f"{1e9 / mean:.6g}", "counts and latencies give")


def _multi_stream(detail: Detail) -> Faults:
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


def _server(detail: Detail) -> Faults:
    """Yield the faults of Server: of its two rates, of the count over the limit and, with token
    latencies, of their percentiles and rates.
    """
    queries = detail.number("result_query_count")
    scheduled = detail.number("result_scheduled_samples_per_sec")
    completed = detail.number("result_completed_samples_per_sec")
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
    if possible := rates.completed(detail):
        slowest, fastest = possible
        if not slowest * (1 - 2 * DIGITS) <= completed <= fastest * (1 + 2 * DIGITS):
            expected = f"{slowest:.6g} to {fastest:.6g}"
            key, who = "result_completed_samples_per_sec", "schedule and latencies give"
            yield entry_fault(detail, key, expected, who)
    limit = detail.number("effective_target_latency_ns")
    if limit is not None:
        low, high = over_by_percentiles(detail, SAMPLES, int(queries), limit)
        count = detail.get("result_overlatency_query_count")
        if type(count) is not int or not low <= count <= high:
            expected = f"{low} to {high}" if low < high else str(low)
            key, who = "result_overlatency_query_count", "the percentiles give"
            yield entry_fault(detail, key, expected, who)
    if counts.has_token_latencies(detail):
        yield from _latency_faults(FIRST_TOKENS, detail)
        yield from _latency_faults(LATER_TOKENS, detail)
        yield from _tokens(detail)


def _tokens(detail: Detail) -> Faults:
    """Yield a fault if two rates imply different numbers of tokens. The number itself is not
    logged.
    """
    key = "result_completed_tokens_per_second"
    rate, expected = detail.number(key), rates.tokens(detail)
    if rate is None or expected is None:
        yield "a rate of tokens is missing"
    elif not close(rate, expected, 4 * DIGITS):
        yield entry_fault(detail, key, f"{expected:.6g}", "result_token_throughput gives")


_FIGURES: Mapping[str, Callable[[Detail], Faults]] = {
    "Offline": _offline,
    "SingleStream": _single_stream,
    "MultiStream": _multi_stream,
    "Server": _server,
}
