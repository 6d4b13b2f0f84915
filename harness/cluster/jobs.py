"""The cells of a sweep → comparisons → jobs. SUTs that are compared are in one job, so they run in
turns on one node.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from harness.execution.environments import ROOT

Words = tuple[str, ...]
"""The flags of a cell and their values, in turns."""

FOLDER = "jobs"
_OF_SUT = ("--sut", "--sut-option", "--stream", "--tuned", "--replicas")
"""Flags in which rivals may differ."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One comparison of a sweep.

    Attributes:
        name: the name of the job and of its recipe: the sweep's id, a dot, and the number of the
            comparison, from 1.
        cells: the flags of each cell.
        folder: the folder of the recipe and of the log, which the nodes must see.
        place: the folder in which the user's command began. Paths in flags may be relative to it.
        flags: the flags of the plain command that are the same for all cells.
    """

    name: str
    cells: Sequence[Words]
    folder: Path
    place: Path
    flags: Sequence[str]

    @property
    def recipe(self) -> Path:
        """The file with the cells."""
        return self.folder / f"{self.name}.toml"

    @property
    def log(self) -> Path:
        """The file with the output of the plain command."""
        return self.folder / f"{self.name}.log"

    @property
    def command(self) -> list[str]:
        """The plain command."""
        return [str(ROOT / "run.sh"), "sweep", str(self.recipe), *self.flags]

    @property
    def needed(self) -> list[Path]:
        """The paths that a node must see."""
        return [self.log, self.recipe, self.place, ROOT / "run.sh"]

    @property
    def label(self) -> str:
        """The work in a few words, and the SUTs."""
        first, *others = (_pairs(words) for words in self.cells)
        common = [pair for pair in first if all(pair in other for other in others)]
        suts = [value for words in self.cells for flag, value in _pairs(words) if flag == "--sut"]
        work = " ".join(f"{flag[2:]} {value}" for flag, value in common if flag != "--sut")
        return f"{work} ({', '.join(dict.fromkeys(suts))})"

    def write(self, command: str) -> None:
        """Write the recipe, and create the log. An earlier log stays, because a job may use it.

        `command`: the user's command, for a reader of the recipe.
        """
        lines = [f"summary = {_quoted(command)}"]
        for words in self.cells:
            lines.append("\n[[cells]]")
            values: dict[str, list[str]] = {}
            for flag, value in _pairs(words):
                values.setdefault(flag[2:], []).append(value)
            for name, of_one in values.items():
                lines.append(f"{name} = [{', '.join(map(_quoted, of_one))}]")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recipe.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.log.touch()


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a job.

    Attributes:
        id: the cluster's number or name of it.
        live: whether it waits or runs.
        words: the state in the cluster's own words, with its reason.
        node: the name of its node; empty if it did not begin.
        queued: whether it only waits for its turn.
        exited: whether its command ended, and nothing else ended it.
    """

    id: str
    live: bool
    words: str
    node: str = ""
    queued: bool = False
    exited: bool = False


class Cluster(Protocol):
    """A scheduler of jobs. Each job gets a whole node."""

    def text(self, job: Job) -> str:
        """What is submitted for a job, such as a script. Nothing is submitted."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit jobs. Raises EnvironmentFailure with the scheduler's own words."""

    def states(self, jobs: Sequence[Job]) -> Mapping[str, State] | None:
        """Name of a job → the state of the last job of this name. Jobs that the scheduler does not
        know are left out. None: it does not answer now.
        """

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel those of the jobs that wait or run."""


def of(cells: Iterable[Words], folder: Path, flags: Sequence[str]) -> list[Job]:
    """Return a job for each comparison.

    Args:
        folder: the sweep's folder, whose name is its id.
        flags: see `Job`.
    """
    return [
        Job(
            name=f"{folder.name}.{number}",
            cells=together,
            folder=folder / FOLDER,
            place=Path.cwd(),
            flags=flags,
        )
        for number, together in enumerate(comparisons(cells), 1)
    ]


def comparisons(cells: Iterable[Words]) -> list[list[Words]]:
    """Group cells that may be compared. It follows only from their flags, because the defaults of a
    node may differ from those of this machine.
    """
    places = {words: place for place, words in enumerate(cells)}
    groups: list[list[Words]] = []
    for words in places:
        near = [group for group in groups if any(_may_compare(words, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*chain(*near), words])
    ordered = [sorted(group, key=places.__getitem__) for group in groups]
    return sorted(ordered, key=lambda group: places[group[0]])


def script_line(words: Iterable[object]) -> str:
    """Words as a line of a shell script."""
    return shlex.join(map(str, words))


def _may_compare(a: Words, b: Words) -> bool:
    """Return whether no flag has two values in the cells. A flag that one of them lacks may have
    the other's value by default.
    """
    of_a, of_b = _work(a), _work(b)
    return all(of_b.get(flag, values) == values for flag, values in of_a.items())


def _work(words: Words) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for flag, value in _pairs(words):
        if flag not in _OF_SUT:
            values.setdefault(flag, []).append(value)
    return values


def _pairs(words: Words) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def _quoted(text: str) -> str:
    """The text as a string of TOML."""
    return json.dumps(text, ensure_ascii=False)
