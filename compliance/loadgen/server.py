"""Server: queries arrive as they are scheduled, and limits hold for their latencies, or for those of tokens. Pure.

Sources: loadgen/results.cc (PerformanceSummary: PerfConstraintsMet, EarlyStopping, LogDetail), loadgen/loadgen.cc (GenerateQueries).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compliance.findings.check import Fault
from compliance.findings.entries import of_entry
from compliance.loadgen import counts, schedule
from compliance.loadgen.latency_keys import FIRST_TOKENS, LATER_TOKENS, SAMPLES, Ladder, limited
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject, asked


def over(d: Detail, ladder: Ladder) -> tuple[int, int] | None:
    """How many queries are over the limit, at least and at most; LoadGen counts those of plain latencies. None: figures are missing."""
    queries, limit = d.number("result_query_count"), d.number(ladder.limit)
    if queries is None or limit is None or not 0 < queries < 1 << 40:
        return None
    counted = d.get("result_overlatency_query_count")
    if ladder is SAMPLES and type(counted) is int and 0 <= counted <= queries:
        return counted, counted
    return _by_steps(d, ladder, int(queries), limit)


def _by_steps(d: Detail, ladder: Ladder, queries: int, limit: float) -> tuple[int, int]:
    least, most = 0, queries
    for _, share, value in ladder.steps(d):
        place = min(int(queries * share), queries - 1)
        if value > limit:
            least = max(least, queries - place)
        else:
            most = min(most, queries - place - 1)
    return least, most


def constraints_met(d: Detail, percentile: float) -> bool | None:
    """Whether the percentile (in percent) of each latency is within its limit. None: a figure is missing."""
    pairs = [(d.number(ladder.percentile.format(f"{percentile:.2f}")), d.number(ladder.limit)) for ladder in limited(d)]
    if any(value is None or limit is None for value, limit in pairs):
        return None
    return all(value <= limit for value, limit in pairs if value is not None and limit is not None)


def figures(d: Detail) -> Iterator[Fault | str]:
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
        low, high = _by_steps(d, SAMPLES, int(queries), limit)
        found = d.get("result_overlatency_query_count")
        if type(found) is not int or not low <= found <= high:
            want = f"{low} to {high}" if low < high else str(low)
            yield of_entry(d, "result_overlatency_query_count", want, "the percentiles make it")
    if counts.tokens(d):
        yield from FIRST_TOKENS.faults(d)
        yield from LATER_TOKENS.faults(d)
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


def rate(s: Subject) -> tuple[float, bool] | None:
    """(queries a second that were asked for, whether that is all its digits), see compliance.subject.asked."""
    return asked(s, "target_qps")


def due(s: Subject) -> np.ndarray | None:
    """When each query is due, as schedule.server has it; None: a setting is missing, or too many to tell."""
    d, asked = s.performance.detail, rate(s)
    demand, seed = schedule.demand(d), d.get("effective_schedule_rng_seed")
    if asked is None or demand is None or type(seed) is not int or seed < 0:
        return None
    return schedule.server(demand, asked[0], seed)


def generated(s: Subject) -> Iterator[Fault | str]:
    """Count and duration of what was generated, to the query and nanosecond where the rate is known in all its digits."""
    d, asked, wanted = s.performance.detail, rate(s), due(s)
    count, duration_ns = d.number("generated_query_count"), d.number("generated_query_duration")
    if asked is None or count is None or duration_ns is None:
        yield "the rate, generated_query_count or generated_query_duration is missing"
        return
    if wanted is None:
        want = max(d.number("effective_min_query_count") or 0, asked[0] * (d.number("effective_min_duration_ms") or 0) / 1e3)
        if not close(count, want, 6 * max(want, 1) ** -0.5 + DIGITS):  # six standard deviations of as many arrivals
            yield of_entry(d, "generated_query_count", f"about {want:.6g}", "rate and duration make")
        return
    want = len(wanted) - 1
    slack = 0.0 if asked[1] else 10 + DIGITS * want
    if abs(count - want) > slack:
        yield of_entry(d, "generated_query_count", want, "the seed, the rate and the duration make")
    # Another logarithm may round the last bit otherwise: a nanosecond or two.
    elif abs(duration_ns - int(wanted[-1])) > (2 if asked[1] else (slack + 20) * float(wanted[-1]) / want):
        yield of_entry(d, "generated_query_duration", int(wanted[-1]), "the seed, the rate and the duration make")
