"""What the jobs of a sweep measured so far. It is read from files in the shared folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats.result import Result
from harness.cluster.jobs import Job
from harness.sweep import journal

Key = tuple[str, int, int]
"""(id of the sweep that a job made, number of the series, repeat)."""


@dataclass(kw_only=True)
class Progress:
    """The results of jobs.

    Attributes:
        out: the folder of run directories.
        repeats: how often each cell is measured.
        seen: path of a result.json → its time of change in ns, when it was read last.
        done: the measurements that have a result.
        series: name of a job → the number of series of its sweep, once it is known.
    """

    out: Path
    repeats: journal.Repeats
    seen: dict[Path, int] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    series: dict[str, int] = field(default_factory=dict)

    def new(self, job: Job) -> list[tuple[str, Result]]:
        """(label of the cell, result) of each measurement since the last call."""
        found = []
        for folder in journal.made_by(self.out, job.name):
            self.series[job.name] = journal.measurable(folder)
            for label, result in journal.measured(folder, self.seen):
                assert result.sweep
                mark = result.sweep
                self.done.add((mark.id, mark.series, mark.repeat))
                found.append((label, result))
        return found

    def is_finished(self, job: Job) -> bool:
        """Return whether all is measured, and no cell would be tried again."""
        ends = [journal.end(folder) for folder in journal.made_by(self.out, job.name)]
        return any(end == journal.End(repeats=self.repeats, failed=False) for end in ends)

    def is_complete(self, job: Job) -> bool:
        """Return whether all is measured. Cells may have failed."""
        ends = [journal.end(folder) for folder in journal.made_by(self.out, job.name)]
        return any(end is not None and end.repeats == self.repeats for end in ends)

    def count(self, jobs: Iterable[Job]) -> int:
        """The number of measurements of all jobs, as far as it is known. Repeats that are added
        later, and a control run before its job began, are not counted.
        """
        series = sum(self.series.get(job.name, len(job.cells)) for job in jobs)
        return self.repeats.least * series


def results(out: Path, jobs: Sequence[Job]) -> list[Result]:
    """The results of all jobs. If a job made several sweeps, because prompts or environment
    variables changed, those of the last one.
    """
    found = []
    for job in jobs:
        folders = journal.made_by(out, job.name)
        for folder in folders[-1:]:
            found += [result for _, result in journal.measured(folder, {})]
    return found
