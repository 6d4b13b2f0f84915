"""`--tuned` → the switches of a cell (`sut/tuning.toml`), and the notes that say where they come
from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path

from formats import reading
from formats.tuning import Gain
from harness.comparison.runs import kind_words
from harness.errors import UsageError
from harness.execution import machine
from harness.execution.environments import LOCKS, ROOT, block_name, lock_blocks
from harness.execution.interpreter import inventory
from harness.request.options import OFF, ON, Options
from sut import tuning
from sut.registry import SUTS, recorded_names

GAINS = "tuning-gains.json"
"""The file below --cache with the gains that `./run.sh tune` measured on this machine."""
_SHIPPED = ROOT / "sut" / "tuning_gains.json"


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The switches of a cell.

    Attributes:
        on: whether `--tuned` was given. The set of switches may still be empty.
        variables: the environment variables that they set.
        settings: what they set in the SUT's code.
        notes: for a reader.
    """

    on: bool = False
    switches: tuple[tuning.Switch, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the switches, sorted."""
        return tuple(sorted(each.name for each in self.switches))

    @property
    def buckets(self) -> int:
        """See `Switch.buckets`."""
        return max((each.buckets for each in self.switches), default=0)

    def batch_size(self, requested: int) -> int:
        """Return the size of a batch. Raises UsageError if a switch cannot change it."""
        factor = prod(each.batch for each in self.switches)
        size = int(requested * factor)
        if factor != 1 and size in (0, requested):
            raise UsageError(
                f"--tuned {'+'.join(self.names)}: a batch of {requested} has no smaller one"
            )
        return size


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a cell, by the names of `Gain`. `batch_size` is the requested one. `uneven`: its
    inputs may have different lengths.
    """

    architecture: str
    model: str
    size: str
    task: str
    precision: str
    batch_size: int
    device: str
    uneven: bool

    def place(self, options: Options) -> tuning.Place:
        """Return the facts by which switches are chosen."""
        return tuning.Place(
            sut=options.sut,
            architecture=self.architecture,
            device=self.device,
            scenario=options.scenario,
            uneven=self.uneven,
        )


def of(options: Options, work: Work) -> Tuned:
    """Return the switches that `--tuned` requests. Raises UsageError for one that is not for this
    cell, and for an environment variable of the user that a switch would replace.
    """
    if options.tuned == OFF:
        return Tuned()
    if options.trains or SUTS[options.sut].remote:
        what = f"--sut {options.sut}" if SUTS[options.sut].remote else options.scenario
        raise UsageError(f"--tuned {options.tuned}: there are no switches for {what}: leave it out")
    notes: tuple[str, ...] = ()
    names = options.tuned.split("+")
    if options.tuned == ON:
        names, note = _measured_best(options, work)
        notes = (note,)
    chosen = tuple(tuning.switches()[name] for name in names)
    _check_place(options, work, chosen)
    conflict = _conflict(chosen)
    if conflict:
        raise UsageError(f"--tuned {options.tuned}: {conflict}")
    variables = tuning.variables(chosen)
    settings = tuning.settings(chosen)
    for name in variables:
        if os.environ.get(name):
            raise UsageError(
                f"--tuned {options.tuned}: sets {name}, which is set in the environment"
                f" ({os.environ[name]}): unset it"
            )
    return Tuned(on=True, switches=chosen, variables=variables, settings=settings, notes=notes)


def _check_place(options: Options, work: Work, chosen: Sequence[tuning.Switch]) -> None:
    """Raises UsageError for a switch that is not for this cell."""
    place = work.place(options)
    of_inputs = "" if work.uneven else " with inputs of one length"
    for switch in chosen:
        if not switch.fits(place):
            others = ", ".join(each.name for each in tuning.candidates(place))
            raise UsageError(
                f"--tuned {switch.name}: is not for {options.sut} with {work.architecture} on"
                f" {work.device} in {options.scenario}{of_inputs}; there is {others or 'none'}"
            )


def _conflict(chosen: Sequence[tuning.Switch]) -> str:
    """Return why these switches cannot be applied together. Empty if they can."""
    choices = [switch.choice for switch in chosen if switch.choice]
    if len(set(choices)) < len(choices):
        return "two of these exclude each other: take one"
    try:
        tuning.variables(chosen)
        tuning.settings(chosen)
    except ValueError as e:
        return f"{e}: take one of the two"
    return ""


def _measured_best(options: Options, work: Work) -> tuple[list[str], str]:
    """Return (names of the switches that gave most in a measurement, a note on it)."""
    own = [gain for gain in known(options.cache / GAINS) if gain.machine == this_machine()]
    versions = _versions(options.sut, work.device, options.python)
    for gains in (own, known(_SHIPPED)):
        alike = [gain for gain in gains if _is_for(gain, options, work, versions)]
        if not alike:
            continue
        nearest = _nearest(alike, options.scenario, work)
        best = best_of(nearest)
        if best is None:
            machines = dict.fromkeys(gain.machine for gain in nearest)
            return [], (
                f"tuned: no switch was shown to make {options.sut} faster, so none is applied"
                f" (measured on {'; '.join(machines)})"
            )
        measured = f"{best.model} {best.size} {best.scenario} batch {best.batch_size}"
        note = (
            f"tuned: {', '.join(best.switches)}, which made it {best.ratio or 0.0:.3g} times as"
            f" fast in {measured} (measured on {best.machine})"
        )
        return list(best.switches), note
    note = (
        f"tuned: no switch of {options.sut} was measured in these versions with"
        f" {work.architecture} ({work.task}) in {work.precision} on {work.device}, so none is"
        " applied: ./run.sh tune measures them"
    )
    return [], note


def _is_for(gain: Gain, options: Options, work: Work, versions: Mapping[str, str]) -> bool:
    """Return whether a gain was measured on a cell like this one, with the same versions, and its
    switches are for this cell. A factor of the batch size needs the same work.
    """
    same = ["architecture", "task", "precision", "device"]
    if not is_usable(gain):
        return False
    chosen = [tuning.switches()[name] for name in gain.switches]
    if any(switch.batch != 1 for switch in chosen):
        same += ["model", "size", "batch_size"]
    if gain.sut != options.sut or any(getattr(gain, n) != getattr(work, n) for n in same):
        return False
    if not all(switch.fits(work.place(options)) for switch in chosen):
        return False
    packages = versions.keys() & gain.versions.keys()
    differ = [
        name for name in packages if _release(versions[name]) != _release(gain.versions[name])
    ]
    return bool(packages) and not differ


def _release(version: str) -> str:
    """Return a version without the name of its build: 2.13.0 for 2.13.0+cpu."""
    return version.partition("+")[0]


def _nearest(alike: Sequence[Gain], scenario: str, work: Work) -> Sequence[Gain]:
    """Return the gains of the same work and scenario, else those of the same scenario, else all."""
    own = (work.model, work.size, work.batch_size)
    of_scenario = [gain for gain in alike if gain.scenario == scenario]
    of_work = [gain for gain in of_scenario if (gain.model, gain.size, gain.batch_size) == own]
    return of_work or of_scenario or alike


@cache
def _versions(sut: str, device: str, python: str | None) -> dict[str, str]:
    """Return the versions of the SUT's packages in the interpreter of --python, else in the lock of
    its environment. Empty if there is no lock for the device.
    """
    spec = SUTS[sut]
    lock = LOCKS / f"{spec.environment}-{device}.txt"
    installed: dict[str, str] = {}
    if python is not None:
        installed = inventory(python)
    elif lock.exists():
        for block in lock_blocks(lock):
            installed[block_name(block)] = block.partition("==")[2].split()[0]
    names = recorded_names(spec.packages, installed)
    return {package: installed[name] for package, name in names.items()}


def is_usable(gain: Gain) -> bool:
    """Return whether the switches of a gain exist, are for its cell, and can be applied together.
    A newer release may have changed them.
    """
    every = tuning.switches()
    if not set(gain.switches) <= every.keys():
        return False
    chosen = [every[name] for name in gain.switches]
    place = tuning.Place(
        sut=gain.sut,
        architecture=gain.architecture,
        device=gain.device,
        scenario=gain.scenario,
    )
    fit = all(switch.fits(place) for switch in chosen)
    return fit and not _conflict(chosen)


def best_of(gains: Sequence[Gain]) -> Gain | None:
    """Return the measurement with the largest gain that is shown to be one. None: none is."""
    shown = [gain for gain in gains if gain.different and gain.ratio and gain.ratio > 1]
    return max(shown, key=lambda gain: gain.ratio or 0.0, default=None)


def known(path: Path) -> tuple[Gain, ...]:
    """Return the gains of a file. Empty if there is no file. Raises UsageError if it cannot be
    read.
    """
    if not path.is_file():
        return ()
    try:
        return reading.from_file(path, reading.gains)
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: {e}: delete it, and measure again with ./run.sh tune") from None


@cache
def this_machine() -> str:
    """Return the kind of this machine in words, as in the gains."""
    return kind_words(machine.describe())
