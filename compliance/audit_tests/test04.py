"""TEST04, result caching: LoadGen issues one sample again and again. A SUT that keeps answers is
much faster than in the performance run.

`repeated_samples` looks at the performance run itself: do samples take less time when they are
repeated?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from compliance.audit_tests import speed
from compliance.findings.check import judge, manual, not_applicable
from compliance.logs.trace import Trace
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check
from formats.job import Job

_REASON = (
    ": a repeated sample was answered sooner than different ones, because the SUT keeps answers or"
    " because the machine was busy during the performance run"
)
_FEWEST_SAMPLES = 4  # audit.config repeats sample number 3, counted from 0


def inapplicable(job: Job, samples: int) -> str:
    """Why TEST04 does not apply to a job; empty if it applies.

    Args:
        samples: the size of the loaded set.
    """
    config = job.workload.config
    if config.get("end_tokens"):
        return _uneven("answers end at their end tokens")
    lengths = [
        key.replace("_", " ")
        for key in ("prompt_buckets", "new_token_buckets")
        if _several(config, key)
    ]
    if lengths:
        return _uneven(f"{' and '.join(lengths)} of several lengths")
    if len(job.length_buckets) > 1:
        return _uneven("batches are cut to several lengths")
    if samples < _FEWEST_SAMPLES:
        return f"it repeats sample number 3, and the library has {samples}"
    return ""


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
    """The check of TEST04's speed: it may be slower than the performance run, but not faster."""
    return [speed.check(test, rule, subject, _REASON)]


def _several(config: Mapping[str, Any], key: str) -> bool:
    sizes = config.get(key)
    return isinstance(sizes, list) and len(sizes) > 1


def _uneven(reason: str) -> str:
    return (
        f"the samples do not cost the same ({reason}), so the speed of one sample cannot be"
        " compared with that of all"
    )


def repeated_samples(subject: Subject) -> Check:
    """The check whether samples are answered faster when they come again.

    TEST04 compares a test of one sample with the performance run. A long performance run repeats
    every sample many times itself, so a SUT that keeps answers is fast in both. But the trace
    contains the first time.

    A person has to judge odd cases, because honest SUTs took up to 24 times as long for the first
    tenths of a second (a processor and its caches warm up).
    """
    rule, file = subject.rules.repeats, subject.trace_file
    if subject.trace is None:
        why = "there is no trace that shows when each sample was issued for the first time"
        return not_applicable("repeated-samples", why, file=file)
    if subject.scenario == "Server":
        why = "the latency of a Server query depends on the queries that wait before it"
        return not_applicable("repeated-samples", why, file=file)
    if subject.scenario == "Offline":
        times = _passes(subject.trace)
    else:
        times = _queries(subject.trace, subject.log.per_query)
    if times is None:
        return not_applicable("repeated-samples", "no sample was issued twice", file=file)
    spent_s, first, later = times
    text = f"{first / 1e6:.4g} ms for a new sample, {later / 1e6:.4g} ms for a repeated one"
    if spent_s < rule.least_seconds:
        why = (
            f"new samples took {spent_s:.3g} s together, and {rule.least_seconds:g} s are needed to"
            " exclude a machine that warms up"
        )
        return not_applicable("repeated-samples", f"{why} ({text})", file=file)
    if first > rule.odd * later:
        why = (
            "an SUT that computes every answer takes as long for a repeated sample, and one that"
            " keeps answers does not; read its source, and repeat the run"
        )
        return manual("repeated-samples", f"{text}: {why}", file=file)
    return judge("repeated-samples", [], text, file=file)


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
    ordered = np.sort(trace.index)
    size = int((ordered[1:] != ordered[:-1]).sum()) + min(len(ordered), 1)
    passes = len(trace.index) // size if size else 0
    if passes < 2:
        return None
    completed = trace.start_ns + trace.latency_ns
    ends = completed[: passes * size].reshape(passes, size).max(1)
    spent = np.diff(np.concatenate([trace.start_ns[:1], ends])) / size
    first, later = float(spent[0]), float(np.median(spent[1:]))
    return first * size / 1e9, first, max(later, 1.0)
