"""The checks that LoadGen's logged figures follow from its trace, scenario by scenario. All
functions are pure.

Nanoseconds must be equal. Rates are compared within the six digits that the log has. The times of
later tokens cannot be computed again, because a trace does not count tokens. Sources:
loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

from array import array

import numpy as np

from compliance.checks.entries import entry_fault, of_the_log
from compliance.findings.check import differs, judge, not_applicable, shorten
from compliance.loadgen import schedule
from compliance.loadgen.early_stopping import discards
from compliance.loadgen.latency_keys import FIRST_TOKENS, PERCENTILES, QUERIES, SAMPLES, LatencyKeys
from compliance.loadgen.log import Log
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS
from compliance.logs.entry import LOADED_SET
from compliance.logs.trace import Trace
from compliance.subject import Subject, requested_value
from formats.checks import Checks, Fault, Faults


def checks(subject: Subject) -> Checks:
    """The checks of the trace's samples, of the figures computed from it, and of its times."""
    trace = subject.trace
    file = subject.trace_file
    if trace is None:
        ids = ("trace-samples", "trace-figures", "trace-times")
        return [not_applicable(check_id, subject.no_trace, file) for check_id in ids]
    log = subject.log
    found = {
        "trace-samples": (
            _samples(trace, log),
            f"{len(trace.sequence)} samples, each issued and completed once",
        ),
        "trace-figures": (
            _figures(trace, log),
            "percentiles, mean, rate and estimates are those of the trace",
        ),
        "trace-times": (_times(subject, trace), _GOOD_TIMES[log.scenario]),
    }
    return [
        judge(check_id, of_the_log(faults, subject.performance.file), good, file)
        for check_id, (faults, good) in found.items()
    ]


def _samples(trace: Trace, log: Log) -> Faults:
    yield from trace.problems
    key = "generated_samples_per_query" if log.scenario == "Offline" else "result_query_count"
    sequence = trace.sequence
    count = len(sequence)
    per_query = log.per_query
    if count != log.samples:
        value = shorten(log.get(key))
        of_each = f" of {per_query} samples" if per_query > 1 else ""
        text = f"the trace shows {count} samples; {key} is {value}{of_each}"
        yield Fault(text, value, str(count))
    for place in _first(sequence != np.arange(count)):
        sentence = (
            "sample numbers do not run from 0 on, each once: {found} is in the place of {expected}"
        )
        yield differs(sentence, sequence[place], place)
    if log.scenario == "Offline":
        if trace.query.any():
            yield "queries and samples do not match: Offline has one query"
    elif (trace.query != sequence // per_query).any():
        yield f"queries and samples do not match: a query has {per_query} sample(s)"
    loaded = log.get(LOADED_SET)
    if not isinstance(loaded, array) or not np.isin(trace.index, loaded).all():
        yield "samples were issued that were not loaded"


def _figures(trace: Trace, log: Log) -> Faults:
    if not len(trace.latency_ns):
        yield "the trace shows no sample"
        return
    if _needs_tokens(log) and not _has_tokens(trace, log):
        sentence = "the trace shows {found} first tokens of {expected} samples"
        yield differs(sentence, len(trace.first_token_ns), len(trace.latency_ns))
        return
    for key, value in exact(trace, log).items():
        if log.get(key) != value:
            yield entry_fault(log, key, value, "the trace has")
    yield from _RATES[log.scenario](trace, log)


def exact(trace: Trace, log: Log) -> dict[str, int]:
    """Key of the detail log → its value in nanoseconds, or its count, computed from a trace with at
    least one sample.
    """
    latency_ns = trace.latency_ns
    samples = np.sort(latency_ns)
    values = _latencies(SAMPLES, samples)
    estimated = samples
    if log.scenario == "MultiStream":
        # The latency of a query is that of its slowest sample: all are issued at once.
        starts = np.arange(0, len(latency_ns), log.per_query)
        estimated = np.sort(np.maximum.reduceat(latency_ns, starts))
        values |= _latencies(QUERIES, estimated)
    if _has_tokens(trace, log):
        first_tokens = np.sort(trace.first_token_ns)
        values |= _latencies(FIRST_TOKENS, first_tokens)
        if log.scenario != "MultiStream":
            estimated = first_tokens
    for key, percentile in log.estimates.items():
        left_out = discards(len(estimated), percentile / 100, log.rules)
        values[key] = 0 if left_out is None else int(estimated[len(estimated) - left_out - 1])
    limit = log.number("effective_target_latency_ns")
    if log.scenario == "Server" and limit is not None:
        values["result_overlatency_query_count"] = int((samples > limit).sum())
    return values


def _needs_tokens(log: Log) -> bool:
    return log.has_tokens and log.scenario != "Offline"


def _has_tokens(trace: Trace, log: Log) -> bool:
    """Whether the trace has the first token of each sample, if LoadGen measured it."""
    return _needs_tokens(log) and len(trace.first_token_ns) == len(trace.latency_ns)


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


def _between(log: Log, key: str, least: float, most: float) -> Faults:
    value = log.number(key) or 0
    if not least * (1 - DIGITS) <= value <= most * (1 + DIGITS):
        yield entry_fault(log, key, f"{most:.6g}", "the trace gives")


def _offline(trace: Trace, log: Log) -> Faults:
    rate = len(trace.latency_ns) * 1e9 / (float(trace.latency_ns.max()) or 1)
    yield from _between(log, "result_samples_per_second", rate, rate)


def _single_stream(trace: Trace, log: Log) -> Faults:
    """Yield the faults of SingleStream's rate. It counts from the start of the test, which is
    between the end of generation and the first issue.
    """
    start_ns = trace.start_ns
    first = int(start_ns[0])
    last = int(start_ns[-1])
    ready = trace.ready_ns
    if ready is None or not ready <= first < last:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or shows only one query"
        )
        return
    more = len(start_ns) - 1
    least = more * 1e9 / (last - ready)
    most = more * 1e9 / (last - first)
    yield from _between(log, "result_qps_with_loadgen_overhead", least, most)


