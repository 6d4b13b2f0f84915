"""`--tuned` → the switches of a cell (`sut/tuning.toml`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from harness.errors import UsageError
from harness.request.options import OFF, Options
from sut import tuning
from sut.registry import SUTS


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The switches of a cell. Most cells have none.

    Attributes:
        variables: the environment variables that they set.
        settings: what they set in the SUT's code.
    """

    switches: tuple[tuning.Switch, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

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


def of(options: Options, place: tuning.Place) -> Tuned:
    """Return the switches that `--tuned` names. Raises UsageError for one that is not for this
    place, for two that exclude each other, and for an environment variable of the user that a
    switch would replace.
    """
    tuned = options.tuned
    if tuned == OFF:
        return Tuned()
    flag = f"--tuned {tuned}"
    if options.trains or SUTS[options.sut].remote:
        what = f"--sut {options.sut}" if SUTS[options.sut].remote else options.scenario
        raise UsageError(f"{flag}: there are no switches for {what}: leave it out")
    chosen = tuple(tuning.switches()[name] for name in tuned.split("+"))
    _check_place(place, chosen)
    choices = [switch.choice for switch in chosen if switch.choice]
    if len(set(choices)) < len(choices):
        raise UsageError(f"{flag}: two of these exclude each other: take one")
    try:
        variables = tuning.variables(chosen)
        settings = tuning.settings(chosen)
    except ValueError as e:
        raise UsageError(f"{flag}: {e}: take one of the two") from None
    for name in variables:
        if os.environ.get(name):
            raise UsageError(
                f"{flag}: sets {name}, which is set in the environment ({os.environ[name]}): unset"
                " it"
            )
    return Tuned(switches=chosen, variables=variables, settings=settings)


def _check_place(place: tuning.Place, chosen: Sequence[tuning.Switch]) -> None:
    """Raises UsageError for a switch that is not for this place."""
    of_inputs = "" if place.uneven else " with inputs of one length"
    for switch in chosen:
        if not switch.fits(place):
            others = ", ".join(each.name for each in tuning.candidates(place))
            raise UsageError(
                f"--tuned {switch.name}: is not for {place.sut} with {place.architecture} on"
                f" {place.device} in {place.scenario}{of_inputs}; there is {others or 'none'}"
            )
