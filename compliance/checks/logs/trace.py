"""The checks that LoadGen's logged figures follow from its trace, scenario by scenario. All
functions are pure.

Nanoseconds must be equal. Rates are compared within the six digits that the log has. The times of
later tokens cannot be computed again, because a trace does not count tokens. Sources:
loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping

import numpy as np

from compliance.findings.check import judge, not_applicable, shorten
from compliance.findings.entries import entry_fault, of_the_log
from compliance.loadgen import counts, schedule
from compliance.loadgen.early_stopping import discards, estimates
from compliance.loadgen.latency_keys import FIRST_TOKENS, PERCENTILES, QUERIES, SAMPLES, LatencyKeys
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.detail import LOADED_SET
from compliance.logs.digits import DIGITS
from compliance.logs.trace import Trace
from compliance.subject import Subject, requested_value
from formats.checks import Check, Fault, Faults


def checks(subject: Subject) -> list[Check]:
    """The checks of the trace's samples, of the figures computed from it, and of its times."""
    trace, file = subject.trace, subject.trace_file
    if trace is None:
        ids = ("trace-samples", "trace-figures", "trace-times")
        return [not_applicable(check_id, subject.no_trace, file=file) for check_id in ids]
    log = subject.detail_file(subject.performance)
    samples = _samples(trace, subject.performance.detail, subject.scenario)
    return [
        judge(
            "trace-samples",
            of_the_log(samples, log),
            f"{len(trace.sequence)} samples, each issued and completed once",
            file=file,
        ),
        judge(
            "trace-figures",
            of_the_log(_figures(subject, trace), log),
            "percentiles, mean, rate and estimates are those of the trace",
            file=file,
        ),
        judge(
            "trace-times",
            of_the_log(_times(subject, trace), log),
            _GOOD_TIMES[subject.scenario],
            file=file,
        ),
    ]


