"""The switches of `--tuned`, which `tuning.toml` lists: documented settings that are not a SUT's
defaults. Standard library only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_suffix(".toml")
_LISTS_OF_FLAGS = ("XLA_FLAGS",)
"""Variables that hold a list of flags. The flags of several switches are joined."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The facts about a cell by which its switches are chosen. `uneven`: its inputs may have
    different lengths.
    """

    sut: str
    architecture: str
    device: str
    scenario: str
    uneven: bool = True


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One switch.

    Attributes:
        suts: the SUTs that it is for; empty: all.
        devices: the devices that it is for; empty: all.
        architectures: the architectures that it is for; empty: all.
        scenarios: the scenarios that it is for; empty: all.
        choice: of switches with the same choice only one is applied; empty: it excludes none.
        variables: environment variables that it sets.
        settings: what it sets in the SUT's own code, by name (`Workload.settings`).
        batch: the factor by which it changes the requested batch size.
        buckets: the number of widths to which batches of inputs of similar lengths are cut; 0:
            batches keep their order and their padding. It is only for inputs of uneven lengths.
        reason: why it may be faster.
        source: where the framework documents it.
    """

    name: str
    reason: str
    source: str
    suts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    choice: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    batch: float = 1.0
    buckets: int = 0

    def fits(self, place: Place) -> bool:
        """Return whether the switch is for such a cell."""
        limits = (
            (self.suts, place.sut),
            (self.devices, place.device),
            (self.architectures, place.architecture),
            (self.scenarios, place.scenario),
        )
        fits = all(not allowed or value in allowed for allowed, value in limits)
        return fits and (place.uneven or not self.buckets)


@cache
def switches() -> dict[str, Switch]:
    """Return all switches, by name, in the order of the file."""
    document = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    found = {}
    for table in document["switch"]:
        lists = {name: tuple(table[name]) for name in table if isinstance(table[name], list)}
        found[table["name"]] = Switch(**table | lists)
    return found


def candidates(place: Place) -> list[Switch]:
    """Return the switches for such a cell."""
    return [each for each in switches().values() if each.fits(place)]


def variables(chosen: Iterable[Switch]) -> dict[str, str]:
    """Return the environment variables of these switches.

    Raises ValueError, with one sentence, if two switches give one variable different values.
    """
    return _merged([each.variables for each in chosen])


def settings(chosen: Iterable[Switch]) -> dict[str, str]:
    """Return the settings of these switches. Raises ValueError as `variables` does."""
    return _merged([each.settings for each in chosen])


def found_variables() -> dict[str, str]:
    """Return the variables that any switch sets, as this process has them now."""
    names = {name for each in switches().values() for name in each.variables}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def _merged(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for table in tables:
        for name, value in table.items():
            earlier = merged.get(name, value)
            if name in _LISTS_OF_FLAGS and earlier != value:
                merged[name] = f"{earlier} {value}"
            elif earlier == value:
                merged[name] = value
            else:
                raise ValueError(f"one of them sets {name}={earlier} and another {name}={value}")
    return merged
