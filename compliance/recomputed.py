"""Every figure and every order once more, from what lies below it: percentiles and rates from the trace, samples from the seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from compliance import order
from compliance.check import Check, Fault, differs, judge, not_applicable, shown
from compliance.early_stopping import discards
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.trace import Trace
from compliance.tree import Subject, Test
from compliance.validity import wall_seconds

# Floats are logged with six significant digits.
_DIGITS = 1.1e-5
_PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_FIX = "measure again: the logs are not of one unchanged run"


def checks(s: Subject) -> list[Check]:
    found = [
        judge(
            f"{test.name} loaded set",
            _loaded(test, s.rules),
            "the one that follows from the seed",
            source="C7",
            file=s.place.show(test.folder / "mlperf_log_detail.txt"),
            fix=_FIX,
        )
        for test in s.tests
    ]
    names = ("trace samples", "trace figures", "trace times", "performance order")
    trace = s.trace
    if trace is None:
        why = s.faults.get(s.trace_file) or "there is no trace: the figures of the detail log stand for themselves"
        return found + [not_applicable(name, why, source="C6", file=s.trace_file) for name in names]
    d, scenario = s.performance.detail, s.place.scenario
    log = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    parts = (
        _samples(trace, d, scenario),
        _figures(trace, d, scenario, s.rules),
        _times(trace, d, scenario, s.rules),
        _order(trace, d, scenario),
    )
    good = (
        f"{len(trace.sequence)} samples, each issued and completed once",
        "every percentile, the mean, the rate and the estimates are the trace's",
        "no query before the one before it was answered" if scenario == "SingleStream" else "all in one query",
        "the one that follows from the seeds",
    )
    sources = ("C8", "C6", "C6", "C7")
    return found + [
        judge(name, _of_the_log(faults, log), said, source=source, file=s.trace_file, fix=_FIX)
        for name, faults, said, source in zip(names, parts, good, sources, strict=True)
    ]


def _of_the_log(faults: Iterator[Fault | str], log: str) -> Iterator[Fault | str]:
    """The trace has no lines to tell: a fault with a line is of the detail log."""
    return (replace(fault, file=log) if isinstance(fault, Fault) and fault.line else fault for fault in faults)


def _count(d: Detail, key: str, at_most: int = 1 << 32) -> int | None:
    """A count LoadGen logged, if it is one."""
    value = d.get(key)
    return value if type(value) is int and 0 < value <= at_most else None


def _seed(d: Detail, key: str) -> int | None:
    value = d.get(f"effective_{key}")
    return value if type(value) is int and value >= 0 else None


def _samples(trace: Trace, d: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from trace.problems
    key = "generated_samples_per_query" if scenario == "Offline" else "result_query_count"
    count = len(trace.sequence)
    if count != d.get(key):
        found = shown(d.get(key))
        yield Fault(f"the trace shows {count} samples; {key} is {found}", found, str(count))
    if (missing := np.flatnonzero(trace.sequence != np.arange(count))).size:
        want, at = int(missing[0]), int(trace.sequence[missing[0]])
        yield Fault(f"sample numbers do not run from 0 on, each once: where {want} belongs stands {at}", str(want), str(at))
    if (trace.query != (0 if scenario == "Offline" else trace.sequence)).any():
        yield "queries and samples do not match: " + ("Offline has one query" if scenario == "Offline" else "a query has one sample")
    loaded = d.get("loaded_qsl_set")
    known = np.array([i for i in loaded if type(i) is int and abs(i) < 1 << 62] if isinstance(loaded, list) else [], np.int64)
    if not np.isin(trace.index, known).all():
        yield "samples were issued that were not loaded"


def _figures(trace: Trace, d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    latencies = np.sort(trace.latency_ns)
    count = len(latencies)
    if not count:
        yield "the trace shows no sample"
        return
    exact = {
        "result_min_latency_ns": latencies[0],
        "result_max_latency_ns": latencies[-1],
        "result_mean_latency_ns": _sum(latencies) // count,
        **{f"result_{p}_percentile_latency_ns": latencies[int(count * (float(p) / 100))] for p in _PERCENTILES},
    }
    if scenario != "Offline":
        percentile = rules.scenarios[scenario].percentile / 100
        for share, key in ((percentile, "early_stopping_latency_ss"), (0.99, "early_stopping_latency_ms")):
            left_out = discards(count, share, rules)
            exact[key] = 0 if left_out is None else latencies[count - left_out - 1]
    for key, value in exact.items():
        if d.get(key) != int(value):
            yield differs(key, d.get(key), int(value), "the trace has", line=d.line(key))
    yield from _rate(trace, d, float(latencies[-1]), scenario)


def _rate(trace: Trace, d: Detail, longest_ns: float, scenario: str) -> Iterator[Fault | str]:
    """SingleStream's counts from the start of the test, which lies between the last query's generation and the first one's issue."""
    count = len(trace.start_ns)
    if scenario == "Offline":
        key, least = "result_samples_per_second", count * 1e9 / (longest_ns or 1)
        most = least
    else:
        key, first, last = "result_qps_with_loadgen_overhead", int(trace.start_ns[0]), int(trace.start_ns[-1])
        ready = trace.ready_ns
        if ready is None or not ready <= first < last:
            yield "the trace does not show that the queries were generated before the first was issued, or shows one query only"
            return
        least, most = (count - 1) * 1e9 / (last - ready), (count - 1) * 1e9 / (last - first)
    found = d.number(key) or 0
    if not least * (1 - _DIGITS) <= found <= most * (1 + _DIGITS):
        yield differs(key, d.get(key), f"{most:.6g}", "the trace makes", line=d.line(key))


