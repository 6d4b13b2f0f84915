"""Finished run directories → runs. Only three small files of each are read, so a thousand cells take seconds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from formats.result import Metric, Result, Status
from harness import disturbance
from harness.figure import compared
from sut.devices import HOST
from sut.registry import SUTS, recorded_names


@dataclass(frozen=True, kw_only=True)
class Run:
    """One finished run.

    Attributes:
        record: record.json; empty where there is none, as of a cell that was never started.
        planned_seconds: of job.json; None where there is none.
    """

    result: Result
    record: Mapping[str, Any] = field(default_factory=dict)
    planned_seconds: float | None = None

    @cached_property
    def versions(self) -> dict[str, str]:
        """Python, the SUT's own packages and the driver of an accelerator; empty where no worker told any."""
        told = self.record.get("environment", {}).get("versions", {})
        spec = SUTS.get(self.result.cell.sut)
        names = recorded_names(("python", *(spec.packages if spec else ()), "mlcommons-loadgen"), told)
        versions = {package: told[name] for package, name in names.items()}
        drivers = {a["driver"] for a in self.record.get("machine", {}).get("accelerators", ()) if self.result.cell.device != HOST}
        return {**versions, "driver": ", ".join(sorted(drivers))} if versions and drivers else versions

    @cached_property
    def machine(self) -> str:
        """The machine in words; empty if it was not recorded."""
        recorded = self.record.get("machine")
        return machine_words(recorded) if recorded else ""

    @property
    def source(self) -> str:
        """sha256 of the files of SUTs and worker; empty where it was not recorded."""
        return str(self.record.get("git", {}).get("worker_source_sha256", ""))

    @property
    def started(self) -> str:
        """When it began, ISO 8601; empty where it was not recorded."""
        return str(self.record.get("started", ""))

    @property
    def started_s(self) -> float:
        """When it began, seconds since 1970: a text sorts wrongly over two time zones. 0 where it was not recorded."""
        try:
            return datetime.fromisoformat(self.started).timestamp()
        except ValueError:
            return 0.0

    @property
    def order(self) -> tuple[int, float, str]:
        """Sorts runs by the time they began; of older records by the folder."""
        return (int(self.record.get("started_monotonic_ns", 0)) if not self.started else 0, self.started_s, self.result.directory)

    @property
    def turn(self) -> tuple[tuple[str, ...], str, int] | None:
        """(--out, the sweep, the repeat) in which it was measured; None: in no sweep.

        Sweeps of the same cells have one id, wherever they write.
        """
        mark, below = self.result.sweep, 1 + len(Path(self.result.cell.name).parts)
        return (Path(self.result.directory).absolute().parts[:-below], mark.id, mark.repeat) if mark else None

    @property
    def obstacle(self) -> str:
        """Why it has no figure: `invalid (accuracy): …`; of a run that is ok `ok`."""
        result = self.result
        cause = f" ({result.cause})" if result.cause else ""
        return f"{result.status}{cause}{': ' + result.reason if result.reason else ''}"

    @property
    def metric(self) -> Metric | None:
        """The figure by which it is compared, of a run that is ok."""
        return compared(self.result) if self.result.status == Status.OK else None

    @cached_property
    def disturbances(self) -> tuple[str, str]:
        """(what makes the figure unfit for ranking, what a reader should know) of what else went on; empty texts where nothing did."""
        serious, notes = disturbance.sentences(self.result.disturbance, self.record.get("machine", {}).get("usable_threads") or 1)
        return "; ".join(serious), "; ".join(notes)


def machine_words(m: Mapping[str, Any]) -> str:
    """A machine in words, from what `harness.execution.machine.describe` says of it. Runs whose words differ are of two machines.

    A hypervisor hides a processor's name, and one of twice the speed then has the same. So the words hold family, model, stepping and
    caches, and a digest of the processor's flags.
    """
    kind = [f"{name} {m[f'cpu_{name}']}" for name in ("family", "model", "stepping") if m.get(f"cpu_{name}")]
    flags = " ".join(sorted(m.get("cpu_flags") or ()))
    parts = [
        " ".join([m["cpu"], *kind]),
        f"{m['usable_threads']} threads",
        f"{m['memory_bytes'] / (1 << 30):.0f} GiB",
        *([f"caches {m['caches']}"] if m.get("caches") else []),
        *([f"flags {hashlib.sha256(flags.encode()).hexdigest()[:6]}"] if flags else []),
        *(a["name"] for a in m.get("accelerators", ())),
    ]
    return ", ".join(parts)


def find(root: Path) -> tuple[list[Result], dict[Path, str]]:
    """(every finished run below `root`, by path; result.json that cannot be read → why). `directory` is where each lies now."""
    results, faults = [], {}
    for path in sorted(_results(root)):
        try:
            result = Result.from_json(json.loads(path.read_text(encoding="utf-8")))
            results.append(replace(result, directory=str(path.parent)))
        except (OSError, ValueError) as e:
            faults[path] = str(e)
    return results, faults


def read(result: Result) -> Run:
    """A run with what its directory tells beside its result. What cannot be read is left empty."""
    directory = Path(result.directory)
    limits = _json(directory / "raw" / "performance" / "job.json").get("limits", {})
    planned = limits.get("planned_ms")
    return Run(result=result, record=_json(directory / "record.json"), planned_seconds=None if planned is None else planned / 1e3)


def _results(root: Path) -> Iterator[Path]:
    """Every result.json. What lies below a run directory is not looked at: logs, and a copy of the source."""
    for folder, folders, files in os.walk(root):
        if "result.json" in files:
            yield Path(folder, "result.json")
        if "record.json" in files:
            folders.clear()


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
