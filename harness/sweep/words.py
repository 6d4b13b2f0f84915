"""A sweep in words: what it will measure and its cost, and what it found."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from formats.outcome import TOO_SHORT
from formats.result import Result
from harness import terminal
from harness.comparison import statistics
from harness.errors import UsageError
from harness.measurement import reference
from harness.report import content, exports, sections
from harness.report.content import Content
from harness.request import estimate
from harness.sweep import journal, room, schedule
from harness.sweep.loop import Sweep
from harness.sweep.schedule import Results
from scenarios.worker.preflight import available_memory_bytes

Summary = dict[str, Any]
"""What a sweep will measure and its cost, as `--dry-run --json` prints it."""
_LONG_S = 3600.0


def summary(sweep: Sweep, missing: Mapping[str, str]) -> Summary:
    """Return the measurements of the sweep and their cost. Nothing is written.

    Args:
        missing: see `Recipe`.
    """
    requests = [s.request for s in sweep.series if s.request]
    reasons = [reason for request in requests for reason in request.reasons]
    of_each_benchmark = {request.benchmark: request for request in requests}
    too_short = [] if sweep.lengthens else map(estimate.too_short, requests)
    shortages = filter(None, map(reference.shortage, of_each_benchmark.values()))
    unjudged = [f"{reference.NONE}{shortage}" for shortage in shortages]
    results = dict(journal.finished(sweep.folder.name, sweep.series))
    left = schedule.steps(sweep.series, results, sweep.repeats)
    cost = estimate.together(
        sweep.costs[series.number] for series, _ in left if series.number in sweep.costs
    )
    measurable = [s for s in sweep.series if not s.obstacle]
    obstacles = {s.label: s.obstacle or sweep.shortages.get(s.number) for s in sweep.series}
    return {
        "folder": str(sweep.folder),
        "cells": [s.label for s in measurable if not s.control],
        "control": next((s.label for s in measurable if s.control), None),
        "repeats": sweep.repeats.least,
        "seed": sweep.repeats.seed,
        "most_again": sweep.most_again,
        "for_seconds": sweep.deadline.seconds if sweep.deadline else None,
        "measurements": len(left) + len(results),
        "finished": len(results),
        "left": len(left),
        "seconds": round(cost.all_seconds),
        "basis": cost.basis,
        "disk_bytes": cost.disk_bytes + sum(size for _, size in cost.once.values()),
        "memory_bytes": cost.memory_bytes,
        "to_make": sorted(cost.once),
        "unsupported": {label: why for label, why in obstacles.items() if why},
        "missing": dict(missing),
        "notes": [*dict.fromkeys([*reasons, *filter(None, [*unjudged, *too_short])])],
    }


def announcement(summary: Summary) -> Iterator[str]:
    """The summary in sentences."""
    cells = statistics.plural(len(summary["cells"]), "cell")
    control = summary["control"]
    measurements = statistics.plural(summary["measurements"], "measurement")
    done = f"{summary['finished']} done" if summary["finished"] else "none done yet"
    if control:
        yield (
            f"{cells}, and the control run {control}, which shows this machine's own noise:"
            f" {measurements}, {done}"
        )
    else:
        yield f"{cells}: {measurements}, {done}"
    seconds = summary["seconds"]
    basis = summary["basis"] or "nothing is left to measure"
    duration = terminal.duration(seconds)
    folder = terminal.near(summary["folder"])
    if summary["for_seconds"]:
        limit = terminal.duration(summary["for_seconds"])
        yield (
            f"all of it takes about {duration} ({basis}); it ends after {limit}; cells in the"
            " list's order, each once before any repeat"
        )
    else:
        yield f"about {duration}, until {terminal.until(seconds)} ({basis})"
    if summary["left"] and not summary["for_seconds"]:
        yield (
            f"each round has an order of its own (seed {summary['seed']}); a disturbed repeat"
            f" is measured again at once, at most twice, and at most {summary['most_again']}"
            " times in the whole sweep"
        )
    yield _room(summary)
    if summary["to_make"]:
        yield f"made first: {', '.join(summary['to_make'])}"
    yield from _left_out(summary)
    yield from summary["notes"]
    yield f"the sweep is {folder}; the same command continues after an interruption"


def _room(summary: Summary) -> str:
    """The needed and the free disk and memory."""
    folder = Path(summary["folder"])
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_memory_bytes = available_memory_bytes() or psutil.virtual_memory().available
    free_disk = psutil.disk_usage(str(existing)).free / 1e9
    return (
        f"about {summary['disk_bytes'] / 1e9:.2f} GB on disk, {free_disk:.0f} GB are free;"
        f" about {summary['memory_bytes'] / 1e9:.2f} GB of memory,"
        f" {free_memory_bytes / 1e9:.0f} GB are available"
    )


def _left_out(summary: Summary) -> Iterator[str]:
    """A sentence for each reason why cells, or parts of the recipe's source, are not measured."""
    cells: dict[str, list[str]] = {}
    for cell, reason in summary["unsupported"].items():
        cells.setdefault(reason, []).append(cell)
    for reason, (first, *others) in cells.items():
        if others:
            yield f"not measured: {first} and {len(others)} more: {reason}"
        else:
            yield f"not measured: {first}: {reason}"
    for part, reason in summary["missing"].items():
        yield f"not in this harness: {part}: {reason}"


