"""`--tuned` → the switches of a cell (`sut/tuning.toml`), and the notes that say where they come
from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from formats import reading
from formats.tuning import Gain
from harness.comparison.runs import machine_words
from harness.errors import UsageError
from harness.execution import machine
from harness.execution.environments import ROOT
from harness.messages import PlanReason
from harness.request.options import OFF, ON, Options
from sut import tuning
from sut.registry import SUTS

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


def of(options: Options, architecture: str, precision: str, device: str) -> Tuned:
    """Return the switches that `--tuned` asks for. Raises UsageError for one that is not for this
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
        names, note = _measured_best(options, architecture, precision, device)
        notes = (note,)
    chosen = tuple(tuning.switches()[name] for name in names)
    for switch in chosen:
        if not switch.fits(options.sut, architecture, device):
            others = [each.name for each in tuning.candidates(options.sut, architecture, device)]
            raise UsageError(
                f"--tuned {switch.name}: is not for {options.sut} with {architecture} on {device};"
                f" there is {', '.join(others) or 'none'}"
            )
    choices = [switch.choice for switch in chosen if switch.choice]
    if len(set(choices)) < len(choices):
        raise UsageError(f"--tuned {options.tuned}: two of these exclude each other: take one")
    try:
        variables = tuning.variables(chosen)
        settings = tuning.settings(chosen)
    except ValueError as e:
        raise UsageError(f"--tuned {options.tuned}: {e}: take one of the two") from None
    for name in variables:
        if os.environ.get(name):
            raise UsageError(
                f"--tuned {options.tuned}: sets {name}, which is set in the environment"
                f" ({os.environ[name]}): unset it"
            )
    return Tuned(on=True, switches=chosen, variables=variables, settings=settings, notes=notes)


def _measured_best(
    options: Options, architecture: str, precision: str, device: str
) -> tuple[list[str], str]:
    """Return (names of the switches that gave most in a measurement, a note on it)."""
    own = [gain for gain in known(options.cache / GAINS) if gain.machine == this_machine()]
    for gains in (own, known(_SHIPPED)):
        alike = [
            gain
            for gain in gains
            if (gain.sut, gain.architecture) == (options.sut, architecture)
            and (gain.precision, gain.device) == (precision, device)
        ]
        same = [gain for gain in alike if gain.scenario == options.scenario]
        if not alike:
            continue
        best = best_of(same or alike)
        place = alike[0].machine
        if best is None:
            return [], PlanReason.TUNED_NOTHING.format(sut=options.sut, machine=place)
        note = PlanReason.TUNED.format(
            switches=", ".join(best.switches),
            ratio=best.ratio or 0.0,
            work=f"{best.model} {best.size} {best.scenario}",
            machine=place,
        )
        return list(best.switches), note
    note = PlanReason.TUNED_NOT_MEASURED.format(
        sut=options.sut, architecture=architecture, precision=precision, device=device
    )
    return [], note


def best_of(gains: Sequence[Gain]) -> Gain | None:
    """Return the measurement with the largest gain that is shown to be one. None: none is."""
    shown = [gain for gain in gains if gain.ratio and gain.low and gain.low > 1]
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
    """Return this machine in words, as in the gains."""
    return machine_words(machine.describe())