def _sum(values: np.ndarray) -> int:
    """Exact, where an int64 would overflow."""
    return int((values >> 32).sum()) * (1 << 32) + int((values & 0xFFFFFFFF).sum())


def _times(trace: Trace, d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    if not len(trace.start_ns):
        yield "the trace shows no sample"
        return
    ends = trace.start_ns + trace.latency_ns
    if scenario == "Offline":
        if (trace.start_ns != trace.start_ns[0]).any():
            yield "not all samples were issued at one time"
    elif (early := np.flatnonzero(trace.start_ns[1:] < ends[:-1])).size:
        first, by_ns = int(early[0]), int(ends[early[0]] - trace.start_ns[early[0] + 1])
        text = f"query {first + 1} was issued {by_ns} ns before query {first} was answered"
        yield Fault(text, "one query after the other", f"{by_ns} ns early")
    wall_s, spent_s = wall_seconds(d), float(ends.max() - trace.start_ns.min()) / 1e9
    if wall_s is None or abs(wall_s - spent_s) > rules.dates.clock_tolerance_s + 1e-3 * spent_s:
        text = f"from the first issue to the last completion {spent_s:.3f} s passed; power_begin and power_end say {wall_s}"
        yield Fault(text, f"{wall_s} s", f"{spent_s:.3f} s")


def _sets(d: Detail) -> list[list[int]] | None:
    found = d.all("loaded_qsl_set")
    good = found and all(isinstance(each, list) and each and all(type(i) is int and 0 <= i < 1 << 40 for i in each) for each in found)
    return found if good else None


def _loaded(test: Test, rules: Rules) -> Iterator[Fault | str]:
    d, sets = test.detail, _sets(test.detail)
    total, size = _count(d, "qsl_reported_total_count"), _count(d, "effective_performance_sample_count")
    asked = size if test.name == "performance" else _count(d, "effective_accuracy_sample_count")
    seed = _seed(d, "qsl_rng_seed")
    if sets is None or total is None or size is None or asked is None or seed is None:
        yield "the sets, a count or the seed is missing from the log"
        return
    if sum(map(len, sets)) != min(asked, total):
        found, wanted_count = sum(map(len, sets)), min(asked, total)
        text = f"{found} samples were loaded; {wanted_count} were asked for"
        yield Fault(text, str(wanted_count), str(found), line=d.line("loaded_qsl_set"))
        return
    for draws in order.Draws:
        wanted = order.loaded_sets(total if rules.draws_from_library else min(asked, total), size, seed, draws)[: len(sets)]
        if sets == wanted:
            return
    text = f"the loaded sets are not those of the seed {seed}: they begin with {sets[0][:5]}, the seed's with {wanted[0][:5]}"
    yield Fault(text, str(wanted[0][:5]), str(sets[0][:5]), line=d.occurrences["loaded_qsl_set"][0].number)


def _order(trace: Trace, d: Detail, scenario: str) -> Iterator[Fault | str]:
    sets, least, seed = _sets(d), _count(d, "effective_min_query_count"), _seed(d, "sample_index_rng_seed")
    if sets is None or least is None or seed is None or trace.problems:
        yield "the loaded set, effective_min_query_count or the seed is missing from the log" if not trace.problems else trace.problems[0]
        return
    equal = d.get("effective_sample_concatenate_permutation") is True
    if d.get("effective_performance_issue_same") or d.get("effective_performance_issue_unique"):
        yield "the samples were chosen by audit settings"
        return
    first, sample = -1, -1
    for draws in order.Draws:
        wanted = order.performance(scenario, sets[0], len(trace.index), min(least, 2 * len(trace.index)), equal, seed, draws)
        others = np.flatnonzero(wanted != trace.index)
        if not others.size:
            return
        if int(others[0]) > first:
            first, sample = int(others[0]), int(wanted[others[0]])
    text = f"from sample {first} on the samples are not those of the seed {seed}"
    yield Fault(text, f"sample {first} is of index {sample}", f"of index {int(trace.index[first])}")


def accuracy_order(s: Subject, seq_ids: np.ndarray, indices: np.ndarray) -> Iterator[Fault | str]:
    """Of rows of the accuracy log, whole or truncated: sample number → index, int64 [n] each."""
    d = s.accuracy.detail
    sets, seed = _sets(d), _seed(d, "sample_index_rng_seed")
    if sets is None or seed is None:
        yield "the loaded sets or the seed are missing from the detail log"
        return
    count = sum(map(len, sets))
    if not len(seq_ids) or seq_ids.min() < 0 or seq_ids.max() >= count:
        yield f"its sample numbers are not those of {count} samples"
        return
    equal = d.get("effective_sample_concatenate_permutation") is True
    for draws in order.Draws:
        wanted = order.accuracy(s.place.scenario, sets, equal, seed, draws)[seq_ids]
        others = np.flatnonzero(wanted != indices)
        if not others.size:
            return
    at = others[0]
    text = f"sample number {seq_ids[at]} is of index {indices[at]}; the seed {seed} makes it {wanted[at]}"
    yield Fault(text, str(wanted[at]), str(indices[at]))
