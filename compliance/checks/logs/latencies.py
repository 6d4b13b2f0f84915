"""The checks that the counts, latencies and rates of a performance test agree. All functions are
pure.

Sources: loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

import math
from itertools import pairwise

from compliance.checks.entries import entry_fault, not_a_number
from compliance.findings.check import judge
from compliance.loadgen import rates, schedule
from compliance.loadgen.latency_keys import (
    FIRST_TOKENS,
    LATER_TOKENS,
    PERCENTILES,
    QUERIES,
    SAMPLES,
    LatencyKeys,
)
from compliance.loadgen.log import Log
from compliance.loadgen.rates import Bounds
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject, requested_value
from formats.checks import Checks, Fault, Faults

# The allowed idle time between two queries of SingleStream. LoadGen and the SUT's binding take only
# some microseconds.
_IDLE = 0.1
_IDLE_NS = 1e5
_LARGEST_SUM_NS = 2.0**63
_TWO_TOKENS = (
    "an answer has one token or none: report n_tokens of at least 2 for each answer, or set"
    " use_token_latencies to 0"
)
_COUNTS = (
    "generated_query_count",
    "generated_samples_per_query",
    "result_query_count",
    "effective_samples_per_query",
    "effective_performance_sample_count",
)

_GENERATED = ("generated_query_count", "generated_query_duration")


def checks(subject: Subject) -> Checks:
    """The checks of counts and of latencies."""
    log = subject.log
    file = subject.performance.file
    issued = f"{log.samples} samples issued and completed"
    agreement = "minimum, mean, percentiles, maximum and rate agree"
    faults = [*_latency_faults(SAMPLES, log), *_FIGURES[log.scenario](log)]
    return [
        judge("counts", _counts(subject), issued, file),
        judge("latencies", faults, agreement, file),
    ]


def _missing(log: Detail, *keys: str) -> list[Fault]:
    return [not_a_number(log, key) for key in keys if log.number(key) is None]


def _counts(subject: Subject) -> Faults:
    log = subject.log
    if missing := _missing(log, *_COUNTS):
        yield from missing
        return
    generated, each, issued, expected, _ = (log.number(key) or 0 for key in _COUNTS)
    key = "generated_samples_per_query"
    line = log.line("result_query_count")
    if log.scenario == "Offline":
        loaded = log.loaded_samples()
        if loaded and log.get("effective_sample_concatenate_permutation"):
            expected = -(-expected // loaded) * loaded
        if each != expected:
            yield entry_fault(log, key, expected, "the effective settings give")
        if generated != 1 or issued != 1:
            text = f"{generated} queries generated and {issued} issued; Offline has one"
            yield Fault(text, "1 and 1", f"{generated} and {issued}", line=line)
        yield from _offline_period(subject)
        return
    if each != log.per_query:
        yield entry_fault(log, key, log.per_query, f"{log.scenario} has")
    if not 1 <= issued <= generated:
        text = f"{issued} queries issued of {generated} generated"
        yield Fault(text, f"1 to {generated}", str(issued), line=line)
    yield from _scheduled(subject) if log.scenario == "Server" else _generated(subject)


def _offline_period(subject: Subject) -> Faults:
    """Yield a fault if the duration of Offline's only query is not the time of a sample at the
    target rate.
    """
    log = subject.log
    rate = requested_value(subject, "target_qps")
    key = "generated_query_duration"
    spent_ns = log.number(key)
    if rate is None or spent_ns is None:
        return
    period_ns = 1e9 / rate[0]
    slack_ns = 1 if rate[1] else 1 + DIGITS * period_ns
    if abs(spent_ns - int(period_ns)) > slack_ns:
        yield entry_fault(log, key, int(period_ns), "the target gives")


def _generated(subject: Subject) -> Faults:
    """Yield a fault if count or duration of the generated queries do not follow from the settings,
    for SingleStream and MultiStream (loadgen.cc, GenerateQueries).
    """
    log = subject.log
    latency_ns = requested_value(subject, "target_latency")
    demand = schedule.demand(log)
    count, spent_ns = (log.number(key) for key in _GENERATED)
    period = schedule.period_ns(latency_ns[0]) if latency_ns else 0
    expected = schedule.stream(demand, period) if demand else None
    if not latency_ns or not demand or expected is None or count is None or spent_ns is None:
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
        yield entry_fault(log, "generated_query_count", expected, who)
    elif not close(spent_ns, count * period, tolerance):
        yield entry_fault(log, "generated_query_duration", int(count * period), who)


def _scheduled(subject: Subject) -> Faults:
    """Yield a fault if count or duration of Server's generated queries do not follow from the
    settings. The comparison is exact if all digits of the rate are known.
    """
    log = subject.log
    rate = requested_value(subject, "target_qps")
    count, duration_ns = (log.number(key) for key in _GENERATED)
    if rate is None or count is None or duration_ns is None:
        yield "the rate, generated_query_count or generated_query_duration is missing"
        return
    due = schedule.due(log, rate[0])
    if due is None:
        least = log.number("effective_min_query_count") or 0
        duration_ms = log.number("effective_min_duration_ms") or 0
        about = max(least, schedule.about(rate[0], duration_ms))
        # Six standard deviations of a Poisson count.
        if not close(count, about, 6 * max(about, 1) ** -0.5 + DIGITS):
            expected = f"about {about:.6g}"
            yield entry_fault(log, "generated_query_count", expected, "rate and duration give")
        return
    expected_count = len(due) - 1
    expected_ns = int(due[-1])
    # Another implementation of the logarithm may round the last bit differently, which is a
    # nanosecond or two.
    slack = 0.0
    slack_ns = 2.0
    if not rate[1]:
        slack = 10 + DIGITS * expected_count
        slack_ns = (slack + 20) * expected_ns / max(expected_count, 1)
    who = "the seed, the rate and the duration give"
    if abs(count - expected_count) > slack:
        yield entry_fault(log, "generated_query_count", expected_count, who)
    elif abs(duration_ns - expected_ns) > slack_ns:
        yield entry_fault(log, "generated_query_duration", expected_ns, who)


def _latency_faults(latency: LatencyKeys, log: Detail) -> Faults:
    """Yield a fault for each minimum, percentile, maximum or mean that is missing or contradicts
    another.
    """
    percentiles = latency.percentiles(log)
    minimum = latency.minimum
    keys = [minimum, *(latency.percentile.format(p) for p in PERCENTILES), latency.maximum]
    if missing := _missing(log, *keys):
        yield from missing
        return
    for (low_key, _, low), (high_key, _, high) in pairwise(percentiles):
        if low > high:
            text = f"{low_key} = {low} is above {high_key} = {high}"
            yield Fault(text, f"at most {high}", str(low), line=log.line(low_key))
    mean = log.number(latency.mean)
    least = percentiles[0][2]
    most = percentiles[-1][2]
    if most == 0:
        text = f"every {latency.name} is 0: the SUT did not report it to LoadGen"
        yield Fault(text, "above 0", "0", line=log.line(latency.maximum))
        return
    if least < 0 and latency is LATER_TOKENS:
        text = (
            f"{minimum} is {least}: LoadGen divides the time after the first token by -1;"
            f" {_TWO_TOKENS}"
        )
        yield Fault(text, "above 0", str(least), line=log.line(minimum))
        return
    samples = log.number("generated_samples_per_query") or 0
    if mean is None:
        yield not_a_number(log, latency.mean)
    elif samples * most >= _LARGEST_SUM_NS:
        return  # the sum of the latencies, of which LoadGen computes the mean, is too large for it
    elif not 0 < least <= mean <= most:
        text = f"the mean {latency.name} {mean} is not between minimum {least} and maximum {most}"
        yield Fault(text, f"{least} to {most}", str(mean), line=log.line(latency.mean))


def _of_tokens(log: Log) -> Faults:
    """Yield the faults of the latencies of tokens, if LoadGen measured them."""
    if log.has_tokens:
        yield from _latency_faults(FIRST_TOKENS, log)
        yield from _latency_faults(LATER_TOKENS, log)
        if log.scenario in ("SingleStream", "Server"):
            yield from _missing(log, rates.THROUGHPUT)


def _rates(log: Log) -> Faults:
    """Yield a fault for each rate that is missing or does not follow from other figures."""
    for key, rate in rates.of(log).items():
        value = log.number(key)
        bounds = rate.bounds(log)
        if value is None:
            yield not_a_number(log, key)
        elif bounds and not _within(value, bounds, rate.digits):
            low, high = (f"{bound:.6g}" for bound in bounds)
            expected = low if low == high else f"{low} to {high}"
            yield entry_fault(log, key, expected, f"by {rate.source} it is")


def _within(value: float, bounds: Bounds, digits: float) -> bool:
    return bounds[0] * (1 - digits) <= value <= bounds[1] * (1 + digits)


def _offline(log: Log) -> Faults:
    yield from _rates(log)
    tokens_key = "result_tokens_per_second"
    if log.has_tokens and log.number(tokens_key) == 0:
        text = f"{tokens_key} is 0: LoadGen counts no token; {_TWO_TOKENS}"
        yield Fault(text, "above 0", "0", line=log.line(tokens_key))


def _single_stream(log: Log) -> Faults:
    whole_key = "result_qps_with_loadgen_overhead"
    whole = log.number(whole_key)
    yield from _of_tokens(log)
    yield from _rates(log)
    yield from _missing(log, whole_key)
    mean = log.number("result_mean_latency_ns")
    if not mean:
        return
    count = log.number("result_query_count") or 0
    shortest = log.number("result_min_latency_ns") or 0
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
        yield Fault(text, f"at most {most / 1e6:.4g} ms", period, line=log.line(whole_key))


def _multi_stream(log: Log) -> Faults:
    """Yield a fault for each figure of MultiStream's queries below that of its samples. A query
    takes as long as its slowest sample, and the two maxima are the same.
    """
    yield from _latency_faults(QUERIES, log)
    percentiles = zip(QUERIES.percentiles(log), SAMPLES.percentiles(log), strict=False)
    pairs = [(key, value, other) for (key, _, value), (_, _, other) in percentiles]
    pairs.append((QUERIES.mean, log.number(QUERIES.mean) or 0, log.number(SAMPLES.mean) or 0))
    for key, of_queries, of_samples in pairs:
        if of_queries < of_samples or (key == QUERIES.maximum and of_queries != of_samples):
            yield entry_fault(log, key, of_samples, "that of the samples is")


def _server(log: Log) -> Faults:
    """Yield the faults of Server: of its rates, of the count over the limit and, with token
    latencies, of their percentiles.
    """
    yield from _missing(log, "result_query_count", "result_scheduled_samples_per_sec")
    yield from _rates(log)
    limit = log.number("effective_target_latency_ns")
    if limit is not None:
        key = "result_overlatency_query_count"
        low, high = log.over_by_percentiles(SAMPLES, limit)
        count = log.get(key)
        if type(count) is not int or not low <= count <= high:
            expected = f"{low} to {high}" if low < high else str(low)
            yield entry_fault(log, key, expected, "the percentiles give")
    yield from _of_tokens(log)


_FIGURES = {
    "Offline": _offline,
    "SingleStream": _single_stream,
    "MultiStream": _multi_stream,
    "Server": _server,
}
