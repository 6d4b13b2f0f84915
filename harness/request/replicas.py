"""`--replicas` → the place of each replica: cores of this machine, or accelerators. With `--on` the
program that lets a cluster start them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from formats.job import Launch, Place
from harness.errors import UsageError
from harness.execution import clusters, machine
from harness.request import shards
from harness.request.options import AUTO, Options
from harness.request.tuning import Tuned
from scenarios.table import SCENARIOS
from scenarios.worker.replicas import gate
from scenarios.worker.system import cores
from sut.devices import DEVICES, Device
from sut.registry import SutSpec


class Replicas(NamedTuple):
    """The places of replicas. Without `--replicas` there are none."""

    places: tuple[Place, ...] = ()
    launch: Launch | None = None


def of(options: Options, spec: SutSpec, device: str, tuned: Tuned) -> Replicas:
    """Return the replicas that are used. Raises UsageError if there is no place for them."""
    value = options.replicas
    _check_flags(options)
    if value is None:
        alone = [] if shards.count(options) == 1 else _every(1, options, spec, device)
        if not DEVICES[device].accelerator:
            alone = []  # its place is the whole machine
        return Replicas(_with_threads(options, spec, alone))
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
    used = 1 if "/" in value else count
    if options.replicas_on:
        return Replicas((Place(),) * used, _launch(options, spec, DEVICES[device], used, count))
    places = _with_threads(options, spec, _every(count, options, spec, device))
    return Replicas(places[:used])


def _check_flags(options: Options) -> None:
    """Raises UsageError for flags that are only for replicas of a cluster."""
    replicas_on = options.replicas_on
    if replicas_on and options.replicas is None:
        raise UsageError(
            f"--on {replicas_on}: a single run uses a cluster for its replicas: give"
            " --replicas N. ./run.sh sweep --on spreads comparisons over a cluster"
        )
    if replicas_on and shards.count(options) > 1:
        raise UsageError(
            f"--on {replicas_on}: a model that is split runs on one machine: leave out"
            f" {shards.flag(options)} or --on"
        )
    if replicas_on:
        return
    if options.slurm:
        raise UsageError(f"--slurm {options.slurm[0]}: is for --on slurm: leave it out")
    if options.interface:
        raise UsageError(f"--interface {options.interface}: is for --on: leave it out")


def _launch(options: Options, spec: SutSpec, device: Device, used: int, count: int) -> Launch:
    """The program that starts `used` of `count` replicas."""
    assert options.replicas_on
    on_cores = not spec.scripted and not device.accelerator
    resource = "CPU" if on_cores else "none"
    if device.accelerator:
        resource = "GPU"
    command = clusters.launch_command(
        options.replicas_on, options.slurm, options.cache, used, count, resource
    )
    return Launch(
        command=command,
        interface=options.interface or gate.HOST,
        pinned=on_cores or options.thread_count is not None,
        threads=options.thread_count,
    )


def prepare(options: Options, say: Callable[[str], None]) -> None:
    """Make what a cluster needs to start the replicas. Raises UsageError if they cannot connect to
    this machine, and EnvironmentFailure if something is missing.
    """
    _check_interface(options.interface or gate.HOST)
    if options.replicas_on == clusters.SLURM:
        clusters.check_slurm("srun")
    else:
        clusters.make_ray(options.cache, say)


def _check_interface(address: str) -> None:
    """Raises UsageError unless it is an address of this machine."""
    if address == "0.0.0.0":
        raise UsageError(
            f"--interface {address}: names all addresses: give one that the nodes reach, which"
            " `ip addr` lists"
        )
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
            own.bind((address, 0))
    except OSError as e:
        raise UsageError(
            f"--interface {address}: is no address of this machine ({e}): give one, which `ip addr`"
            " lists"
        ) from None


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
    places = []
    for number in range(0, len(parts), each):
        own = parts[number : number + each]
        every_core = sorted(core for part in own for core in part.cores)
        devices = ",".join(part.device for part in own if part.device)
        places.append(Place(cores=tuple(every_core), device=devices))
    return places


def _with_threads(options: Options, spec: SutSpec, places: Sequence[Place]) -> tuple[Place, ...]:
    """The places, with as many processors as `--threads` requests for each. Raises UsageError if
    there are fewer.
    """
    count = options.thread_count
    if count is None:
        return tuple(places)
    if spec.remote:
        raise UsageError(
            f"--threads {count}: {options.sut} does not start its engine: limit the threads of the"
            " engine instead, and leave it out"
        )
    places = places or [Place()]
    shares = [place.cores for place in places]
    if not all(shares):
        shares = cores.parts(cores.usable(), len(places))
    whom = "the SUT" if len(places) == 1 else f"each of {len(places)} replicas"
    check_threads(count, min(map(cores.count, shares)), whom)
    return tuple(
        replace(place, cores=cores.first(share, count))
        for place, share in zip(places, shares, strict=True)
    )


def check_threads(count: int, most: int, whom: str) -> None:
    """Raises UsageError if `--threads` requests more than one thread of a core. Frameworks count
    the threads of such cores in different ways.
    """
    if count > most:
        raise UsageError(
            f"--threads {count}: each thread needs a core, and {whom} has {most} (of the cores that"
            " this process may use, at most the quota of its control groups, rounded up): give"
            f" fewer, or {AUTO}"
        )


def _on_accelerators(flag: str, count: int, device: Device, part: str = "replica") -> list[Place]:
    chosen_by = device.chosen_by
    if chosen_by is None:
        raise UsageError(
            f"{flag}: no variable is known that shows a process one {device.name} of several"
        )
    cards = machine.accelerators() if device.library else []
    named = device.named(os.environ) or [str(number) for number in range(len(cards))]
    if len(named) < count:
        raise UsageError(
            f"{flag}: each {part} needs a {device.name} device, and there are {len(named)}"
            f" ({chosen_by} names those to use)"
        )
    kinds = {card.name for card in cards[:count]}
    if len(kinds) > 1:
        raise UsageError(
            f"{flag}: {part}s need equal devices, and these are {' and '.join(sorted(kinds))}:"
            f" name equal ones in {chosen_by}"
        )
    return [Place(device=name) for name in named[:count]]


def _on_cores(flag: str, count: int, part: str = "replica") -> list[Place]:
    every = cores.usable()
    if not every:
        raise UsageError(f"{flag}: this system does not pin a process to cores")
    if len(every) < count:
        raise UsageError(f"{flag}: each {part} needs a core of its own, and there are {len(every)}")
    return [Place(cores=own) for own in cores.parts(every, count)]
