"""The check whether samples are answered faster when they come again.

TEST04 compares a test of one sample with the performance run. A long performance run repeats every
sample many times itself, so a SUT that keeps answers is fast in both. But the trace contains the
first time.

A person has to judge odd cases, because honest SUTs took up to 24 times as long for the first
tenths of a second (a processor and its caches warm up).
"""

from __future__ import annotations

import numpy as np

from compliance.findings.check import judge, manual, not_applicable
from compliance.loadgen import counts
from compliance.logs.trace import Trace
from compliance.subject import Subject
from formats.checks import Check

_ID = "repeated-samples"


def check(subject: Subject) -> Check:
    """The check of repeated samples. A person has to judge if they take much longer the first
    time.
    """
    rule, file = subject.rules.repeats, subject.trace_file
    if subject.trace is None:
        why = "there is no trace that shows when each sample was issued for the first time"
        return not_applicable(_ID, why, file=file)
    if subject.scenario == "Server":
        why = "the latency of a Server query depends on the queries that wait before it"
        return not_applicable(_ID, why, file=file)
    if subject.scenario == "Offline":
        times = _passes(subject.trace)
    else:
        per_query = counts.samples_per_query(subject.performance.detail, subject.scenario)
        times = _queries(subject.trace, per_query)
    if times is None:
        return not_applicable(_ID, "no sample was issued twice", file=file)
    spent_s, first, later = times
    text = f"{first / 1e6:.4g} ms for a new sample, {later / 1e6:.4g} ms for a repeated one"
    if spent_s < rule.least_seconds:
        why = (
            f"new samples took {spent_s:.3g} s together, and {rule.least_seconds:g} s are needed to"
            " exclude a machine that warms up"
        )
        return not_applicable(_ID, f"{why} ({text})", file=file)
    if first > rule.odd * later:
        why = (
            "an SUT that computes every answer takes as long for a repeated sample, and one that"
            " keeps answers does not; read its source, and repeat the run"
        )
        return manual(_ID, f"{text}: {why}", file=file)
    return judge(_ID, [], text, file=file)


def _queries(trace: Trace, per_query: int) -> tuple[float, float, float] | None:
    """(seconds spent on new samples, median latency of queries with a new sample, median of the
    others), latencies in nanoseconds.

    Args:
        per_query: samples of a query.
    """
    fresh = np.zeros(len(trace.index), bool)
    fresh[np.unique(trace.index, return_index=True)[1]] = True
    first = np.arange(0, len(fresh), per_query)
    new = np.logical_or.reduceat(fresh, first)
    spent = np.maximum.reduceat(trace.latency_ns, first)
    if new.all():
        return None
    spent_s = float(spent[new].sum()) / 1e9
    return spent_s, float(np.median(spent[new])), float(np.median(spent[~new]))


def _passes(trace: Trace) -> tuple[float, float, float] | None:
    """(seconds of the first pass, its nanoseconds a sample, those of the median later pass).
    Offline issues the set again and again.
    """
    size = len(np.unique(trace.index))
    passes = len(trace.index) // size if size else 0
    if passes < 2:
        return None
    completed = trace.start_ns + trace.latency_ns
    ends = completed[: passes * size].reshape(passes, size).max(1)
    spent = np.diff(np.concatenate([trace.start_ns[:1], ends])) / size
    first, later = float(spent[0]), float(np.median(spent[1:]))
    return first * size / 1e9, first, max(later, 1.0)
