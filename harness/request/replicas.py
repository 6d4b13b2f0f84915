"""`--replicas` → the place of each replica: cores of this machine, or an accelerator."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from formats.job import Place
from harness.errors import UsageError
from harness.execution import machine
from harness.request.options import Options
from harness.request.tuning import Tuned
from scenarios.table import SCENARIOS
from sut.devices import DEVICES, Device
from sut.registry import SutSpec

_TOPOLOGY = Path("/sys/devices/system/cpu")


def places(options: Options, spec: SutSpec, device: str, tuned: Tuned) -> tuple[Place, ...]:
    """Return the places that are used. Empty without `--replicas`. Raises UsageError if this
    machine has too few.
    """
    value = options.replicas
    if value is None:
        return ()
    flag = f"--replicas {value}"
    scenario = SCENARIOS[options.scenario]
    if not scenario.many_at_once:
        raise UsageError(
            f"{flag}: is for Offline and Server, and {scenario.name} has one batch at a time: leave"
            " it out"
        )
    if spec.remote:
        raise UsageError(
            f"{flag}: {options.sut} does not start its engine: start replicas of the engine instead"
        )
    if tuned.buckets:
        raise UsageError(
            f"{flag}: --tuned {options.tuned} sorts the inputs by length, and replicas get them in"
            " their order: leave one of both out"
        )
    count = int(value.removeprefix("1/"))
    if spec.scripted:
        every = [Place()] * count
    elif DEVICES[device].accelerator:
        every = _on_accelerators(flag, count, DEVICES[device])
    else:
        every = _on_cores(flag, count)
    return tuple(every[:1] if "/" in value else every)


def _on_accelerators(flag: str, count: int, device: Device) -> list[Place]:
    if device.chosen_by is None:
        raise UsageError(
            f"{flag}: no variable is known that shows a process one {device.name} of several"
        )
    cards = machine.accelerators() if device.library else []
    named = device.named(os.environ) or [str(number) for number in range(len(cards))]
    if len(named) < count:
        raise UsageError(
            f"{flag}: each replica needs a {device.name} device, and there are {len(named)}"
            f" ({device.chosen_by} names those to use)"
        )
    kinds = {card.name for card in cards[:count]}
    if len(kinds) > 1:
        raise UsageError(
            f"{flag}: replicas need equal devices, and these are {' and '.join(sorted(kinds))}:"
            f" name equal ones in {device.chosen_by}"
        )
    return [Place(device=name) for name in named[:count]]


def _on_cores(flag: str, count: int) -> list[Place]:
    """Each replica gets as many cores. Those that are left over stay free."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(f"{flag}: this system does not pin a process to cores")
    cores = _cores(os.sched_getaffinity(0))
    if len(cores) < count:
        raise UsageError(
            f"{flag}: each replica needs a core of its own, and there are {len(cores)}"
        )
    each = len(cores) // count
    parts = [cores[number * each : (number + 1) * each] for number in range(count)]
    return [Place(cores=tuple(sorted(sum(part, ())))) for part in parts]


def _cores(usable: Iterable[int]) -> list[tuple[int, ...]]:
    """The usable logical processors of each core, in the order of the cores."""
    cores: dict[str, list[int]] = {}
    for number in sorted(usable):
        path = _TOPOLOGY / f"cpu{number}/topology/thread_siblings_list"
        try:
            siblings = path.read_text(encoding="ascii").strip()
        except OSError:
            siblings = str(number)
        cores.setdefault(siblings, []).append(number)
    return [tuple(each) for each in cores.values()]
