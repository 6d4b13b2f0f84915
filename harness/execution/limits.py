"""The limits of an environment on this machine (`formats.limits`), which the cache keeps.

A file serves one environment on one kind of machine, with the same environment variables. If one of
these changes, there is no file for them, and the limits are not known.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formats import reading
from formats.cell import PRECISIONS
from formats.limits import Limits, Measured
from formats.record import Machine, SutEnvironment
from formats.writing import json_digest, read_json, write_json
from harness.errors import EnvironmentFailure
from harness.execution import machine as this_machine
from harness.execution import programs
from harness.execution.environments import Environment
from scenarios.worker.preflight import available_memory_bytes
from scenarios.worker.system import cores
from sut import variables
from sut.devices import DEVICES
from sut.registry import SUTS, SutSpec, framework_of

_FORMAT = 2  # of the measurements; a change of them needs another number
_LEAST_BYTES = 256 << 20
_ON_ACCELERATOR_BYTES = 1 << 30
_CACHES = 4  # an array has so many times the bytes of the last-level caches
_MEMORY = 16  # and at most one in so many bytes of memory, because there are several arrays
_PATIENCE_S = 900
_LAST_LINES = 3


def known(
    cache: Path, environment: SutEnvironment, machine: Machine, device: str, precision: str
) -> Limits | None:
    """Return the kept limits of an environment on a device in a precision. None: `doctor --limits`
    did not measure them with these packages on this machine.

    Args:
        environment, machine: as a run's record has them.
    """
    measured = read(cache, environment, machine, device)
    every = measured.limits if measured else ()
    return next((limits for limits in every if limits.precision == precision), None)


def read(
    cache: Path, environment: SutEnvironment, machine: Machine, device: str
) -> Measured | None:
    """Return the kept limits of an environment on a device. None: there are none."""
    made_with = facts(environment, machine, device)
    try:
        measured = reading.from_file(file(cache, made_with), Measured)
    except (OSError, ValueError):
        return None
    return measured if measured.made_with == made_with else None


def facts(environment: SutEnvironment, machine: Machine, device: str) -> dict[str, Any]:
    """Return everything that changes the limits, as JSON values. `machine.usable_threads`: with how
    many threads they are measured.
    """
    accelerators = [
        [each.name, each.memory_bytes, each.driver, each.power_limit_w, each.mig]
        for each in machine.accelerators
    ]
    set_variables: dict[str, str] = {}  # those that change a figure of some SUT
    for spec in suts_of(environment.name).values():
        set_variables |= variables.of_cell(spec, device, environment.variables)
    return {
        "format": _FORMAT,
        "environment": environment.name,
        "lock_sha256": environment.lock_sha256,
        "device": device,
        "cpu": [machine.cpu, machine.cpu_family, machine.cpu_model],
        "cpu_flags": list(machine.cpu_flags),
        "threads": [machine.usable_threads, machine.cpu_quota],
        "clock": [machine.governor, machine.boost],
        "accelerators": accelerators,
        "variables": dict(sorted(set_variables.items())),
    }


def file(cache: Path, made_with: Mapping[str, Any]) -> Path:
    """Return the file that keeps the limits with these facts."""
    name = re.sub(r"\W+", "-", made_with["environment"]).strip("-")
    return cache / "limits" / f"{name}-{made_with['device']}-{json_digest(made_with, 12)}.json"


def suts_of(environment: str) -> dict[str, SutSpec]:
    """Return the SUTs that run in the environment of this name."""
    name = environment.partition(" ")[0]  # that of --python has a remark
    return {sut: spec for sut, spec in SUTS.items() if spec.environment == name}


def recorded(environment: Environment) -> SutEnvironment:
    """Return the environment as a record has it, with the variables of this process."""
    return SutEnvironment(
        name=environment.name,
        python=str(environment.python),
        lock_sha256=environment.lock_sha256,
        versions={},
        variables=variables.read_by_any(os.environ),
    )


def measure(cache: Path, environment: Environment, machine: Machine, device: str) -> Measured:
    """Measure the limits of an environment on a device, and keep them. Raises EnvironmentFailure
    with the worker's last words.
    """
    made_with = facts(recorded(environment), machine, device)
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    begun = time.monotonic()
    document = _worker(environment, machine, device)
    measured = reading.convert(
        {
            "made_with": made_with,
            "started": started,
            "seconds": round(time.monotonic() - begun, 1),
            **document,
        },
        Measured,
    )
    path = file(cache, made_with)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, measured)
    return measured


def _worker(environment: Environment, machine: Machine, device: str) -> dict[str, Any]:
    """Run `sut.limits` in the environment. → the `limits` and `lacking` that it wrote."""
    suts = suts_of(environment.name)
    sut, spec = next(iter(suts.items()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = folder / "limits.json"
        job = {
            "framework": framework_of(sut),
            "environment": environment.name,
            "device": device,
            "precisions": _precisions(suts, device),
            "sizes": {"array_bytes": _array_bytes(machine, device)},
            "file": str(found),
        }
        path = folder / "job.json"
        write_json(path, job)
        usable = cores.available()
        words = programs.run(
            "sut.limits",
            environment,
            spec.process_env,
            [path],
            folder,
            device=device,
            cores=cores.first(usable, machine.usable_threads or len(usable)),
            limit_s=_PATIENCE_S,
            lines=_LAST_LINES,
        )
        if words:
            raise EnvironmentFailure(f"limits of {environment.name}: {words}")
        document: dict[str, Any] = read_json(found)
        return document


def _precisions(suts: Mapping[str, SutSpec], device: str) -> list[str]:
    """The precisions that some SUT of the environment computes in on the device."""
    named = set[str]().union(*(spec.precisions for spec in suts.values()))
    lacks = DEVICES[device].lacks
    return [precision for precision in PRECISIONS if precision in named and precision not in lacks]


def _array_bytes(machine: Machine, device: str) -> int:
    """The bytes of a measured array, which is larger than the last-level caches and fits into
    memory several times. Raises EnvironmentFailure if there is too little memory for that.
    """
    caches = 0
    if DEVICES[device].accelerator:
        memory_bytes = machine.accelerators[0].memory_bytes if machine.accelerators else 0
        wanted = _ON_ACCELERATOR_BYTES
    else:
        caches = this_machine.last_level_caches_bytes()
        memory_bytes = available_memory_bytes() or 0
        wanted = max(_LEAST_BYTES, _CACHES * caches)
    size = min(wanted, memory_bytes // _MEMORY) if memory_bytes else wanted
    if size <= caches:
        raise EnvironmentFailure(
            f"limits: with {memory_bytes / 1e9:.1f} GB of free memory an array may have"
            f" {size / 1e6:,.0f} MB, which fit into the processor's last-level caches"
            f" ({caches / 1e6:,.0f} MB), so the speed of the memory cannot be measured: free some"
            " memory"
        )
    return size
