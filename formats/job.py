"""job.json: what one worker process does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from formats.workload import Workload

PERFORMANCE, ACCURACY = TESTS = ("performance", "accuracy")
"""The tests of every cell, in their order; compliance tests come after them."""
REFERENCE = "reference"
"""What makes a reference is told this name in the place of a test's."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """LoadGen's settings of one test, resolved by the parent from compliance/rules/<round>.toml and
    --mode.

    Attributes:
        min_duration_ms: LoadGen calls a shorter test INVALID.
        performance_sample_count: distinct samples LoadGen keeps loaded.
        equal_issue: `sample_concatenate_permutation`: every sample equally often. The rules ask it
            of language models, and we ask it of inputs that cost different amounts, so that every
            SUT measures the same prompts.
        rate_margin: Offline: how much faster than calibrated the SUT may turn out without the test
            becoming too short.
        trace_bytes: LoadGen's trace is written where it is predicted to stay below this.
        planned_ms: quick: how long the test is to last; 0: as long as LoadGen's own arithmetic
            makes it.
        longest_ms: quick: a test that needs more than this for its least count is refused; 0: no
            limit.
    """

    min_duration_ms: int
    min_query_count: int
    performance_sample_count: int
    equal_issue: bool = False
    calibration_seconds: float = 1.5
    rate_margin: float = 1.0
    trace_bytes: int = 32 << 20
    planned_ms: int = 0
    longest_ms: int = 0

    @property
    def quick(self) -> bool:
        """True for a quick test, which is planned to last `planned_ms`."""
        return self.planned_ms > 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one worker process: a LoadGen test, a training, or the making of a reference.

    Attributes:
        test: one of TESTS, a compliance test (`TEST01`, …), or REFERENCE.
        procedure: a name in `procedures.PROCEDURES`: `loadgen`, `reference` (answers without
            LoadGen) or `fit` (training).
        benchmark: the name LoadGen's configuration look-up uses.
        answer: keys of `to_host` that are the answer, in payload order.
        inputs: .npz that the parent made, with the same bytes for every SUT.
        synthetic: .npz of the same shapes and other values. Its first `warmup_rows` rows show each
            shape once.
        fresh: .npz of inputs that the SUT has never met, as long as the data set's; None: an older
            job. For a training it holds the batches that are held out.
        audit: the settings that the worker writes to audit.config for a compliance test; empty: no
            file.
        calibration: the performance test's, for the tests after it. They get the same user.conf,
            and no calibration of their own.
        made_with: digests of environment and source; the worker ignores them, a resumed run
            compares them.
        reference: reference.npz. Teacher-forced logits are taken on its first `logits_rows`
            answers.
    """

    sut: str
    family: str
    workload: Workload
    scenario: str
    test: str
    benchmark: str
    answer: tuple[str, ...]
    inputs: Path
    synthetic: Path
    warmup_rows: int
    limits: Limits
    log_dir: Path
    reference: Path | None = None
    logits_rows: int = 0
    calibration: Mapping[str, int | float] | None = None
    made_with: Mapping[str, str] = field(default_factory=dict)
    audit: Mapping[str, int] = field(default_factory=dict)
    procedure: str = "loadgen"
    fresh: Path | None = None

    @property
    def audit_config(self) -> Path:
        """Always named to LoadGen, which takes ./audit.config silently. Only a compliance test's is
        there.
        """
        return self.log_dir / ("audit.config" if self.audit else "no-audit.config")


def read_job(path: Path) -> Job:
    """A Job from its file. Raises OSError, ValueError, KeyError or TypeError where it holds
    none.
    """
    d = json.loads(path.read_text(encoding="utf-8"))
    workload = d.pop("workload")
    workload["checkpoint"] = Path(workload["checkpoint"])
    d.pop("audit_config", None)  # of an older job
    for key in ("inputs", "synthetic", "log_dir", "reference", "fresh"):
        d[key] = d.get(key) and Path(d[key])
    d["answer"] = tuple(d["answer"])
    return Job(workload=Workload(**workload), limits=Limits(**d.pop("limits")), **d)
