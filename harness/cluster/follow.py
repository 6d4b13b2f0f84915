"""Submit the jobs of a sweep, and follow them until they end. What they measured is read from run
directories in the shared folder.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from formats.result import Result
from harness import locks
from harness.cluster.array import Array
from harness.cluster.schedulers import Ray, Slurm
from harness.errors import EnvironmentFailure
from harness.sweep import journal, loop
from harness.terminal import Terminal

POLL_S = 4.0
"""Seconds between two questions to the scheduler. An end counts when it is seen twice, because a
job that is preempted may begin again.
"""


@dataclass(kw_only=True)
class Follower:
    """The jobs of a sweep, and the means to follow them.

    Attributes:
        out: the folder of run directories.
        repeats: how often each cell is measured.
        states: number of a job → its last known state in the cluster's words.
        seen: path of a result.json → its time of change in ns, when it was read last.
    """

    array: Array
    cluster: Slurm | Ray
    out: Path
    repeats: int
    reporter: Terminal
    states: dict[int, str] = field(default_factory=dict)
    seen: dict[Path, int] = field(default_factory=dict)

    def run(self) -> None:
        """Submit the comparisons that are not finished, and return when all jobs ended.

        Jobs that an earlier command submitted are followed, too. After Ctrl-C, all jobs of the
        sweep are cancelled.

        Raises EnvironmentFailure if another command follows this sweep, or if the scheduler refuses
        the jobs.
        """
        sweep = self.array.sweep
        sweep.mkdir(parents=True, exist_ok=True)
        try:
            with locks.held(sweep / ".lock"):
                self._run()
        except locks.Taken:
            raise EnvironmentFailure(
                f"another command follows the sweep {sweep}: wait for it, or end it"
            ) from None

    def _run(self) -> None:
        array = self.array
        for number in array.numbers:  # so that only new results are printed
            list(self._new(number))
        live = self._look()
        others = [number for number in array.numbers if number not in live]
        missing = [number for number in others if not self._is_finished(number)]
        try:
            if missing:
                array.write(missing)
                for number in missing:
                    array.log(number).write_text("", encoding="utf-8")
                self.cluster.submit(array, missing)
            quiet = 0 if live or missing else 2
            while quiet < 2:
                time.sleep(POLL_S)
                quiet = 0 if self._look() else quiet + 1
                for number in array.numbers:
                    for label, result in self._new(number):
                        assert result.sweep
                        words = f"{label}, repeat {result.sweep.repeat}: {loop.in_words(result)}"
                        self.reporter.say(f"comparison {number}: {words}")
        except KeyboardInterrupt:
            self.cluster.cancel(array)
            raise

    def _look(self) -> set[int]:
        """Print new states. Wait while the scheduler does not answer. → the numbers of jobs that
        wait or run.
        """
        jobs = self.cluster.jobs(self.array)
        if jobs is None:
            self.reporter.warn("the scheduler does not answer; jobs go on, and this command waits")
        while jobs is None:
            time.sleep(POLL_S)
            jobs = self.cluster.jobs(self.array)
        for number, state in jobs.states.items():
            if state not in ("", self.states.get(number)):
                self.reporter.say(f"comparison {number}: {state}")
            self.states[number] = state
        return jobs.live

    def _made(self, number: int) -> list[Path]:
        """The sweeps that the job made. It makes another one if prompts or environment variables
        changed.
        """
        return journal.made_by(self.out, self.array.name(number))

    def _new(self, number: int) -> Iterator[tuple[str, Result]]:
        """(label of the cell, result) of each measurement since the last call."""
        for folder in self._made(number):
            yield from journal.measured(folder, self.seen)

    def _is_finished(self, number: int) -> bool:
        """Return whether nothing is left to measure, and no cell would be tried again."""
        end = journal.End(repeats=self.repeats, failed=False)
        return end in map(journal.end, self._made(number))

    def results(self) -> list[Result]:
        """The results of all jobs, of the last sweep of each."""
        folders = [folder for n in self.array.numbers for folder in self._made(n)[-1:]]
        return [result for folder in folders for _, result in journal.measured(folder, {})]

    def fault(self, number: int) -> str:
        """Why a comparison is not complete, in a sentence. Empty: it is."""
        if self._is_finished(number):
            return ""
        state = self.states.get(number) or "it did not begin"
        log = self.array.log(number)
        # The file is opened, because NFS may report an old size otherwise.
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if last:
            return f"{state}; the same command continues; its last line: {last} ({log})"
        return (
            f"{state}; it wrote nothing to {log}: if it began, its node does not see this folder,"
            " because --out, --cache and this checkout must be in folders that all nodes share"
        )
