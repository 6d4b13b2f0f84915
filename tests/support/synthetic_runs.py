"""Finished run directories without a measurement: a cell, its figures and what surrounds them, as
result.json and record.json hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from formats.cell import Cell, SweepMark
from formats.job import Job
from formats.result import Metric, Result, Status
from formats.writing import write_json
from tests.support import jobs

MACHINE = {
    "cpu": "A processor",
    "usable_threads": 2,
    "memory_bytes": 8 << 30,
    "accelerators": [],
    "kernel": "Linux 6",
}
VERSIONS = {
    "python": "3.11.7",
    "keras": "3.15.1",
    "jax": "0.10.2",
    "torch": "2.13.0",
    "tensorflow-cpu": "2.20.0",
}
CALM = {
    "seconds": 10,
    "stalls": 0,
    "stalled_seconds": 0,
    "longest_stall_seconds": 0,
    "other_processors": 0,
    "stolen_processors": 0,
}
NOISE = CALM | {"other_processors": 1.5}
"""The disturbances of a run while another program used 1.5 processors."""


EVIDENCE = {"graphs": 0, "graph_breaks": None, "precision": "float32"}


def cell(sut: str = "keras3-jax", **changes: Any) -> Cell:
    """A cell of bert at size mid, Offline."""
    values: dict[str, Any] = {
        "sut": sut,
        "model": "bert",
        "size": "mid",
        "task": "predict",
        "scenario": "Offline",
        "precision": "float32",
        "batch_size": 32,
        "device": "cpu",
        "seq_len": 128,
        "weights": "0123456789ab",
    }
    return Cell(**values | changes)


def write(
    root: Path,
    of: Cell,
    figures: Iterable[float | None],
    *,
    first_minute: int = 0,
    step: int = 10,
    day: int = 1,
    record: Mapping[str, Any] | None = None,
    planned_ms: int = 10_000,
    sweep: str | None = None,
    control: bool = False,
    **changes: Any,
) -> list[Path]:
    """A run directory for each figure (None: status oom). Run n begins `step` minutes after run n -
    1.

    Args:
        sweep: the id of a sweep, whose repeat n is run n; of a control the id with `control=True`.
        changes: fields of the result.
    """
    directories = []
    offline = of.scenario == "Offline"
    start = len(list((root / of.name).glob("quick-*")))
    for n, figure in enumerate(figures):
        directory = root / of.name / f"quick-{start + n + 1}"
        (directory / "raw" / "performance").mkdir(parents=True)
        minutes = first_minute + n * step
        started = f"2026-03-{day:02}T{minutes // 60:02}:{minutes % 60:02}:00+0000"
        git = {"revision": "a" * 40, "dirty": False, "worker_source_sha256": "1"}
        written = record_json(of) | {"started": started, "git": git}
        for key, value in (record or {}).items():
            written[key] = written.get(key, {}) | value if isinstance(value, dict) else value
        write_json(directory / "record.json", written)
        write_json(directory / "raw" / "performance" / "job.json", job(of, directory, planned_ms))
        name, unit = ("samples_per_second", "samples/s") if offline else ("latency_p90", "ms")
        metrics = (
            {"ms_per_step": 1000 * of.batch_size / figure if offline else figure} if figure else {}
        )
        if figure and written["execution"] != "eager":
            metrics["compile_seconds"] = 4.0
        if figure and of.scenario == "SingleStream":
            metrics |= {"latency_p50_ms": figure, "latency_p90_ms": 1.1 * figure}
        values: dict[str, Any] = {
            "cell": of,
            "mode": "quick",
            "round": "v6.1",
            "directory": str(directory),
            "status": Status.OK if figure else Status.OOM,
            "reason": "" if figure else "the kernel killed the worker",
            "metric": Metric(name, figure, unit, offline) if figure else None,
            "metrics": metrics,
            "ranked": True,
            "sweep": SweepMark(id=sweep, series=0, repeat=n + 1, control=control)
            if sweep
            else None,
        }
        values |= changes
        if "evidence" in changes:
            values["evidence"] = {"sentence": "", "after": EVIDENCE | changes["evidence"]["after"]}
        write_json(directory / "result.json", Result(**values))
        directories.append(directory)
    return directories


def record_json(of: Cell) -> dict[str, Any]:
    """The least that a record.json holds."""
    return {
        "schema": "record-4",
        "cell": asdict(of),
        "mode": "quick",
        "round": "v6.1",
        "command": f"./run.sh --sut {of.sut} …",
        "benchmark": {"name": f"{of.model}-{of.size}", "official": "bert-99"},
        "architecture": of.model,
        "execution": "eager" if of.sut.endswith(("eager", "torch")) else "xla",
        "qsl": {"samples": 64, "performance_sample_count": 64, "synthetic": True},
        "accuracy": {"score": "logits", "keys": ["logits"], "tolerance": {}},
        "digests": {"weights": "0" * 64, "inputs": "0" * 64, "reference": "0" * 64},
        "machine": MACHINE,
        "git": {},
        "environment": {"name": "core", "lock_sha256": "0" * 64, "versions": VERSIONS},
        "new_tokens_per_sample": None,
    }


def job(of: Cell, directory: Path, planned_ms: int = 0, **config: Any) -> Job:
    """The job of the performance test. `config`: of its workload."""
    limits = jobs.limits(64, planned_ms=planned_ms)
    return jobs.job(of, directory / "raw" / "performance", config=config, limits=limits)
