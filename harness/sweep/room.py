"""The cells for which the time of a sweep had no room, and the time that has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from formats.outcome import CUT_OFF, NOT_PREPARED, PUT_OFF
from formats.result import Result, Status
from harness.report.comparison import listed
from harness.sweep.deadline import LONGEST_CELL
from harness.sweep.loop import Sweep
from harness.sweep.schedule import Results
from harness.terminal import duration
from results.figure import short

_LONGER = 2
"""A run that was cut off is expected to take at most this many times as long."""
_MARGIN = 1.25


@dataclass(frozen=True)
class Missing:
    """A cell without a result, because the time was up.

    Attributes:
        seconds: how long a run takes, estimated; if it was cut off, how long it ran.
    """

    sut: str
    scenario: str
    seconds: float
    cut_off: bool


def missing(sweep: Sweep, results: Results) -> list[Missing]:
    """The cells of a sweep that were cut off, or that did not begin."""
    found = []
    for series in sweep.series:
        request = series.request
        if request is None or series.obstacle or series.control:
            continue
        of_cell = [result for (number, _), result in results.items() if number == series.number]
        sut, scenario = request.options.sut, request.options.scenario
        cut_off_s = max(map(_cut_off_s, of_cell), default=0.0)
        if all(NOT_PREPARED in result.refused for result in of_cell):
            seconds = _estimate(sweep, series.number, sut, results)
            found.append(Missing(sut, scenario, seconds, cut_off=False))
        elif cut_off_s and not any(result.status is Status.OK for result in of_cell):
            found.append(Missing(sut, scenario, cut_off_s, cut_off=True))
    return found


def minutes(cells: Iterable[Missing]) -> int:
    """The minutes in which these cells can be measured."""
    needed = [cell.seconds * (_LONGER if cell.cut_off else 1) for cell in cells]
    seconds = max(_MARGIN * sum(needed), max(needed) / LONGEST_CELL)
    return math.ceil(seconds / 60)


def sentences(cells: Sequence[Missing]) -> Iterator[str]:
    """Yield a sentence for each scenario and reason, with the SUTs and how long a run takes."""
    grouped: dict[tuple[str, bool], list[str]] = {}
    for cell in cells:
        seconds = duration(cell.seconds)
        text = f"{cell.sut} (about {seconds})"
        if cell.cut_off:
            text = f"{cell.sut} (more than {seconds})"
        grouped.setdefault((cell.scenario, cell.cut_off), []).append(text)
    for (scenario, cut_off), texts in grouped.items():
        suts = listed(list(dict.fromkeys(texts)))
        if cut_off:
            yield f"no figure in {scenario}, because the time was too short for a run of {suts}"
        else:
            yield f"no figure in {scenario}, because the time was up before the turn of {suts}"


def put_off(results: Results) -> Iterator[str]:
    """Yield a sentence for each scenario in which SUTs were put off and not measured later."""
    grouped: dict[str, list[str]] = {}
    good = {number for (number, _), result in results.items() if result.status is Status.OK}
    for (number, _), result in results.items():
        rate = result.refused.get(PUT_OFF)
        if rate and number not in good:
            text = f"{result.cell.sut} ({short(rate)} samples/s)"
            grouped.setdefault(result.cell.scenario, []).append(text)
    for scenario, suts in grouped.items():
        yield (
            f"no figure in {scenario}, because calibrations were less than half as fast as the"
            f" fastest SUT: {listed(suts)}"
        )


def _cut_off_s(result: Result) -> float:
    return result.refused.get(CUT_OFF, 0.0)


def _estimate(sweep: Sweep, number: int, sut: str, results: Results) -> float:
    """The seconds of a run that did not begin: those of the SUT's other cells, or its estimate,
    scaled by the cells that were measured.
    """
    cut_off = [_cut_off_s(result) for result in results.values() if result.cell.sut == sut]
    if any(cut_off):
        return max(cut_off)
    measured = {n: r for (n, _), r in results.items() if "total" in r.seconds and n in sweep.costs}
    of_sut = [r.seconds["total"] for r in measured.values() if r.cell.sut == sut]
    if of_sut:
        return max(of_sut)
    cost = sweep.costs.get(number)
    if cost is None:
        return 0.0
    spent_s = sum(result.seconds["total"] for result in measured.values())
    estimated_s = sum(sweep.costs[n].all_seconds for n in measured)
    return cost.all_seconds * (spent_s / estimated_s if estimated_s else 1.0)
