"""`--replicas` → the place of each replica: cores of this machine, or accelerators."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from formats.job import Place
from harness.errors import UsageError
from harness.execution import machine
from harness.request import shards
from harness.request.options import Options
from harness.request.tuning import Tuned
from scenarios.table import SCENARIOS
from sut.devices import DEVICES, Device
from sut.registry import SutSpec

_TOPOLOGY = Path("/sys/devices/system/cpu")


def places(options: Options, spec: SutSpec, device: str, tuned: Tuned) -> tuple[Place, ...]:
    """Return the places that are used. Empty without `--replicas`, unless the model is split on
    accelerators. Raises UsageError if this machine has too few.
    """
    value = options.replicas
    if value is None:
        return _of_shards(options, spec, device)
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
    every = _every(count, options, spec, device)
    return tuple(every[:1] if "/" in value else every)


def _of_shards(options: Options, spec: SutSpec, device: str) -> tuple[Place, ...]:
    """Return the place of a SUT by itself, if it is split on several accelerators. A CPU's place is
    the whole machine, and is empty.
    """
    if shards.count(options) == 1:
        return ()
    every = _every(1, options, spec, device)
    return tuple(every) if DEVICES[device].accelerator else ()


def _every(count: int, options: Options, spec: SutSpec, device: str) -> list[Place]:
    """Return the places of `count` replicas. Each has a device or cores for each shard."""
    if spec.scripted:
        return [Place()] * count
    each = shards.count(options)
    part = "replica" if each == 1 else "shard"
    flags = [f"--replicas {options.replicas}"] if options.replicas else []
    flags += [shards.flag(options)] if each > 1 else []
    flag = " ".join(flags)
    if DEVICES[device].accelerator:
        parts = _on_accelerators(flag, count * each, DEVICES[device], part)
    else:
        parts = _on_cores(flag, count * each, part)
    return [_joined(parts[number : number + each]) for number in range(0, len(parts), each)]


def _joined(parts: list[Place]) -> Place:
    """Return the place that has the cores or devices of all parts."""
    cores = sum((part.cores for part in parts), ())
    devices = [part.device for part in parts if part.device]
    return Place(cores=tuple(sorted(cores)), device=",".join(devices))


def _on_accelerators(flag: str, count: int, device: Device, part: str = "replica") -> list[Place]:
    if device.chosen_by is None:
        raise UsageError(
            f"{flag}: no variable is known that shows a process one {device.name} of several"
        )
    cards = machine.accelerators() if device.library else []
    named = device.named(os.environ) or [str(number) for number in range(len(cards))]
    if len(named) < count:
        raise UsageError(
            f"{flag}: each {part} needs a {device.name} device, and there are {len(named)}"
            f" ({device.chosen_by} names those to use)"
        )
    kinds = {card.name for card in cards[:count]}
    if len(kinds) > 1:
        raise UsageError(
            f"{flag}: {part}s need equal devices, and these are {' and '.join(sorted(kinds))}:"
            f" name equal ones in {device.chosen_by}"
        )
    return [Place(device=name) for name in named[:count]]


def _on_cores(flag: str, count: int, part: str = "replica") -> list[Place]:
    """Each part gets as many cores. Those that are left over stay free."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(f"{flag}: this system does not pin a process to cores")
    cores = _cores(os.sched_getaffinity(0))
    if len(cores) < count:
        raise UsageError(f"{flag}: each {part} needs a core of its own, and there are {len(cores)}")
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
