"""Finished run directories → runs. Only three small files of each are read, so that a thousand
cells take seconds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name

from formats import reading
from formats.job import Job
from formats.record import Machine, Record
from formats.result import Metric, Result, Status
from results import disturbance, summary
from results.figure import compared
from sut.devices import HOST
from sut.registry import SUTS, recorded_names


@dataclass(frozen=True, kw_only=True)
class Run:
    """One finished run.

    Attributes:
        record: record.json; None if it cannot be read, or if the cell was never started.
        planned_seconds: from job.json; None if there is none.
    """

    result: Result
    record: Record | None = None
    planned_seconds: float | None = None

    @cached_property
    def installed(self) -> Mapping[str, str]:
        """Distribution, in the normal form → its version in the SUT's environment. Empty if no
        worker reported any.
        """
        versions = self.record.environment.versions if self.record else {}
        return {canonicalize_name(name): version for name, version in versions.items()}

    @cached_property
    def versions(self) -> dict[str, str]:
        """Versions of Python, the SUT's packages and an accelerator's driver. Empty if no worker
        reported any.
        """
        installed = self.installed
        cell = self.result.cell
        packages = SUTS[cell.sut].packages if cell.sut in SUTS else ()
        names = recorded_names(("python", *packages, "mlcommons-loadgen"), installed)
        versions = {package: installed[name] for package, name in names.items()}
        if self.record and versions and cell.device != HOST:
            drivers = {accelerator.driver for accelerator in self.record.machine.accelerators}
            versions |= {"driver": ", ".join(sorted(drivers))} if drivers else {}
        return versions

    @cached_property
    def machine(self) -> str:
        """The machine in words, with all nodes of replicas. Empty if it was not recorded."""
        return machine_words(self.record.machine, self.record.nodes) if self.record else ""

    @cached_property
    def loadgen_machine(self) -> str:
        """The machine of LoadGen in words. Empty if it was not recorded."""
        return machine_words(self.record.machine) if self.record else ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each replica, if a cluster ran them; else empty."""
        return self.record.nodes if self.record else ()

    @property
    def source(self) -> str:
        """sha256 of the source of SUTs and worker. Empty if it was not recorded."""
        return self.record.git.worker_source_sha256 if self.record else ""

    @property
    def started(self) -> str:
        """The start, ISO 8601. Empty if it was not recorded."""
        return self.record.started if self.record else ""

    @cached_property
    def started_s(self) -> float:
        """The start in seconds since 1970, because texts of two time zones sort wrongly. 0 if it
        was not recorded.
        """
        try:
            return datetime.fromisoformat(self.started).timestamp()
        except ValueError:
            return 0.0

    @property
    def order(self) -> tuple[int, float, str]:
        """A key that sorts runs by their start.
        Runs without a date are sorted by the monotonic clock, then by folder.
        """
        without_date_ns = (
            self.record.started_monotonic_ns if self.record and not self.started else 0
        )
        return (without_date_ns, self.started_s, self.result.directory)

    @cached_property
    def turn(self) -> tuple[tuple[str, ...], str, int] | None:
        """(--out, the sweep, the repeat) of the measurement. None: it belongs to no sweep.

        Sweeps of the same cells have the same id for every --out.
        """
        result = self.result
        mark = result.sweep
        if mark is None:
            return None
        below = 1 + len(Path(result.cell.name).parts)
        return Path(result.directory).absolute().parts[:-below], mark.id, mark.repeat

    @property
    def obstacle(self) -> str:
        """Why it has no figure: `invalid (accuracy): …`. For a run with status ok: `ok`."""
        return summary.status(self.result)

    @cached_property
    def metric(self) -> Metric | None:
        """The figure by which it is compared. None if the status is not ok."""
        return compared(self.result) if self.result.status == Status.OK else None

    @property
    def disturbances(self) -> list[str]:
        """The disturbances that make the figure unfit for ranking."""
        return self._noise[0]

    @property
    def lasting(self) -> tuple[str, ...]:
        """The reasons why its figure may not be ranked, without the disturbances. These are the
        last reasons of a result.
        """
        every = self.result.unranked
        return every[: max(0, len(every) - len(self.disturbances))]

    @property
    def is_noted(self) -> bool:
        """Whether something disturbed the run, even if its figure may be ranked."""
        return any(self._noise)

    @cached_property
    def _noise(self) -> tuple[list[str], list[str]]:
        threads = self.record.threads if self.record else 1
        execution = self.record.execution if self.record else ""
        result = self.result
        noise = disturbance.of_others(result.disturbance, result.cell, execution)
        return disturbance.sentences(noise, threads)


