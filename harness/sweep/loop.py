"""Measure the rest of a sweep, one cell at a time, with the code of a single run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from formats.bounds import TooLarge
from formats.outcome import CUT_OFF, NOT_PREPARED, PUT_OFF
from formats.result import Result, Status
from harness import locks
from harness.comparison.runs import read
from harness.errors import EnvironmentFailure, HarnessError
from harness.execution.zygotes import Zygotes
from harness.measurement import run
from harness.request import estimate
from harness.request.estimate import Cost
from harness.request.plan import memory_shortage
from harness.request.request import Request
from harness.sweep import journal, schedule
from harness.sweep.cells import Series
from harness.sweep.deadline import LONGEST_CELL, Deadline, TimeUp
from harness.sweep.schedule import RepeatPlan, Results
from harness.terminal import Terminal, duration, until
from results.summary import speed
from sut.registry import module_of

AGAIN_A_REPEAT = 2
"""The most times that a disturbed repeat is measured again at once."""
FAILED = (Status.INVALID, Status.OOM, Status.ERROR, Status.SKIPPED)
_AGAIN = (Status.ERROR, Status.OOM, Status.SKIPPED)
_FIRST_REPEAT = ("waiting", "checkpoint", "reference", "compile", "calibration")
"""Phases of a measurement that are short or absent in later repeats of the cell."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The cells of a sweep and the limits of its measurement.

    Attributes:
        folder: below --out; its name is the sweep's id.
        costs: number of a series → the cost of one measurement, if there is enough memory for it.
        shortages: number of a series → why memory is too short for it.
        most_again: the most times that disturbed repeats are measured again in the whole sweep.
        deadline: the end of --for. None: the sweep ends when all is measured.
        lengthens: whether a test that is longer than planned gets the time of a cell. Otherwise its
            cell is skipped.
        forks: whether repeats share the import of a framework. Forks have the layout of memory in
            common, so their figures say more than they should about two builds of a package.
    """

    folder: Path
    series: Sequence[Series]
    repeats: RepeatPlan
    costs: Mapping[int, Cost]
    shortages: Mapping[int, str] = field(default_factory=dict)
    most_again: int = 0
    deadline: Deadline | None = None
    lengthens: bool = False
    forks: bool = True

    @classmethod
    def of(
        cls,
        folder: Path,
        series: Sequence[Series],
        repeats: RepeatPlan,
        deadline: Deadline | None,
    ) -> Sweep:
        """Return the sweep of these cells with their costs. Reads files below --out and --cache,
        and writes none.
        """
        requests = {s.number: s.request for s in series if s.request and not s.obstacle}
        costs = {}
        shortages = {}
        for number, request in requests.items():
            shortage = memory_shortage(request, request.precision)
            if shortage:
                shortages[number] = shortage
            else:
                costs[number] = estimate.of(request)
        most_again = max(AGAIN_A_REPEAT, repeats.least * len(requests) // 2)
        return cls(
            folder=folder,
            series=series,
            repeats=repeats,
            costs=costs,
            shortages=shortages,
            most_again=0 if deadline else most_again,
            deadline=deadline,
        )


@dataclass
class _Known:
    """The state of a sweep while it measures.

    Attributes:
        results: (number of a series, repeat) → the last result.
        attempts: how many times each repeat was measured.
        zygotes: fork the workers.
        next_s: number of a measured series → the seconds that its next repeat will take.
    """

    results: dict[tuple[int, int], Result]
    attempts: Counter[tuple[int, int]]
    zygotes: Zygotes
    next_s: dict[int, float] = field(default_factory=dict)

    def seconds_left(self, sweep: Sweep) -> float:
        """Estimate the seconds of all repeats that are left. The costs of cells that were not
        measured yet are estimates, which are scaled by those of the measured ones.
        """
        known = self.next_s
        estimated_s = sum(sweep.costs[number].seconds for number in known if number in sweep.costs)
        scale = sum(known.values()) / estimated_s if estimated_s else 1.0
        left = schedule.steps(sweep.series, self.results, sweep.repeats)
        costs = {number: scale * cost.seconds for number, cost in sweep.costs.items()}
        return sum((costs | known).get(series.number, 0.0) for series, _ in left)

    def has_time(self, sweep: Sweep, number: int) -> bool:
        """Return whether the next measurement of a series may begin: it is expected to end in time.
        If nothing is expected of it yet, the time must not be up.
        """
        deadline = sweep.deadline
        if deadline is None:
            return True
        if number not in self.next_s:
            return not deadline.over
        return self.next_s[number] < deadline.left_s

    def disturbed_again(self, sweep: Sweep, key: tuple[int, int]) -> bool:
        """Return whether a repeat was disturbed and may be measured again."""
        spent = sum(n - 1 for n in self.attempts.values() if n > 1)
        allowed = self.attempts[key] <= AGAIN_A_REPEAT and spent < sweep.most_again
        return allowed and bool(disturbed(self.results[key]))


def measure(sweep: Sweep, reporter: Terminal, fail_fast: bool) -> Results:
    """Return the results of all measurements, including those of earlier commands.

    Measurements that failed in earlier commands, and cells that are often cut off, are tried at the
    end. So are, in a decisive sweep, those that were put off because their calibration was far
    slower than the fastest SUT.

    Raises EnvironmentFailure if another process measures this sweep.
    """
    try:
        with locks.held(sweep.folder / ".lock"):
            with Zygotes(reporter.say) as zygotes:
                results = _measure(sweep, reporter, fail_fast, zygotes)
            is_left = schedule.steps(sweep.series, results, sweep.repeats)
            failed = any(result.status in _AGAIN for result in results.values())
            end = journal.End(repeats=sweep.repeats.least, failed=failed)
            journal.note_end(sweep.folder, None if is_left else end)
            return results
    except locks.Taken:
        raise EnvironmentFailure(
            f"another process measures the sweep {sweep.folder}: wait for it, or start a new sweep"
            " with --again"
        ) from None


def _measure(sweep: Sweep, reporter: Terminal, fail_fast: bool, zygotes: Zygotes) -> Results:
    journal.forget_not_measured(sweep.folder)
    finished = journal.finished(sweep.folder.name, sweep.series)
    attempts = Counter(key for key, _ in finished)
    known = _Known(results=dict(finished), attempts=attempts, zygotes=zygotes)
    results = known.results
    earlier = dict(results)
    failed = [key for key, result in results.items() if result.status in _AGAIN]
    noisy = [key for key in results if known.disturbed_again(sweep, key)]
    often_cut = journal.often_cut_off(sweep.folder)
    first = [one for one in sweep.series if one.number not in often_cut]

    def phases() -> Iterator[tuple[list[tuple[int, int]], Sequence[Series]]]:
        yield noisy, first
        yield failed, sweep.series
        put_off = [key for key, result in results.items() if PUT_OFF in result.refused]
        yield put_off, sweep.series

    is_late = False
    for again, series in phases():
        for key in again:
            earlier[key] = results.pop(key)
        while step := schedule.next_step(series, results, sweep.repeats):
            if not known.has_time(sweep, step[0].number):
                is_late = True
                break
            result = _repeat(sweep, *step, known, reporter)
            if fail_fast and result.status in FAILED:
                reporter.say("--fail-fast: the sweep ends here; the same command continues")
                return earlier | results
    if is_late:
        reporter.say("the time is up; the same command continues")
    return earlier | results


def _repeat(sweep: Sweep, series: Series, repeat: int, known: _Known, reporter: Terminal) -> Result:
    """Measure one repeat of a cell, and again if it was disturbed."""
    key = (series.number, repeat)
    while True:
        result = _one(sweep, series, repeat, known, reporter)
        if not known.disturbed_again(sweep, key):
            return result
        reporter.say(
            f"    disturbed, so it is measured again ({known.attempts[key]} of {AGAIN_A_REPEAT})"
        )


def _one(sweep: Sweep, series: Series, repeat: int, known: _Known, reporter: Terminal) -> Result:
    """Measure one repeat of a cell once, store its result and report it."""
    assert series.request is not None  # a series without one is never next
    results = known.results
    left = schedule.steps(sweep.series, results, sweep.repeats)
    done = len(results.keys() - {(series.number, repeat)})
    reporter.say(
        f"[{done + 1}/{len(results) + len(left)}] {series.label}, repeat {repeat};"
        f" {_time_left(sweep, known)}"
    )
    request = series.request
    allowed_s = LONGEST_CELL * sweep.deadline.seconds if sweep.lengthens and sweep.deadline else 0.0
    mark = journal.mark(sweep.folder.name, series, repeat)
    request = replace(
        request,
        allowed_s=allowed_s,
        rival_sample_ns=_rival_sample_ns(sweep, series, known),
        options=replace(request.options, sweep=mark),
    )
    requests = [one.request for one, _ in left if one.request and sweep.forks]
    known.zygotes.expect(module_of(r.options.sut, r.model.architecture) for r in requests)
    start_ns = time.monotonic_ns()
    result = _result(sweep, series.number, request, reporter, known.zygotes)
    if not result.directory:
        journal.keep_not_measured(sweep.folder, result)
    spent_s = (time.monotonic_ns() - start_ns) / 1e9
    known.next_s[series.number] = spent_s - _first_repeat_s(result)
    known.attempts[series.number, repeat] += 1
    results[series.number, repeat] = result
    reporter.say(f"    {in_words(result)}")
    return result


def _rival_sample_ns(sweep: Sweep, series: Series, known: _Known) -> float:
    """The nanoseconds of a sample of the fastest SUT so far, if a decisive sweep tries a cell for
    the first time; otherwise 0.
    """
    is_tried = any(number == series.number for number, _ in known.attempts)
    if not sweep.repeats.decisive or is_tried:
        return 0.0
    rivals = {s.number for s in sweep.series if s.comparison == series.comparison}
    of_rivals = [r for (number, _), r in known.results.items() if number in rivals]
    rates = [r.metrics.get("samples_per_second", 0) for r in of_rivals if r.status is Status.OK]
    fastest = max(rates, default=0)
    return 1e9 / fastest if fastest else 0.0


def _result(
    sweep: Sweep, number: int, request: Request, reporter: Terminal, zygotes: Zygotes
) -> Result:
    """Return the result of a measurement. It has no figure if the measurement could not begin or
    was cut off.
    """
    try:
        deadline = sweep.deadline
        if deadline is None:
            return run.run(request, reporter, time.monotonic_ns(), run.NO_LIMIT, zygotes)
        of_cell = deadline.limit(LONGEST_CELL)
        with deadline.limit():
            return run.run(request, reporter, time.monotonic_ns(), of_cell, zygotes)
    except TimeUp as e:
        cause = NOT_PREPARED
        reason = "the time was up before all was prepared; the same command continues with it"
        if e.measuring:
            journal.note_cut_off(sweep.folder, number)
            cause = CUT_OFF
            reason = f"{e}; the same command continues with this cell"
        skipped = run.not_measured(request, Status.SKIPPED, reason)
        return replace(skipped, refused={cause: e.seconds})
    except (HarnessError, TooLarge) as e:
        return run.not_measured(request, Status.ERROR, str(e))


def _time_left(sweep: Sweep, known: _Known) -> str:
    """The time until the deadline, or the expected time of the measurements that are left."""
    if sweep.deadline:
        return f"{duration(sweep.deadline.left_s)} left"
    seconds = known.seconds_left(sweep)
    return f"about {duration(seconds)} left, until {until(seconds)}"


def _first_repeat_s(result: Result) -> float:
    """The seconds of a measurement that only the first repeat of a cell takes."""
    return sum(
        seconds
        for phase, seconds in result.seconds.items()
        if phase in _FIRST_REPEAT or phase.startswith(("environment ", "reference "))
    )


def in_words(result: Result) -> str:
    """The status of a result, with its speed or the reason why it has none."""
    if result.status is not Status.OK or not result.metric:
        return f"{result.status}: {result.reason}"
    text = f"{result.status}: {speed(result)}"
    why = disturbed(result)
    if why:
        text += f"; disturbed: {why}"
    return text


def disturbed(result: Result) -> str:
    """Why a disturbance makes the figure of a run with status ok unfit for ranking.
    Empty if the figure is fit, or if there is none.
    """
    if result.status is not Status.OK or not result.directory:
        return ""
    return "; ".join(read(result).disturbances)
