"""TEST04, result caching: LoadGen issues one sample again and again. A SUT that keeps answers is
much faster than in the performance run.
"""

from __future__ import annotations

from compliance.audit_tests import speed
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Checks
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
    lengths = []
    for key in ("prompt_buckets", "new_token_buckets"):
        sizes = config.get(key)
        if isinstance(sizes, list) and len(sizes) > 1:
            lengths.append(key.replace("_", " "))
    reason = ""
    if config.get("end_tokens"):
        reason = "answers end at their end tokens"
    elif lengths:
        reason = f"{' and '.join(lengths)} of several lengths"
    elif len(job.length_buckets) > 1:
        reason = "batches are cut to several lengths"
    if reason:
        return (
            f"the samples do not cost the same ({reason}), so the speed of one sample cannot be"
            " compared with that of all"
        )
    if samples < _FEWEST_SAMPLES:
        return f"it repeats sample number 3, and the library has {samples}"
    return ""


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Checks:
    """The check of TEST04's speed: it may be slower than the performance run, but not faster."""
    return [speed.check(test, rule, subject, _REASON)]
