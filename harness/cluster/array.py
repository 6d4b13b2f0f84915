"""The cells of a sweep → comparisons → an array of jobs. SUTs that are compared are in one job, so
they run in turns on one node.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import UsageError
from harness.execution.environments import ROOT
from harness.sweep import cells
from harness.sweep.recipe import Recipe, Values

_OF_SUT = ("sut", "sut_option", "stream", "tuned", "replicas")
"""Flags in which rivals may differ."""


def comparisons(grids: Iterable[Values]) -> list[list[Values]]:
    """Group the cells that may be compared. It follows only from their flags, because the defaults
    of a node may differ from those of this machine. So a flag that only some cells have separates
    none: the others may have its value by default.
    """
    each_cell = [values for grid in grids for values in cells.expand(grid)]
    common = sorted(set.intersection(*map(set, each_cell)).difference(_OF_SUT))
    groups: dict[str, list[Values]] = {}
    for values in each_cell:
        cells_of_work = groups.setdefault(json.dumps([values[name] for name in common]), [])
        if values not in cells_of_work:
            cells_of_work.append(values)
    return list(groups.values())


def part(recipe: Recipe, name: str) -> Recipe:
    """The comparison that a job measures. `name`: that of the array, a dot, and the number of the
    job. Raises UsageError.
    """
    groups = comparisons(recipe.grids)
    number = re.fullmatch(r"[\w.-]+\.(\d+)", name)
    if not number or not 1 <= int(number[1]) <= len(groups):
        raise UsageError(f"--part {name}: give a name, a dot and a number from 1 to {len(groups)}")
    return replace(recipe, name=name, grids=tuple(groups[int(number[1]) - 1]))


@dataclass(frozen=True, kw_only=True)
class Array:
    """An array of jobs, which have the numbers of the comparisons, from 1.

    Attributes:
        sweep: the sweep's folder.
        comparisons: the cells of each comparison.
        command: the words of the plain command after `run.sh`.
        options: options of sbatch → values.
    """

    sweep: Path
    comparisons: Sequence[Sequence[Values]]
    command: Sequence[str]
    options: Mapping[str, str]

    @property
    def numbers(self) -> range:
        """The numbers of all jobs."""
        return range(1, len(self.comparisons) + 1)

    @property
    def folder(self) -> Path:
        """The folder of the script and of the logs, which the nodes must see."""
        return self.sweep / "jobs"

    @property
    def script(self) -> Path:
        """The file with the script."""
        return self.folder / "array.sh"

    @property
    def job_name(self) -> str:
        """The name of the jobs, by which they are found. Sweeps of the same cells in two folders
        have one name, and jobs of their own.
        """
        return f"{self.sweep.name}-{hashlib.sha256(bytes(self.sweep.resolve())).hexdigest()[:8]}"

    def name(self, number: int) -> str:
        """The name of the sweep that a job makes."""
        return f"{self.sweep.name}.{number}"

    def log(self, number: int) -> Path:
        """The file with the output of a job."""
        return self.folder / f"{number}.log"

    def label(self, number: int) -> str:
        """The work of a job in a few words, and the SUTs."""
        each_cell = self.comparisons[number - 1]
        work = " ".join(
            f"{name} {','.join(values)}"
            for name, values in each_cell[0].items()
            if name != "sut" and all(cell.get(name) == values for cell in each_cell)
        )
        suts = dict.fromkeys(sut for cell in each_cell for sut in cell["sut"])
        return f"{work} ({', '.join(suts)})"

    def text(self, numbers: Iterable[int]) -> str:
        """The script of these jobs: for sbatch, or for any shell, with a number as its argument."""
        options = {
            "job-name": self.job_name,
            "array": ",".join(map(str, numbers)),
            "nodes": "1",
            "output": "/dev/null",
            "mem": "0",  # an exclusive node comes with all processors, but with little memory
            **self.options,
        }
        part = f"--part {self.sweep.name}.$job"
        lines = [
            "#!/bin/bash",
            "#SBATCH --exclusive",
            *(f"#SBATCH --{name}={shlex.quote(value)}" for name, value in options.items()),
            "job=${1:-$SLURM_ARRAY_TASK_ID}",
            f"exec >>{shlex.quote(str(self.folder))}/$job.log 2>&1 || exit",
            'echo "node $(hostname)"',
            f"cd {shlex.quote(str(Path.cwd()))} || exit",  # flags may have paths relative to it
            f"exec {shlex.join([str(ROOT / 'run.sh'), *self.command])} {part}",
        ]
        return "\n".join(lines) + "\n"

    def write(self, numbers: Iterable[int]) -> None:
        """Write the script of these jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.script.write_text(self.text(numbers), encoding="utf-8")