def _samples(trace: Trace, detail: Detail, scenario: str) -> Faults:
    yield from trace.problems
    key = "generated_samples_per_query" if scenario == "Offline" else "result_query_count"
    count = len(trace.sequence)
    per_query = counts.samples_per_query(detail, scenario)
    if count != counts.samples(detail, scenario):
        value = shorten(detail.get(key))
        of_each = f" of {per_query} samples" if per_query > 1 else ""
        yield Fault(
            f"the trace shows {count} samples; {key} is {value}{of_each}", value, str(count)
        )
    if (missing := np.flatnonzero(trace.sequence != np.arange(count))).size:
        expected = int(missing[0])
        at = int(trace.sequence[expected])
        text = f"sample numbers do not run from 0 on, each once: {at} is in the place of {expected}"
        yield Fault(text, str(expected), str(at))
    if scenario == "Offline":
        if trace.query.any():
            yield "queries and samples do not match: Offline has one query"
    elif (trace.query != trace.sequence // per_query).any():
        yield f"queries and samples do not match: a query has {per_query} sample(s)"
    loaded = detail.get(LOADED_SET)
    if not isinstance(loaded, array) or not np.isin(trace.index, loaded).all():
        yield "samples were issued that were not loaded"


def _figures(subject: Subject, trace: Trace) -> Faults:
    detail, scenario = subject.performance.detail, subject.scenario
    if not len(trace.latency_ns):
        yield "the trace shows no sample"
        return
    if _needs_tokens(detail, scenario) and not _has_tokens(trace, detail, scenario):
        count, expected = str(len(trace.first_token_ns)), str(len(trace.latency_ns))
        text = f"the trace shows {count} first tokens of {expected} samples"
        yield Fault(text, expected, count)
        return
    for key, value in exact(subject, trace).items():
        if detail.get(key) != value:
            yield entry_fault(detail, key, value, "the trace has")
    yield from _RATES[scenario](trace, detail)


def exact(subject: Subject, trace: Trace) -> dict[str, int]:
    """Key of the detail log → its value in nanoseconds, or its count, computed from a trace with at
    least one sample.
    """
    detail, scenario = subject.performance.detail, subject.scenario
    samples = np.sort(trace.latency_ns)
    values = _latencies(SAMPLES, samples)
    estimated = samples
    if scenario == "MultiStream":
        estimated = np.sort(_of_queries(trace, counts.samples_per_query(detail, scenario)))
        values |= _latencies(QUERIES, estimated)
    if _has_tokens(trace, detail, scenario):
        first_tokens = np.sort(trace.first_token_ns)
        values |= _latencies(FIRST_TOKENS, first_tokens)
        if scenario != "MultiStream":
            estimated = first_tokens
    for percentile, key in estimates(detail, scenario, subject.rules):
        left_out = discards(len(estimated), percentile / 100, subject.rules)
        values[key] = 0 if left_out is None else int(estimated[len(estimated) - left_out - 1])
    limit = detail.number("effective_target_latency_ns")
    if scenario == "Server" and limit is not None:
        values["result_overlatency_query_count"] = int((samples > limit).sum())
    return values


def _needs_tokens(detail: Detail, scenario: str) -> bool:
    return counts.has_token_latencies(detail) and scenario != "Offline"


def _has_tokens(trace: Trace, detail: Detail, scenario: str) -> bool:
    """Whether the trace has the first token of each sample, if LoadGen measured it."""
    whole = len(trace.first_token_ns) == len(trace.latency_ns)
    return _needs_tokens(detail, scenario) and whole


def _of_queries(trace: Trace, per_query: int) -> np.ndarray:
    """The latency of each query of MultiStream, int64 [queries]. It is the latency of the slowest
    sample, because all samples of a query are issued at once.
    """
    return np.maximum.reduceat(trace.latency_ns, np.arange(0, len(trace.latency_ns), per_query))


def _latencies(latency: LatencyKeys, ascending: np.ndarray) -> dict[str, int]:
    """Key of the detail log → its value in nanoseconds, computed from sorted latencies."""
    count = len(ascending)
    values = {
        latency.minimum: int(ascending[0]),
        latency.maximum: int(ascending[-1]),
        latency.mean: _sum(ascending) // count,
    }
    for name, share in PERCENTILES.items():
        values[latency.percentile.format(name)] = int(ascending[int(count * share)])
    return values


def _sum(values: np.ndarray) -> int:
    """The exact sum, even if an int64 would overflow."""
    return int((values >> 32).sum()) * (1 << 32) + int((values & 0xFFFFFFFF).sum())


def _between(detail: Detail, key: str, least: float, most: float) -> Faults:
    value = detail.number(key) or 0
    if not least * (1 - DIGITS) <= value <= most * (1 + DIGITS):
        yield entry_fault(detail, key, f"{most:.6g}", "the trace gives")


def _offline(trace: Trace, detail: Detail) -> Faults:
    rate = len(trace.latency_ns) * 1e9 / (float(trace.latency_ns.max()) or 1)
    yield from _between(detail, "result_samples_per_second", rate, rate)


def _single_stream(trace: Trace, detail: Detail) -> Faults:
    """Yield the faults of SingleStream's rate. It counts from the start of the test, which is
    between the end of generation and the first issue.
    """
    first, last = int(trace.start_ns[0]), int(trace.start_ns[-1])
    ready = trace.ready_ns
    if ready is None or not ready <= first < last:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or shows only one query"
        )
        return
    more = len(trace.start_ns) - 1
    least, most = more * 1e9 / (last - ready), more * 1e9 / (last - first)
    yield from _between(detail, "result_qps_with_loadgen_overhead", least, most)


def _multi_stream(trace: Trace, detail: Detail) -> Faults:
    """Yield a fault if the trace contradicts MultiStream's result_min_duration_met. MultiStream
    logs no rate, but the trace shows whether its last query was issued late enough.
    """
    first, last = int(trace.start_ns[0]), int(trace.start_ns[-1])
    ready = trace.ready_ns
    least_ms = detail.number("effective_min_duration_ms")
    met = detail.get("result_min_duration_met")
    if ready is None or ready > first or least_ms is None:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or the duration is missing"
        )
        return
    surely_met = last - first >= least_ms * 1e6
    surely_not = last - ready < least_ms * 1e6
    if (surely_met and met is not True) or (surely_not and met is not False):
        yield entry_fault(detail, "result_min_duration_met", surely_met, "by the trace it is")


def _server(trace: Trace, detail: Detail) -> Faults:
    """Yield the faults of Server's rates. They count from the start of the test, when the first
    query is due.
    """
    more = len(trace.start_ns) - 1
    due = int(trace.start_ns[-1] - trace.start_ns[0])
    done = due + int(trace.latency_ns[-1])
    issued = due + int(trace.delay_ns[-1])
    spent = {"result_scheduled_samples_per_sec": due, "result_completed_samples_per_sec": done}
    for key, spent_ns in spent.items():
        if spent_ns > 0:
            rate = more * 1e9 / spent_ns
            yield from _between(detail, key, rate, rate)
    completed_key = "result_completed_tokens_per_second"
    overhead_key = "result_token_throughput_with_loadgen_overhead"
    completed, overhead = detail.number(completed_key), detail.number(overhead_key)
    if counts.has_token_latencies(detail) and completed is not None and issued > 0:
        tokens = completed * done / 1e9
        rate = tokens * 1e9 / issued
        if overhead is None or abs(overhead - rate) > 2 * DIGITS * overhead:
            who = f"the trace and {completed_key} give"
            yield entry_fault(detail, overhead_key, f"{rate:.6g}", who)


