"""The checks that LoadGen's logged figures follow from its trace, scenario by scenario. All
functions are pure.

Nanoseconds must be equal. Rates are compared within the six digits that the log has. The times of
later tokens cannot be computed again, because a trace does not count tokens. Sources:
loadgen/results.cc, loadgen/loadgen.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from compliance.findings import fixes
from compliance.findings.check import judge, mismatch, not_applicable, shorten
from compliance.findings.entries import entry_fault, of_the_log
from compliance.loadgen import counts, schedule
from compliance.loadgen.early_stopping import discards, estimates
from compliance.loadgen.latency_keys import FIRST_TOKENS, PERCENTILES, QUERIES, SAMPLES, LatencyKeys
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS
from compliance.logs.trace import Trace
from compliance.subject import Subject, requested_value
from formats.checks import Check, Fault

Faults = Iterator[Fault | str]


def checks(subject: Subject) -> list[Check]:
    """The checks of the trace's samples, of the figures computed from it, and of its times."""
    ids, trace = ("trace-samples", "trace-figures", "trace-times"), subject.trace
    if trace is None:
        return [
            not_applicable(check_id, subject.no_trace, file=subject.trace_file) for check_id in ids
        ]
    detail, scenario = subject.performance.detail, subject.scenario
    log = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    parts = (_samples(trace, detail, scenario), _figures(subject, trace), _times(subject, trace))
    good = (
        f"{len(trace.sequence)} samples, each issued and completed once",
        "every percentile, the mean, the rate and the estimates are the trace's",
        _TIMES_TOLD[scenario],
    )
    return [
        judge(check_id, of_the_log(faults, log), good_text, file=subject.trace_file, fix=fixes.LOGS)
        for check_id, faults, good_text in zip(ids, parts, good, strict=True)
    ]