def show_plan(summary: Summary) -> None:
    """Print the cells and the summary."""
    cells = [[name] for name in (*summary["cells"], summary["control"]) if name]
    terminal.table("Sweep (nothing was made)", ("cell",), cells)
    for line in announcement(summary):
        terminal.line(line)


def show_results(sweep: Sweep, results: Results, out: Path, as_json: bool) -> None:
    """Print the answer in words, and a line for each SUT of each comparison."""
    refused = [{"command": s.command, "reason": s.obstacle} for s in sweep.series if s.obstacle]
    no_room = list(_advice(results))
    if sweep.deadline:
        no_room += room.sentences(room.missing(sweep, results))
    in_order = [result for _, result in sorted(results.items())]
    report = content.of_results(in_order, terminal.near(str(out)))
    report = replace(report, no_room=no_room, not_measured=obstacles(sweep))
    show_report(report, in_order, {"refused": refused}, as_json)


def show_report(
    report: Content, results: Sequence[Result], more: Mapping[str, Any], as_json: bool
) -> None:
    """Print the report of these results, and the command that makes its page.

    `more`: what the JSON document has besides.
    """
    sentences = sections.sentences(sections.of(report))
    if as_json:
        cells = [terminal.result_as_json(result) for result in results]
        answer = [report.headline, *sentences]
        terminal.document({"preface": report.preface, "answer": answer, "cells": cells, **more})
        return
    exports.show(report, sentences, report.obstacles)
    hint = f"./run.sh report {shlex.quote(report.source)} --html report.html"
    terminal.line(f"\nnext  {terminal.typed_here(hint)}")


def obstacles(sweep: Sweep) -> dict[str, list[str]]:
    """Reason why cells cannot be measured → their labels."""
    found: dict[str, list[str]] = {}
    for series in sweep.series:
        if series.obstacle:
            found.setdefault(series.obstacle, []).append(series.label)
    return found


def _advice(results: Results) -> Iterator[str]:
    """Advice on flags with which the sweep would measure more."""
    durations = [r.refused[TOO_SHORT] for r in results.values() if TOO_SHORT in r.refused]
    if durations:
        cells = statistics.plural(len(durations), "cell")
        yield (
            f"{cells} skipped, because their tests take longer: a sweep with --duration"
            f" {max(durations):g} measures all"
        )


def confirm(seconds: float, yes: bool) -> None:
    """Ask on a terminal whether a plan of more than an hour is wanted.

    Raises UsageError if it is not, and without a terminal if `--yes` is not given.
    """
    if yes or seconds <= _LONG_S:
        return
    question = f"this takes about {terminal.duration(seconds)}: go on? [y/N] "
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(
            f"this takes about {terminal.duration(seconds)}: give --yes if you want that;"
            " --dry-run shows the plan, and fewer cells, a smaller --size or --duration, or"
            " --for TIME make it shorter"
        )
    terminal.ask(question)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was measured")
