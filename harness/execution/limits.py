"""The limits of an environment on this machine (`formats.limits`), which the cache keeps.

A file serves one environment on one kind of machine, with the same environment variables. If one of
these changes, there is no file for them, and the limits are not known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formats import reading
from formats.limits import Limits, Measured
from formats.record import Machine, SutEnvironment
from sut import variables
from sut.registry import SUTS, SutSpec

_FORMAT = 1  # of the measurements; a change of them needs another number


def known(
    cache: Path, environment: SutEnvironment, machine: Machine, device: str, precision: str
) -> Limits | None:
    """Return the kept limits of an environment on a device in a precision. None: `./run.sh limits`
    did not measure them with these packages on this machine.

    Args:
        environment, machine: as a run's record has them.
    """
    measured = read(cache, environment, machine, device)
    for limits in measured.limits if measured else ():
        if limits.precision == precision:
            return limits
    return None


def read(
    cache: Path, environment: SutEnvironment, machine: Machine, device: str
) -> Measured | None:
    """Return the kept limits of an environment on a device. None: there are none."""
    made_with = facts(environment, machine, device)
    try:
        measured = reading.from_file(file(cache, made_with), reading.limits)
    except (OSError, ValueError):
        return None
    return measured if measured.made_with == made_with else None


def facts(environment: SutEnvironment, machine: Machine, device: str) -> dict[str, Any]:
    """Return everything that changes the limits, as JSON values."""
    accelerators = [
        [each.name, each.driver, each.power_limit_w, each.mig] for each in machine.accelerators
    ]
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
        "variables": _variables(environment, device),
    }


def file(cache: Path, made_with: Mapping[str, Any]) -> Path:
    """Return the file that keeps the limits with these facts."""
    name = re.sub(r"\W+", "-", made_with["environment"]).strip("-")
    digest = hashlib.sha256(json.dumps(made_with).encode()).hexdigest()[:12]
    return cache / "limits" / f"{name}-{made_with['device']}-{digest}.json"


def suts_of(environment: str) -> dict[str, SutSpec]:
    """Return the SUTs that run in the environment of this name."""
    name = environment.partition(" ")[0]  # that of --python has a remark
    return {sut: spec for sut, spec in SUTS.items() if spec.environment == name}


def _variables(environment: SutEnvironment, device: str) -> dict[str, str]:
    """The variables that change a figure of some SUT in this environment."""
    found: dict[str, str] = {}
    for spec in suts_of(environment.name).values():
        found |= variables.of_cell(spec, device, environment.variables)
    return dict(sorted(found.items()))