def _samples(trace: Trace, detail: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from trace.problems
    key = "generated_samples_per_query" if scenario == "Offline" else "result_query_count"
    count, per_query = len(trace.sequence), counts.samples_per_query(detail, scenario)
    if count != counts.samples(detail, scenario):
        value = shorten(detail.get(key))
        of_each = f" of {per_query} samples" if per_query > 1 else ""
        yield Fault(
            f"the trace shows {count} samples; {key} is {value}{of_each}", value, str(count)
        )
    if (missing := np.flatnonzero(trace.sequence != np.arange(count))).size:
        expected, at = int(missing[0]), int(trace.sequence[missing[0]])
        yield Fault(
            f"sample numbers do not run from 0 on, each once: where {expected} belongs stands {at}",
            str(expected),
            str(at),
        )
    if (trace.query != (0 if scenario == "Offline" else trace.sequence // per_query)).any():
        yield "queries and samples do not match: " + (
            "Offline has one query"
            if scenario == "Offline"
            else f"a query has {per_query} sample(s)"
        )
    loaded = detail.get("loaded_qsl_set")
    members = np.array(
        (
            [i for i in loaded if type(i) is int and abs(i) < 1 << 62]
            if isinstance(loaded, list)
            else []
        ),
        np.int64,
    )
    if not np.isin(trace.index, members).all():
        yield "samples were issued that were not loaded"


def _figures(subject: Subject, trace: Trace) -> Faults:
    detail, scenario = subject.performance.detail, subject.scenario
    if not len(trace.latency_ns):
        yield "the trace shows no sample"
        return
    samples = np.sort(trace.latency_ns)
    exact = _latency_faults(SAMPLES, samples)
    estimated = samples
    if scenario == "MultiStream":
        estimated = np.sort(_of_queries(trace, counts.samples_per_query(detail, scenario)))
        exact |= _latency_faults(QUERIES, estimated)
    if counts.has_token_latencies(detail) and scenario != "Offline":
        if len(trace.first_token_ns) != len(samples):
            count, expected = str(len(trace.first_token_ns)), str(len(samples))
            yield Fault(
                f"the trace shows {count} first tokens of {expected} samples", expected, count
            )
            return
        exact |= _latency_faults(FIRST_TOKENS, np.sort(trace.first_token_ns))
        estimated = estimated if scenario == "MultiStream" else np.sort(trace.first_token_ns)
    for percentile, key in estimates(scenario, subject.rules):
        left_out = discards(len(estimated), percentile / 100, subject.rules)
        exact[key] = 0 if left_out is None else int(estimated[len(estimated) - left_out - 1])
    if scenario == "Server" and (limit := detail.number("effective_target_latency_ns")) is not None:
        exact["result_overlatency_query_count"] = int((samples > limit).sum())
    for key, value in exact.items():
        if detail.get(key) != value:
            yield mismatch(key, detail.get(key), value, "the trace has", line=detail.line(key))
    yield from _RATES[scenario](trace, detail)


def _of_queries(trace: Trace, per_query: int) -> np.ndarray:
    """The latency of each query of MultiStream, int64 [queries]. It is the latency of the slowest
    sample, because all samples of a query are issued at once.
    """
    return np.maximum.reduceat(trace.latency_ns, np.arange(0, len(trace.latency_ns), per_query))


def _latency_faults(latency: LatencyKeys, ascending: np.ndarray) -> dict[str, int]:
    count = len(ascending)
    return {
        latency.minimum: int(ascending[0]),
        latency.maximum: int(ascending[-1]),
        latency.mean: _sum(ascending) // count,
        **{
            latency.percentile.format(name): int(ascending[int(count * share)])
            for name, share in PERCENTILES.items()
        },
    }


def _sum(values: np.ndarray) -> int:
    """The exact sum, even if an int64 would overflow."""
    return int((values >> 32).sum()) * (1 << 32) + int((values & 0xFFFFFFFF).sum())


def _between(detail: Detail, key: str, least: float, most: float) -> Faults:
    value = detail.number(key) or 0
    if not least * (1 - DIGITS) <= value <= most * (1 + DIGITS):
        yield mismatch(
            key, detail.get(key), f"{most:.6g}", "the trace makes", line=detail.line(key)
        )


def _offline(trace: Trace, detail: Detail) -> Faults:
    rate = len(trace.latency_ns) * 1e9 / (float(trace.latency_ns.max()) or 1)
    yield from _between(detail, "result_samples_per_second", rate, rate)


def _single_stream(trace: Trace, detail: Detail) -> Faults:
    """Yield the faults of SingleStream's rate. It counts from the start of the test, which is
    between the end of generation and the first issue.
    """
    count, first, last, ready = (
        len(trace.start_ns),
        int(trace.start_ns[0]),
        int(trace.start_ns[-1]),
        trace.ready_ns,
    )
    if ready is None or not ready <= first < last:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or shows one query only"
        )
        return
    yield from _between(
        detail,
        "result_qps_with_loadgen_overhead",
        (count - 1) * 1e9 / (last - ready),
        (count - 1) * 1e9 / (last - first),
    )


def _multi_stream(trace: Trace, detail: Detail) -> Faults:
    """Yield a fault if the trace contradicts MultiStream's result_min_duration_met. MultiStream
    logs no rate, but the trace shows whether its last query was issued late enough.
    """
    first, last, ready = int(trace.start_ns[0]), int(trace.start_ns[-1]), trace.ready_ns
    least_ms, met = (
        detail.number("effective_min_duration_ms"),
        detail.get("result_min_duration_met"),
    )
    if ready is None or ready > first or least_ms is None:
        yield (
            "the trace does not show that the queries were generated before the first was issued,"
            " or the duration is missing"
        )
        return
    if (last - first >= least_ms * 1e6 and met is not True) or (
        last - ready < least_ms * 1e6 and met is not False
    ):
        yield entry_fault(
            detail, "result_min_duration_met", last - first >= least_ms * 1e6, "the trace makes it"
        )


def _server(trace: Trace, detail: Detail) -> Faults:
    """Yield the faults of Server's rates. They count from the start of the test, when the first
    query is due.
    """
    more, start, last = len(trace.start_ns) - 1, int(trace.start_ns[0]), int(trace.start_ns[-1])
    done, issued = last + int(trace.latency_ns[-1]) - start, last + int(trace.delay_ns[-1]) - start
    for key, spent_ns in (
        ("result_scheduled_samples_per_sec", last - start),
        ("result_completed_samples_per_sec", done),
    ):
        if spent_ns > 0:
            yield from _between(detail, key, more * 1e9 / spent_ns, more * 1e9 / spent_ns)
    keys = ("result_completed_tokens_per_second", "result_token_throughput_with_loadgen_overhead")
    completed, overhead = (detail.number(key) for key in keys)
    if counts.has_token_latencies(detail) and completed is not None and issued > 0:
        tokens = completed * done / 1e9
        if overhead is None or abs(overhead - tokens * 1e9 / issued) > 2 * DIGITS * overhead:
            yield entry_fault(
                detail, keys[1], f"{tokens * 1e9 / issued:.6g}", f"the trace and {keys[0]} make"
            )


_RATES: Mapping[str, Callable[[Trace, Detail], Faults]] = {
    "Offline": _offline,
    "SingleStream": _single_stream,
    "MultiStream": _multi_stream,
    "Server": _server,
}


def _times(subject: Subject, trace: Trace) -> Iterator[Fault | str]:
    if not len(trace.start_ns):
        yield "the trace shows no sample"
        return
    yield from _TIMES[subject.scenario](subject, trace, trace.start_ns + trace.latency_ns)
    ends = trace.start_ns + trace.latency_ns
    wall_s, spent_s = (
        wall_seconds(subject.performance.detail),
        float(ends.max() - trace.start_ns.min()) / 1e9,
    )
    if (
        wall_s is None
        or abs(wall_s - spent_s) > subject.rules.dates.clock_tolerance_s + 1e-3 * spent_s
    ):
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
        first, by_ns = int(early[0]), int(done[early[0]] - starts[early[0] + 1])
        text = f"query {first + 1} was issued {by_ns} ns before query {first} was answered"
        yield Fault(text, "one query after the other", f"{by_ns} ns early")


def _scheduled(subject: Subject, trace: Trace, ends: np.ndarray) -> Faults:
    """Yield a fault if a query of Server was not due at the time that the seed gives, was issued
    out of order, or was answered before it was issued.
    """
    detail, rate = subject.performance.detail, requested_value(subject, "target_qps")
    due = schedule.due(detail, rate[0]) if rate else None
    starts = trace.start_ns - trace.start_ns[0]
    if rate is None or due is None:
        yield (
            "the rate or the schedule's settings are missing, or they make too many queries to tell"
            " when each is due"
        )
    elif len(starts) >= len(due):
        yield Fault(
            f"the trace shows {len(starts)} queries and {len(due) - 1} are due",
            str(len(due) - 1),
            str(len(starts)),
        )
    else:
        # Another implementation of the logarithm may round the last bit differently, which is a
        # nanosecond.
        allowed = 1 if rate[1] else 1 + np.diff(due[: len(starts)]) * DIGITS
        strays = np.flatnonzero(np.abs(np.diff(starts) - np.diff(due[: len(starts)])) > allowed)
        if strays.size:
            at = int(strays[0]) + 1
            text = (
                f"query {at} is due {starts[at] - starts[at - 1]} ns after the one before it; the"
                f" seed makes it {due[at] - due[at - 1]}"
            )
            yield Fault(text, str(due[at] - due[at - 1]), str(starts[at] - starts[at - 1]))
    if (hasty := np.flatnonzero(trace.delay_ns > trace.latency_ns)).size:
        yield f"query {int(hasty[0])} was answered before it was issued"
    issued = trace.start_ns + trace.delay_ns
    if (
        detail.get("requested_server_num_issue_query_threads") == 0
        and (back := np.flatnonzero(np.diff(issued) < 0)).size
    ):
        yield f"query {int(back[0]) + 1} was issued before query {int(back[0])}"


_TIMES: Mapping[str, Callable[[Subject, Trace, np.ndarray], Faults]] = {
    "Offline": _all_at_once,
    "SingleStream": _one_by_one,
    "MultiStream": _one_by_one,
    "Server": _scheduled,
}
_TIMES_TOLD: Mapping[str, str] = {
    "Offline": "all in one query",
    "SingleStream": "no query before the one before it was answered",
    "MultiStream": "no query before the one before it was answered, its samples all at once",
    "Server": "each query when the seed and the rate say, issued in order and answered after that",
}