_RATES: Mapping[str, Callable[[Trace, Detail], Faults]] = {
    "Offline": _offline,
    "SingleStream": _single_stream,
    "MultiStream": _multi_stream,
    "Server": _server,
}


def _times(subject: Subject, trace: Trace) -> Faults:
    if not len(trace.start_ns):
        yield "the trace shows no sample"
        return
    ends = trace.start_ns + trace.latency_ns
    yield from _TIMES[subject.scenario](subject, trace, ends)
    wall_s = wall_seconds(subject.performance.detail)
    spent_s = float(ends.max() - trace.start_ns.min()) / 1e9
    tolerance_s = subject.rules.dates.clock_tolerance_s + 1e-3 * spent_s
    if wall_s is None or abs(wall_s - spent_s) > tolerance_s:
        text = (
            f"from the first issue to the last completion {spent_s:.3f} s passed; power_begin and"
            f" power_end say {wall_s}"
        )
        yield Fault(text, f"{wall_s} s", f"{spent_s:.3f} s")


def _all_at_once(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    if (trace.start_ns != trace.start_ns[0]).any():
        yield "not all samples were issued at one time"


def _one_by_one(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    per_query = counts.samples_per_query(subject.performance.detail, subject.scenario)
    starts = trace.start_ns[::per_query]
    if (np.repeat(starts, per_query)[: len(ends)] != trace.start_ns).any():
        yield "not all samples of a query were issued at one time"
    done = np.maximum.reduceat(ends, np.arange(0, len(ends), per_query))
    if (early := np.flatnonzero(starts[1:] < done[:-1])).size:
        first = int(early[0])
        by_ns = int(done[first] - starts[first + 1])
        text = f"query {first + 1} was issued {by_ns} ns before query {first} was answered"
        yield Fault(text, "one query after the other", f"{by_ns} ns early")


def _scheduled(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    """Yield a fault if a query of Server was not due at the time that the seed gives, was issued
    out of order, or was answered before it was issued.
    """
    detail = subject.performance.detail
    rate = requested_value(subject, "target_qps")
    due = schedule.due(detail, rate[0]) if rate else None
    starts = trace.start_ns - trace.start_ns[0]
    if rate is None or due is None:
        yield (
            "the rate or the settings of the schedule are missing, or there are too many queries to"
            " compute when each is due"
        )
    elif len(starts) >= len(due):
        count, expected = len(starts), len(due) - 1
        text = f"the trace shows {count} queries and {expected} are due"
        yield Fault(text, str(expected), str(count))
    else:
        # Another implementation of the logarithm may round the last bit differently, which is a
        # nanosecond.
        gaps, expected_gaps = np.diff(starts), np.diff(due[: len(starts)])
        allowed = 1 if rate[1] else 1 + expected_gaps * DIGITS
        strays = np.flatnonzero(np.abs(gaps - expected_gaps) > allowed)
        if strays.size:
            gap, expected_gap = gaps[strays[0]], expected_gaps[strays[0]]
            text = (
                f"query {int(strays[0]) + 1} is due {gap} ns after the one before it; by the seed"
                f" it is due after {expected_gap} ns"
            )
            yield Fault(text, str(expected_gap), str(gap))
    if (hasty := np.flatnonzero(trace.delay_ns > trace.latency_ns)).size:
        yield f"query {int(hasty[0])} was answered before it was issued"
    if detail.get("requested_server_num_issue_query_threads") == 0:
        issued = trace.start_ns + trace.delay_ns
        if (back := np.flatnonzero(np.diff(issued) < 0)).size:
            yield f"query {int(back[0]) + 1} was issued before query {int(back[0])}"


_TIMES: Mapping[str, Callable[[Subject, Trace, np.ndarray], Faults]] = {
    "Offline": _all_at_once,
    "SingleStream": _one_by_one,
    "MultiStream": _one_by_one,
    "Server": _scheduled,
}
_GOOD_TIMES: Mapping[str, str] = {
    "Offline": "all in one query",
    "SingleStream": "each query was issued after the answer to the one before it",
    "MultiStream": (
        "each query was issued after the answer to the one before it, with all its samples at once"
    ),
    "Server": "each query was due when seed and rate say, and answered after it was issued",
}
