"""The programs that JAX and torch have compiled are kept in the cache's folder `compiled`, so that
later workers find them.

A folder serves one environment on one kind of machine, because compiled programs fit only these. It
serves one number of threads, because XLA divides loops among as many threads as it compiles with,
and the key of JAX's cache does not contain their number. The folder also keeps how long the
programs of each cell took to compile the first time. Models that a SUT converts are kept in the
cache's folder `converted`, which fits any machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from formats.cell import Cell
from formats.job import Place
from formats.record import Machine
from formats.writing import json_digest, read_json, write_json
from harness.execution.environments import Environment
from scenarios.worker.system import cores
from sut.variables import keeping_kernels


def folder(
    cache: Path,
    environment: Environment,
    machine: Machine,
    device: str,
    places: Sequence[Place] = (),
) -> Path:
    """The folder for the compiled programs of this environment, machine and device.

    `places`: those of the SUT, or of its replicas, which have equally many processors.
    """
    own = places[0].cores if places else ()
    threads = len(own or cores.available())
    accelerators = [accelerator.name for accelerator in machine.accelerators]
    cpu = [machine.cpu, machine.cpu_family, machine.cpu_model, machine.cpu_flags]
    parts: list[object] = [environment.lock_sha256, cpu, accelerators, threads]
    return cache / "compiled" / _name(environment, device, parts)


def converted(cache: Path, environment: Environment, device: str, weights_digest: str) -> Path:
    """The folder for what the tools of this environment convert these weights to."""
    parts: list[object] = [environment.lock_sha256, weights_digest]
    return cache / "converted" / _name(environment, device, parts)


def _name(environment: Environment, device: str, parts: list[object]) -> str:
    name = re.sub(r"\W+", "-", environment.name).strip("-")
    return f"{name}-{device}-{json_digest(parts, 12)}"


def variables(folder: Path) -> dict[str, str]:
    """The variables by which a worker keeps its programs there. Variables that the user has set are
    left out.
    """
    return {k: v for k, v in keeping_kernels(folder).items() if k not in os.environ}


def first_seconds(folder: Path, cell: Cell) -> float | None:
    """Return the seconds that the cell's programs took to compile when none of them was in the
    folder. None: not known.
    """
    try:
        return float(read_json(_file(folder, cell))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note_first_seconds(folder: Path, cell: Cell, seconds: float) -> None:
    """Keep how long the cell's programs took to compile, none of which was in the folder."""
    path = _file(folder, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"cell": cell.name, "seconds": seconds})


def _file(folder: Path, cell: Cell) -> Path:
    return folder / "first" / f"{cell.name.replace('/', '-')}.json"