def _multi_stream(trace: Trace, log: Log) -> Faults:
    """Yield a fault if the trace contradicts MultiStream's result_min_duration_met. MultiStream
    logs no rate, but the trace shows whether its last query was issued late enough.
    """
    first = int(trace.start_ns[0])
    last = int(trace.start_ns[-1])
    ready = trace.ready_ns
    key = "result_min_duration_met"
    least_ms = log.number("effective_min_duration_ms")
    met = log.get(key)
    if ready is None or ready > first or least_ms is None:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or the duration is missing"
        )
        return
    surely_met = last - first >= least_ms * 1e6
    surely_not = last - ready < least_ms * 1e6
    if (surely_met and met is not True) or (surely_not and met is not False):
        yield entry_fault(log, key, surely_met, "by the trace it is")


def _server(trace: Trace, log: Log) -> Faults:
    """Yield the faults of Server's rates. They count from the start of the test, when the first
    query is due.
    """
    start_ns = trace.start_ns
    more = len(start_ns) - 1
    due = int(start_ns[-1] - start_ns[0])
    done = due + int(trace.latency_ns[-1])
    issued = due + int(trace.delay_ns[-1])
    spent = {"result_scheduled_samples_per_sec": due, "result_completed_samples_per_sec": done}
    for key, spent_ns in spent.items():
        if spent_ns > 0:
            rate = more * 1e9 / spent_ns
            yield from _between(log, key, rate, rate)
    completed_key = "result_completed_tokens_per_second"
    overhead_key = "result_token_throughput_with_loadgen_overhead"
    completed = log.number(completed_key)
    overhead = log.number(overhead_key)
    if log.has_tokens and completed is not None and issued > 0:
        tokens = completed * done / 1e9
        rate = tokens * 1e9 / issued
        if overhead is None or abs(overhead - rate) > 2 * DIGITS * overhead:
            who = f"the trace and {completed_key} give"
            yield entry_fault(log, overhead_key, f"{rate:.6g}", who)


