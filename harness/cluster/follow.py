"""Submit the jobs of a sweep, and follow them until they end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats.result import Result, Status
from harness import locks
from harness.cluster.jobs import Cluster, Job, State
from harness.cluster.progress import Progress
from harness.errors import EnvironmentFailure
from harness.summary import speed
from harness.sweep.loop import disturbed
from harness.terminal import Terminal

POLL_S = 4.0
"""Seconds between two questions to the scheduler. An end counts when it is seen twice, because a
job that is preempted may begin again.
"""


@dataclass(kw_only=True)
class Followed:
    """A job while it is followed.

    Attributes:
        state: its last known state; None: it is unknown to the scheduler.
        ends: how often its end was seen.
        outcome: how it ended, in a sentence; empty: it did not end yet.
        complete: whether all of its measurements have a result.
    """

    job: Job
    state: State | None = None
    ends: int = 0
    outcome: str = ""
    complete: bool = False

    @property
    def node(self) -> str:
        """The name of its node, as far as it is known."""
        return self.state.node if self.state else ""


@dataclass(kw_only=True)
class Follower:
    """The jobs of a sweep, and the means to follow them.

    Attributes:
        command: the user's command.
        folder: the sweep's folder.
    """

    jobs: Sequence[Job]
    cluster: Cluster
    progress: Progress
    reporter: Terminal
    command: str
    folder: Path
    followed: list[Followed] = field(default_factory=list)
    silent: bool = False

    def run(self) -> list[Followed]:
        """Submit the comparisons that are not finished, and return when all jobs ended.

        Jobs that an earlier command submitted are followed, too. After Ctrl-C, all jobs of the
        sweep are cancelled.

        Raises EnvironmentFailure if another command follows this sweep, or if the scheduler refuses
        a job.
        """
        try:
            with locks.held(self.folder / ".lock"):
                return self._run()
        except locks.Taken:
            raise EnvironmentFailure(
                f"another command follows the sweep {self.folder}: wait for it, or end it"
            ) from None

    def _run(self) -> list[Followed]:
        self._read_earlier()
        states = self._states(self.jobs)
        missing = []
        for job in self.jobs:
            one = Followed(job=job, state=states.get(job.name))
            self.followed.append(one)
            if one.state and one.state.live:
                self._say_found(one)
            elif self.progress.is_finished(job):
                one.complete = True
                one.outcome = "finished by an earlier command"
            else:
                one.state = None
                missing.append(one)
        try:
            self._submit(missing)
            while self._left():
                time.sleep(POLL_S)
                self._look()
        except KeyboardInterrupt:
            self.cluster.cancel([one.job for one in self._left()])
            raise
        return self.followed

    def _left(self) -> list[Followed]:
        return [one for one in self.followed if not one.outcome]

    def _submit(self, missing: Sequence[Followed]) -> None:
        for one in missing:
            one.job.write(self.command)
            one.job.log.write_text("", encoding="utf-8")
        self.cluster.submit([one.job for one in missing])
        for one in missing:
            number = self._number(one)
            self.reporter.say(f"comparison {number} is submitted: {one.job.label}")

    def _states(self, jobs: Sequence[Job]) -> dict[str, State]:
        """The states of jobs. Wait while the scheduler does not answer."""
        states = self.cluster.states(jobs)
        while states is None:
            if not self.silent:
                self.reporter.warn(
                    "the scheduler does not answer; jobs go on, and this command waits"
                )
            self.silent = True
            time.sleep(POLL_S)
            states = self.cluster.states(jobs)
        self.silent = False
        return dict(states)

    def _read_earlier(self) -> None:
        """Read the results of earlier commands, so that only new ones are printed."""
        for job in self.jobs:
            self.progress.new(job)

    def _look(self) -> None:
        """Print what is new, and note jobs that ended."""
        left = self._left()
        states = self._states([one.job for one in left])
        for one in left:
            state = states.get(one.job.name)
            if state and (one.state is None or one.state.words != state.words):
                one.state = state
                if not state.queued:
                    self._say_state(one)
            is_live = state is not None and state.live
            one.ends = 0 if is_live else one.ends + 1
            if state is None or not state.queued:
                self._say_results(one)
            if one.ends > 1:
                one.complete = self.progress.is_complete(one.job)
                one.outcome = outcome(one)
                if not one.complete:
                    number = self._number(one)
                    text = f"comparison {number} is not complete: {one.outcome}"
                    self.reporter.warn(text)

    def _say_results(self, one: Followed) -> None:
        for label, result in self.progress.new(one.job):
            assert result.sweep
            self.reporter.say(
                f"[{len(self.progress.done)}/{self.progress.count(self.jobs)}] {label}, repeat"
                f" {result.sweep.repeat}, node {one.node}: {_measured(result)}"
            )

    def _say_found(self, one: Followed) -> None:
        assert one.state
        self.reporter.say(
            f"comparison {self._number(one)} is job {one.state.id} of an earlier command:"
            f" {one.state.words}{_where(one)}"
        )

    def _say_state(self, one: Followed) -> None:
        assert one.state
        self.reporter.say(
            f"comparison {self._number(one)}, job {one.state.id}: {one.state.words}{_where(one)}"
        )

    def _number(self, one: Followed) -> int:
        return self.jobs.index(one.job) + 1


def _where(one: Followed) -> str:
    return f" on {one.node}" if one.node else ""


def outcome(one: Followed) -> str:
    """How a job ended, in a sentence."""
    if one.complete:
        return "complete"
    words = one.state.words if one.state else "the scheduler does not list the job any more"
    node = one.node or "its node"
    if one.state is None or not one.state.exited:
        return f"{words} on {node}; the same command continues"
    last = _last_line(one.job.log)
    if not last:
        return (
            f"the job wrote nothing to its log, so {node} does not see {one.job.folder}:"
            " --out, --cache and this checkout must be in folders that all nodes share"
            f" ({words})"
        )
    return f"{words} on {node}; its last line: {last} ({one.job.log})"


def _last_line(log: Path) -> str:
    """The last line of a log. Empty if the job wrote nothing. The file is opened, because NFS may
    report an old size otherwise.
    """
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _measured(result: Result) -> str:
    if result.status is not Status.OK or not result.metric:
        return f"{result.status}: {result.reason}"
    why = disturbed(result)
    end = f"; disturbed: {why}" if why else ""
    return f"{result.status}: {speed(result)}{end}"
