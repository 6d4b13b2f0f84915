"""The check whether samples are answered faster when they come again.

TEST04 compares a test of one sample with the performance run. A long performance run repeats every
sample many times itself, so a SUT that keeps answers is fast in both. But the trace contains the
first time.

A person has to judge odd cases, because honest SUTs took up to 24 times as long for the first
tenths of a second (a processor and its caches warm up).
"""

from __future__ import annotations

import numpy as np

from compliance.findings.check import Check, judge, manual, not_applicable
from compliance.loadgen import counts
from compliance.logs.trace import Trace
from compliance.subject import Subject

_ID = "repeated-samples"


def check(subject: Subject) -> Check:
    """The check of repeated samples. A person has to judge if they take much longer the first
    time.
    """
    rule, where = subject.rules.repeats, {"file": subject.trace_file}
    if subject.trace is None:
        return not_applicable(
            _ID,
            "there is no trace that tells the first time a sample came from the later ones",
            **where,
        )
    if subject.scenario == "Server":
        return not_applicable(
            _ID, "how long a query of Server takes depends on those that wait before it", **where
        )
    times = (
        _passes(subject.trace)
        if subject.scenario == "Offline"
        else _queries(
            subject.trace, counts.samples_per_query(subject.performance.detail, subject.scenario)
        )
    )
    if times is None:
        return not_applicable(_ID, "no sample came twice", **where)
    spent_s, first, later = times
    times_text = (
        f"{first / 1e6:.4g} ms the first time a sample comes, {later / 1e6:.4g} ms later on"
    )
    if spent_s < rule.least_seconds:
        why = (
            f"new samples were answered for {spent_s:.3g} s, and a machine's warming up is told"
            f" apart in {rule.least_seconds:g} s"
        )
        return not_applicable(_ID, f"{why} ({times_text})", **where)
    if first > rule.odd * later:
        why = (
            "an SUT that computes every answer takes as long again, one that keeps answers does"
            " not; see its source, and repeat the run"
        )
        return manual(_ID, f"{times_text}: {why}", **where)
    return judge(_ID, [], times_text, **where)


def _queries(trace: Trace, per_query: int) -> tuple[float, float, float] | None:
    """(seconds spent on new samples, median latency of queries with a new sample, median of the
    others), latencies in nanoseconds.

    Args:
        per_query: samples of a query.
    """
    fresh = np.zeros(len(trace.index), bool)
    fresh[np.unique(trace.index, return_index=True)[1]] = True
    first = np.arange(0, len(fresh), per_query)
    new, spent = np.logical_or.reduceat(fresh, first), np.maximum.reduceat(trace.latency_ns, first)
    if new.all():
        return None
    return (
        float(spent[new].sum()) / 1e9,
        float(np.median(spent[new])),
        float(np.median(spent[~new])),
    )


def _passes(trace: Trace) -> tuple[float, float, float] | None:
    """(seconds of the first pass, its nanoseconds a sample, those of the median later pass).
    Offline issues the set again and again.
    """
    size = len(np.unique(trace.index))
    passes = len(trace.index) // size if size else 0
    if passes < 2:
        return None
    ends = (trace.start_ns + trace.latency_ns)[: passes * size].reshape(passes, size).max(1)
    spent = np.diff(np.concatenate([trace.start_ns[:1], ends])) / size
    return float(spent[0]) * size / 1e9, float(spent[0]), float(max(np.median(spent[1:]), 1.0))
