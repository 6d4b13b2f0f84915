"""Jobs as the harness writes them, with the least that a worker needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formats.cell import Cell
from formats.job import Job, Limits


def job(cell: Cell, log_dir: Path, **values: Any) -> Job:
    """A job of the performance test with these values."""
    least: dict[str, Any] = {
        "architecture": cell.model,
        "config": {},
        "checkpoint": Path("none"),
        "backend": None,
        "execution": "eager",
        "test": "performance",
        "benchmark": cell.model,
        "answer": ("logits",),
        "inputs": Path("inputs.npz"),
        "synthetic": Path("synthetic.npz"),
        "warmup_rows": 1,
        "limits": limits(64),
    }
    return Job(cell=cell, log_dir=log_dir, **least | values)


def limits(samples: int, **values: Any) -> Limits:
    """Limits that one query meets. `samples`: performance_sample_count."""
    least = {"min_duration_ms": 0, "min_query_count": 1}
    return Limits(performance_sample_count=samples, **least | values)