def machine_words(machine: Machine, nodes: Sequence[str] = ()) -> str:
    """A machine in words. Runs with different words are from different machines.

    `nodes`: those of replicas, if a cluster ran them.
    """
    parts = [kind_words(machine)]
    if machine.node:
        parts.append(f"node {machine.node}")
    if nodes:
        parts.append(f"replicas on {', '.join(dict.fromkeys(nodes))}")
    return ", ".join(parts)


def brief_words(machine: Machine) -> str:
    """A machine in a few words, which may be those of other machines, too."""
    memory_gib = (machine.memory_bytes or 0) / (1 << 30)
    words = [machine.cpu, f"{machine.usable_threads} threads", f"{memory_gib:.0f} GiB"]
    return ", ".join([*words, *(accelerator.name for accelerator in machine.accelerators)])


def kind_words(machine: Machine) -> str:
    """The kind of a machine in words, without the name of a cluster's node.

    A hypervisor may hide a processor's name, so that one of twice the speed has the same name. So
    the words contain family, model, stepping and caches, and a digest of the processor's flags.
    """
    kinds = {
        "family": machine.cpu_family,
        "model": machine.cpu_model,
        "stepping": machine.cpu_stepping,
    }
    words = [machine.cpu, *(f"{name} {value}" for name, value in kinds.items() if value)]
    parts = [
        " ".join(words),
        f"{machine.usable_threads} threads",
        f"{(machine.memory_bytes or 0) / (1 << 30):.0f} GiB",
    ]
    if machine.group_limits:
        parts.append(f"limited to {machine.group_limits}")
    if machine.caches:
        parts.append(f"caches {machine.caches}")
    if machine.cpu_flags:
        flags = " ".join(sorted(machine.cpu_flags))
        parts.append(f"flags {hashlib.sha256(flags.encode()).hexdigest()[:6]}")
    parts += [accelerator.name for accelerator in machine.accelerators]
    return ", ".join(parts)


def find(root: Path) -> tuple[list[Result], dict[Path, str]]:
    """(all finished runs below `root`, by path; path of a result.json that cannot be read →
    reason).
    `directory` is the present path of each run.
    """
    paths = []
    for folder, folders, files in os.walk(root):
        if "result.json" in files:
            paths.append(Path(folder, "result.json"))
        if "record.json" in files:  # logs and a copy of the source are not searched
            folders.clear()
    results = []
    faults = {}
    for path in sorted(paths):
        try:
            result = reading.from_file(path, Result)
            results.append(replace(result, directory=str(path.parent)))
        except (OSError, ValueError) as e:
            faults[path] = str(e)
    return results, faults


def read(result: Result) -> Run:
    """Return the run of a result, with record and planned duration from its directory. A file that
    cannot be read counts as missing.
    """
    directory = Path(result.directory)
    record = None
    job = None
    with suppress(OSError, ValueError):
        record = reading.from_file(directory / "record.json", Record)
    with suppress(OSError, ValueError):
        job = reading.from_file(directory / "raw" / "performance" / "job.json", Job)
    return Run(
        result=result, record=record, planned_seconds=job.limits.planned_ms / 1e3 if job else None
    )
