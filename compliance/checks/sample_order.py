"""Every figure and every order once more, from what lies below it: percentiles and rates from the trace, samples from the seeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compliance.checks import trace as trace_figures
from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, not_applicable, shown
from compliance.findings.entries import of_the_log
from compliance.loadgen import counts
from compliance.loadgen import sample_order as order
from compliance.loadgen.counts import logged_count, logged_seed, logged_sets
from compliance.loadgen.random import Draws
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.trace import Trace
from compliance.rules import Rules
from compliance.subject import Subject, Test

# No library comes near; to shuffle one takes a list of it.
_LARGEST_LIBRARY = 10_000_000


def checks(s: Subject) -> list[Check]:
    found = [
        judge(
            f"{test.name} loaded set",
            _loaded(test, s.rules),
            "the one that follows from the seed",
            source="C7",
            file=s.place.show(test.folder / "mlperf_log_detail.txt"),
            fix=fixes.LOGS,
        )
        for test in s.tests
    ]
    names = ("trace samples", "trace figures", "trace times", "performance order")
    trace = s.trace
    if trace is None:
        why = s.faults.get(s.trace_file) or "there is no trace: the figures of the detail log stand for themselves"
        return found + [not_applicable(name, why, source="C6", file=s.trace_file) for name in names]
    d, scenario = s.performance.detail, s.scenario
    log = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    parts = (
        _samples(trace, d, scenario),
        trace_figures.figures(s, trace),
        _times(s, trace),
        _order(trace, d, scenario),
    )
    good = (
        f"{len(trace.sequence)} samples, each issued and completed once",
        "every percentile, the mean, the rate and the estimates are the trace's",
        trace_figures.TIMES_TOLD[scenario],
        "the one that follows from the seeds",
    )
    sources = ("C8", "C6", "C6", "C7")
    return found + [
        judge(name, of_the_log(faults, log), said, source=source, file=s.trace_file, fix=fixes.LOGS)
        for name, faults, said, source in zip(names, parts, good, sources, strict=True)
    ]


def _samples(trace: Trace, d: Detail, scenario: str) -> Iterator[Fault | str]:
    yield from trace.problems
    key = "generated_samples_per_query" if scenario == "Offline" else "result_query_count"
    count, each = len(trace.sequence), counts.each(d, scenario)
    if count != counts.samples(d, scenario):
        found = shown(d.get(key))
        of_each = f" of {each} samples" if each > 1 else ""
        yield Fault(f"the trace shows {count} samples; {key} is {found}{of_each}", found, str(count))
    if (missing := np.flatnonzero(trace.sequence != np.arange(count))).size:
        want, at = int(missing[0]), int(trace.sequence[missing[0]])
        yield Fault(f"sample numbers do not run from 0 on, each once: where {want} belongs stands {at}", str(want), str(at))
    if (trace.query != (0 if scenario == "Offline" else trace.sequence // each)).any():
        yield "queries and samples do not match: " + ("Offline has one query" if scenario == "Offline" else f"a query has {each} sample(s)")
    loaded = d.get("loaded_qsl_set")
    known = np.array([i for i in loaded if type(i) is int and abs(i) < 1 << 62] if isinstance(loaded, list) else [], np.int64)
    if not np.isin(trace.index, known).all():
        yield "samples were issued that were not loaded"


def _times(s: Subject, trace: Trace) -> Iterator[Fault | str]:
    if not len(trace.start_ns):
        yield "the trace shows no sample"
        return
    yield from trace_figures.times(s, trace)
    ends = trace.start_ns + trace.latency_ns
    wall_s, spent_s = wall_seconds(s.performance.detail), float(ends.max() - trace.start_ns.min()) / 1e9
    if wall_s is None or abs(wall_s - spent_s) > s.rules.dates.clock_tolerance_s + 1e-3 * spent_s:
        text = f"from the first issue to the last completion {spent_s:.3f} s passed; power_begin and power_end say {wall_s}"
        yield Fault(text, f"{wall_s} s", f"{spent_s:.3f} s")


def _loaded(test: Test, rules: Rules) -> Iterator[Fault | str]:
    d, scenario = test.detail, str(test.detail.get("effective_scenario"))
    sets, each = logged_sets(d, scenario), counts.each(d, scenario)
    total = logged_count(d, "qsl_reported_total_count", _LARGEST_LIBRARY)
    size = logged_count(d, "effective_performance_sample_count")
    asked = size if test.name == "performance" else logged_count(d, "effective_accuracy_sample_count")
    seed = logged_seed(d, "qsl_rng_seed")
    if sets is None or total is None or size is None or asked is None or seed is None:
        yield "the sets, a count or the seed is missing from the log"
        return
    found, wanted_count = sum(len(counts.own(one, d, scenario)) for one in sets), min(asked, total)
    if found != wanted_count:
        text = f"{found} samples were loaded; {wanted_count} were asked for"
        yield Fault(text, str(wanted_count), str(found), line=d.line("loaded_qsl_set"))
        return
    for draws in Draws:
        wanted = order.loaded_sets(total if rules.draws_from_library else min(asked, total), size, seed, draws, each)[: len(sets)]
        if sets == wanted:
            return
    text = f"the loaded sets are not those of the seed {seed}: they begin with {sets[0][:5]}, the seed's with {wanted[0][:5]}"
    yield Fault(text, str(wanted[0][:5]), str(sets[0][:5]), line=d.occurrences["loaded_qsl_set"][0].number)


def _order(trace: Trace, d: Detail, scenario: str) -> Iterator[Fault | str]:
    sets, seed = logged_sets(d, scenario), logged_seed(d, "sample_index_rng_seed")
    least = logged_count(d, "effective_min_query_count")
    if sets is None or least is None or seed is None or trace.problems:
        yield "the loaded set, effective_min_query_count or the seed is missing from the log" if not trace.problems else trace.problems[0]
        return
    equal, each = d.get("effective_sample_concatenate_permutation") is True, counts.each(d, scenario)
    if d.get("effective_performance_issue_same") or d.get("effective_performance_issue_unique"):
        yield "the samples were chosen by audit settings"
        return
    first, sample = -1, -1
    for draws in Draws:
        wanted = order.performance(scenario, sets[0], len(trace.index), order.bounded(least, len(trace.index)), equal, seed, draws, each)
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
    sets, seed = logged_sets(d, s.scenario), logged_seed(d, "sample_index_rng_seed")
    if sets is None or seed is None:
        yield "the loaded sets or the seed are missing from the detail log"
        return
    each = counts.each(d, s.scenario)
    count = sum(-(-len(counts.own(one, d, s.scenario)) // each) * each for one in sets)
    if not len(seq_ids) or seq_ids.min() < 0 or seq_ids.max() >= count:
        yield f"its sample numbers are not those of {count} samples"
        return
    equal = d.get("effective_sample_concatenate_permutation") is True
    for draws in Draws:
        wanted = order.accuracy(s.scenario, sets, equal, seed, draws, each)[seq_ids]
        others = np.flatnonzero(wanted != indices)
        if not others.size:
            return
    at = others[0]
    text = f"sample number {seq_ids[at]} is of index {indices[at]}; the seed {seed} makes it {wanted[at]}"
    yield Fault(text, str(wanted[at]), str(indices[at]))
