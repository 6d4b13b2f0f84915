"""outcome.json: the report that a worker process writes at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOO_SHORT = "too short"
"""The test takes far longer than requested. Its number is the seconds of --duration it needs."""
PUT_OFF = "put off"
"""A rival is far faster. The number is the samples a second of the calibration."""
CUT_OFF = "cut off"
"""The time of a sweep was over. The number is the seconds that the measurement took until then."""

NOT_PREPARED = "not prepared"
"""The same before the measurement began."""
CUT_SHORT = "cut short"
"""An engine ended an answer that should have had all its tokens. The number is that of its tokens.
"""


@dataclass(frozen=True)
class WorkerOutcome:
    """The report of a worker. It is written last and atomically: if it is absent, the process died,
    and the parent says how. Times are in nanoseconds.

    `answered`: samples and payload bytes handed to LoadGen. `test_start_ns` is on the system's
    monotonic clock, so that the parent can compute how long it took until measuring began.
    `energy`: a `counters.Energy` of the LoadGen test only. `disturbance`: a
    `disturbance.Disturbance` of the same test, and `fresh_slower` if `fresh_inputs.doubtful`.
    `answers`: see `answers.describe`. `kept_sha256`: the sha256 of answers.npz (`Watch.write`).
    `fresh`: the result of `fresh_inputs.compare`. `loaded_for`: the test for which this worker had
    loaded and warmed up the SUT; empty: it did so for this test. `import_ns`, `load_ns`, `warmup`,
    `cache_hits` and `cache_misses` are always of that loading. `cache_hits`: how many of the
    compiled programs the framework found in its cache on disk; `cache_misses`: how many it looked
    for there and compiled. `token_latencies`: of streamed
    answers, in nanoseconds (`Watch.token_latencies`). `in_one_part`: the share of streamed answers
    whose tokens were handed over at one moment. `search`: each rate that was tried
    (`rate_search.Trial`). `queue`: the waiting requests and the batches over time
    (`batching.summary`), `good_fraction`, the share of the requests within all limits, and `left`
    and `kept_up` (`latency_limits.Limited`). `replicas`: of a SUT that ran as several
    replicas, see `scenarios.worker.replicas.dispatcher.Replicated.report`. `seconds`: of a
    reference, step → its seconds (`scenarios.worker.reference`). `refused`: TOO_SHORT or
    PUT_OFF → its number, if the test was skipped for that; CUT_SHORT → its number after an error.
    """

    status: str
    reason: str = ""
    import_ns: int = 0
    load_ns: int = 0
    warmup: list[dict[str, Any]] = field(default_factory=list)
    calibration: dict[str, int | float] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    test_start_ns: int = 0
    test_ns: int = 0
    answered: Mapping[str, int] = field(default_factory=dict)
    evidence_before: dict[str, Any] | None = None
    evidence_after: dict[str, Any] | None = None
    peak_host_bytes: int = 0
    energy: Mapping[str, Any] = field(default_factory=dict)
    disturbance: Mapping[str, Any] = field(default_factory=dict)
    kept_sha256: str = ""
    fresh: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    loaded_for: str = ""
    cache_hits: int = 0
    cache_misses: int = 0
    token_latencies: Mapping[str, float] = field(default_factory=dict)
    in_one_part: float = 0.0
    search: list[dict[str, Any]] = field(default_factory=list)
    queue: Mapping[str, Any] = field(default_factory=dict)
    replicas: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each replica, if a cluster ran them; else empty."""
        found = [each.get("node") for each in self.replicas.get("each", ())]
        return tuple(node for node in found if node)
