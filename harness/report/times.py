"""Reads the single times of a run from its raw files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compliance.logs import files, trace
from compliance.training import steps
from harness.comparison.tables import Group
from scenarios.table import SCENARIOS


def times_ms(group: Group) -> np.ndarray | None:
    """Return the times of the last run of a cell, milliseconds [n].

    For a scenario with single queries they are latencies. In Offline they are the times between the
    answers of two batches. For a training they are the times of its steps. None if LoadGen's trace
    was too large to keep, or if single steps were not observed.
    """
    folder = Path(group.last.result.directory) / "raw" / "performance"
    scenario = SCENARIOS[group.cell.scenario]
    if not scenario.loadgen:
        kept, _ = files.attempt(steps.read, folder / "steps.json")
        return kept.times_ns / 1e6 if kept and kept.seen else None
    for name in ("mlperf_log_trace.json.gz", "mlperf_log_trace.json"):
        read, _ = files.attempt(trace.read, folder / name)
        if read is not None and len(read.latency_ns):
            latency_ms = np.asarray(read.latency_ns / 1e6)
            if not scenario.one_query:
                return latency_ms
            batch = group.cell.batch_size
            finished = np.sort(latency_ms)[batch - 1 :: batch]
            return np.diff(finished, prepend=0)
    return None
