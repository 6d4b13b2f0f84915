"""The cells for which the time of a sweep had no room, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from formats.outcome import CUT_OFF, NOT_PREPARED, PUT_OFF
from formats.result import Result, Status
from harness.report.comparison import listed
from harness.sweep.loop import Sweep
from harness.sweep.schedule import Results
from harness.terminal import duration
from results.figure import short

_WHY = {
    CUT_OFF: "the time was too short for a run of",
    NOT_PREPARED: "the time was up before the turn of",
    PUT_OFF: "calibrations were less than two thirds as fast as the fastest SUT:",
}
"""Cause of a missing figure → the words before the SUTs."""

Missing = dict[tuple[str, str], list[str]]
"""Scenario and cause → the SUTs without a figure, in words."""


def missing(sweep: Sweep, results: Results) -> Missing:
    """The cells of a sweep that were cut off, that did not begin, or that were put off."""
    found: Missing = {}
    for series in sweep.series:
        request = series.request
        if request is None or series.obstacle or series.control:
            continue
        own = [result for (number, _), result in results.items() if number == series.number]
        if any(result.status is Status.OK for result in own):
            continue
        cause, words = _cause(own)
        if cause:
            suts = found.setdefault((request.options.scenario, cause), [])
            suts.append(f"{request.options.sut}{words}")
    return found


def _cause(own: list[Result]) -> tuple[str, str]:
    """(the cause, the measured number in words) of a cell whose runs have no figure. Two empty
    texts: the time is not the cause.
    """
    refused = {cause: number for result in own for cause, number in result.refused.items()}
    if PUT_OFF in refused:
        return PUT_OFF, f" ({short(refused[PUT_OFF])} samples/s)"
    if CUT_OFF in refused:
        return CUT_OFF, f" (more than {duration(refused[CUT_OFF])})"
    if NOT_PREPARED in refused or not own:
        return NOT_PREPARED, ""
    return "", ""


def sentences(found: Missing) -> Iterator[str]:
    """Yield a sentence for each scenario and cause."""
    for (scenario, cause), suts in found.items():
        yield f"no figure in {scenario}, because {_WHY[cause]} {listed(list(dict.fromkeys(suts)))}"