_RATES = {
    "Offline": _offline,
    "SingleStream": _single_stream,
    "MultiStream": _multi_stream,
    "Server": _server,
}


def _times(subject: Subject, trace: Trace) -> Faults:
    start_ns = trace.start_ns
    if not len(start_ns):
        yield "the trace shows no sample"
        return
    ends = start_ns + trace.latency_ns
    yield from _TIMES[subject.scenario](subject, trace, ends)
    wall_s = wall_seconds(subject.performance.detail)
    spent_s = float(ends.max() - start_ns.min()) / 1e9
    tolerance_s = subject.rules.dates.clock_tolerance_s + 1e-3 * spent_s
    if wall_s is None or abs(wall_s - spent_s) > tolerance_s:
        sentence = (
            "from the first issue to the last completion {found} passed; power_begin and power_end"
            " say {wall_s}"
        )
        yield differs(sentence, f"{spent_s:.3f} s", f"{wall_s} s", wall_s=wall_s)


def _all_at_once(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    if (trace.start_ns != trace.start_ns[0]).any():
        yield "not all samples were issued at one time"


def _one_by_one(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    per_query = subject.log.per_query
    starts = trace.start_ns[::per_query]
    if (np.repeat(starts, per_query)[: len(ends)] != trace.start_ns).any():
        yield "not all samples of a query were issued at one time"
    done = np.maximum.reduceat(ends, np.arange(0, len(ends), per_query))
    for first in _first(starts[1:] < done[:-1]):
        by_ns = int(done[first] - starts[first + 1])
        text = f"query {first + 1} was issued {by_ns} ns before query {first} was answered"
        yield Fault(text, "one query after the other", f"{by_ns} ns early")


def _scheduled(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    """Yield a fault if a query of Server was not due at the time that the seed gives, was issued
    out of order, or was answered before it was issued.
    """
    log = subject.log
    rate = requested_value(subject, "target_qps")
    due = schedule.due(log, rate[0]) if rate else None
    start_ns = trace.start_ns
    starts = start_ns - start_ns[0]
    if rate is None or due is None:
        yield (
            "the rate or the settings of the schedule are missing, or there are too many queries to"
            " compute when each is due"
        )
    elif len(starts) >= len(due):
        sentence = "the trace shows {found} queries and {expected} are due"
        yield differs(sentence, len(starts), len(due) - 1)
    else:
        # Another implementation of the logarithm may round the last bit differently, which is a
        # nanosecond.
        gaps = np.diff(starts)
        expected_gaps = np.diff(due[: len(starts)])
        allowed = 1 if rate[1] else 1 + expected_gaps * DIGITS
        for stray in _first(np.abs(gaps - expected_gaps) > allowed):
            sentence = (
                "query {query} is due {found} ns after the one before it; by the seed it is due"
                " after {expected} ns"
            )
            yield differs(sentence, gaps[stray], expected_gaps[stray], query=stray + 1)
    for query in _first(trace.delay_ns > trace.latency_ns):
        yield f"query {query} was answered before it was issued"
    if log.get("requested_server_num_issue_query_threads") == 0:
        for query in _first(np.diff(start_ns + trace.delay_ns) < 0):
            yield f"query {query + 1} was issued before query {query}"


def _first(wrong: np.ndarray) -> list[int]:
    """The first place that is true; empty if there is none."""
    return np.flatnonzero(wrong)[:1].tolist()


_TIMES = {
    "Offline": _all_at_once,
    "SingleStream": _one_by_one,
    "MultiStream": _one_by_one,
    "Server": _scheduled,
}
_GOOD_TIMES = {
    "Offline": "all in one query",
    "SingleStream": "each query was issued after the answer to the one before it",
    "MultiStream": (
        "each query was issued after the answer to the one before it, with all its samples at once"
    ),
    "Server": "each query was due when seed and rate say, and answered after it was issued",
}
