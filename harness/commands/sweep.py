"""`./run.sh sweep` measures many cells in turns, each several times. After an interruption the same
command continues.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.messages import Next, SweepEnd, SweepPlan
from harness.request import options
from harness.request.flags import Parser, add_output

if TYPE_CHECKING:
    from harness.sweep.cells import Series
    from harness.sweep.deadline import Deadline
    from harness.sweep.loop import Sweep
    from harness.sweep.recipe import Recipe
    from harness.sweep.schedule import RepeatPlan, Results

_LISTS = ", ".join(options.flag(name) for name in options.LISTS)
_EPILOG = textwrap.fill(
    f"{_LISTS} take lists: A,B. `all` stands for every SUT (but the mock), every scenario, or"
    " every model that is in no group. The name of a group, such as hf-2019, stands for its"
    " models. A flag after a recipe replaces the recipe's value.",
    width=100,
)
_REPEATS, _MOST = 3, 10
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|min|h)")
# The end of a message of `scenarios.worker.preflight`.
_TOO_SHORT = re.compile(r"give --duration ([\d.]+)$")


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    from dataclasses import replace

    from harness import terminal
    from harness.execution import interpreter, rundir
    from harness.sweep import cells, journal, loop

    deadline = _deadline(flags.time) if flags.time else None
    if flags.python:
        interpreter.inventory(flags.python)  # one error instead of one for each SUT
    values = _values(flags)
    chosen = _recipe(flags.recipe, values)
    repeats = _repeats(flags)
    series = cells.make(chosen.grids, values, control=repeats.least > 1)
    out = next(s.request.options.out for s in series if s.request)
    folder = journal.folder(out, chosen.name, series, flags.again)
    repeats = replace(repeats, seed=journal.seed(folder), as_listed=deadline is not None)
    sweep, shortages = _sweep(folder, series, repeats, deadline)
    summary = _summary(sweep, chosen, shortages)
    if flags.dry_run:
        terminal.document(summary) if flags.json else _show_plan(summary)
        return 0
    reporter = terminal.Terminal(flags.quiet)
    for line in _announcement(summary):
        reporter.say(line)
    rundir.check_writable("--out", out)
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["./run.sh", "sweep", *arguments])
    journal.write_plan(folder, command, series, chosen.missing)
    if deadline:
        sweep = replace(sweep, after_each=_page(sweep, command, reporter.say))
    with reporter.progress:
        results = loop.measure(sweep, reporter, flags.fail_fast)
    _show_results(sweep, results, out, flags.json)
    return 1 if any(result.status in loop.FAILED for result in results.values()) else 0


def _sweep(
    folder: Path, series: Sequence[Series], repeats: RepeatPlan, deadline: Deadline | None
) -> tuple[Sweep, dict[int, str]]:
    """Return (the sweep, number of a series → why memory is too short for it)."""
    from harness.request import estimate, plan
    from harness.sweep import loop

    requests = {s.number: s.request for s in series if s.request and not s.obstacle}
    costs, shortages = {}, {}
    for number, request in requests.items():
        shortage = plan.memory_shortage(request, request.precision)
        if shortage:
            shortages[number] = shortage
        else:
            costs[number] = estimate.of(request)
    most_again = max(loop.AGAIN_A_REPEAT, repeats.least * len(requests) // 2)
    sweep = loop.Sweep(
        folder=folder,
        series=series,
        repeats=repeats,
        costs=costs,
        most_again=0 if deadline else most_again,
        deadline=deadline,
    )
    return sweep, shortages


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh sweep",
        usage=(
            "./run.sh sweep --sut A,B|all --scenario … --model … [flags]\n"
            "       ./run.sh sweep RECIPE [flags]"
        ),
        description=(
            "Measure many cells, each several times, in turns (A B C A B C). After an interruption"
            " the same command continues."
        ),
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "recipe",
        nargs="?",
        help="a TOML file that names cells, or the name of one in harness/recipes/",
    )
    options.add_list_flags(parser)
    parser.add_argument(
        "--repeats", type=int, metavar="N", help=f"measure each cell so often (default {_REPEATS})"
    )
    parser.add_argument(
        "--until", metavar="P%", help="add repeats until each ratio is known to ± P %%"
    )
    parser.add_argument(
        "--max-repeats",
        type=int,
        metavar="N",
        help=f"with --until: at most so many (default {_MOST})",
    )
    parser.add_argument(
        "--for",
        dest="time",
        metavar="TIME",
        help="end after 90s, 30min or 2h; all cells once, in the list's order, before any repeat",
    )
    parser.add_argument("--fail-fast", action="store_true", help="end at the first cell that fails")
    parser.add_argument(
        "--again",
        action="store_true",
        help="start a new sweep, even if there is one of these cells",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be measured and what it costs, and do nothing",
    )
    add_output(parser)
    return parser


def _values(flags: Any) -> dict[str, list[str]]:
    """Return name of a flag → its values, for each flag that is given."""
    values = {}
    for name in options.names():
        value = getattr(flags, name)
        if value is not None:
            values[name] = value if isinstance(value, list) else [value]
    return values


def _recipe(name: str | None, values: Mapping[str, list[str]]) -> Recipe:
    """The recipe with the values that flags replace, or a recipe made only of flags."""
    from dataclasses import replace

    from harness.sweep import recipe

    if name:
        chosen = recipe.read(name)
        return replace(chosen, grids=tuple({**grid, **values} for grid in chosen.grids))
    lacking = [options.flag(key) for key in ("sut", "scenario", "model") if key not in values]
    if lacking:
        raise UsageError(
            f"a sweep needs {', '.join(lacking)}, or the name of a recipe:"
            f" {', '.join(recipe.names())}"
        )
    return recipe.Recipe(name="sweep", grids=(values,), missing={})


def _repeats(flags: Any) -> RepeatPlan:
    from harness.sweep.schedule import RepeatPlan

    least = flags.repeats
    if least is None:
        least = min(_REPEATS, flags.max_repeats or _REPEATS)
    most = flags.max_repeats
    if most is None:
        most = max(_MOST, least)
    if not 1 <= least <= most:
        raise UsageError(f"--repeats {least}: at least 1, and at most --max-repeats ({most})")
    if flags.until is None:
        if flags.max_repeats is not None:
            raise UsageError(
                f"--max-repeats {most}: is for --until; without it, only --repeats counts"
            )
        return RepeatPlan(least=least, most=least)
    try:
        percent = float(flags.until.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not flags.until.endswith("%") or not 0 < percent < 100:
        raise UsageError(f"--until {flags.until}: a percentage above 0 and below 100, such as 2%")
    return RepeatPlan(least=max(least, 2), most=max(most, 2), until=percent / 100)


def _deadline(text: str) -> Deadline:
    from harness.sweep.deadline import Deadline

    match = _TIME.fullmatch(text)
    seconds = float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2]] if match else 0.0
    if not seconds:
        raise UsageError(f"--for {text}: a time such as 90s, 30min or 2h")
    return Deadline(seconds, time.monotonic() + seconds)


def _page(sweep: Sweep, command: str, say: Callable[[str], None]) -> Callable[[Results], None]:
    """Return the function that writes the overview of a sweep with a deadline.

    The speed of an accelerator's memory is measured for it.
    """
    from harness.sweep import accelerator, overview
    from sut.devices import DEVICES

    request = next((s.request for s in sweep.series if s.request and not s.obstacle), None)
    copied = 0.0
    if request and sweep.deadline and DEVICES[request.device].accelerator:
        accelerator.hold_open()
        with sweep.deadline.limit():
            copied = accelerator.bytes_per_second(request, say)
    doctor = [sys.executable, "-P", "-m", "harness", "doctor"]
    findings = subprocess.run(doctor, capture_output=True, text=True, check=False).stdout
    return partial(overview.write, sweep.folder, command, sweep.series, copied, findings)


def _summary(sweep: Sweep, chosen: Recipe, shortages: Mapping[int, str]) -> dict[str, Any]:
    """Return the measurements of the sweep and their cost. Nothing is written.

    Args:
        shortages: number of a series → why memory is short.
    """
    from harness.measurement import reference
    from harness.request import estimate
    from harness.sweep import journal, schedule

    requests = [s.request for s in sweep.series if s.request]
    reasons = [reason for request in requests for reason in request.reasons]
    of_each_benchmark = {request.benchmark: request for request in requests}
    unjudged = [reference.shortage(request) for request in of_each_benchmark.values()]
    results = dict(journal.finished(sweep.folder.name, sweep.series))
    left = schedule.steps(sweep.series, results, sweep.repeats)
    cost = estimate.together(
        sweep.costs[series.number] for series, _ in left if series.number in sweep.costs
    )
    measurable = [s for s in sweep.series if not s.obstacle]
    obstacles = {s.label: s.obstacle or shortages.get(s.number) for s in sweep.series}
    return {
        "folder": str(sweep.folder),
        "cells": [s.label for s in measurable if not s.control],
        "control": next((s.label for s in measurable if s.control), None),
        "repeats": sweep.repeats.least,
        "seed": sweep.repeats.seed,
        "most_again": sweep.most_again,
        "for_seconds": sweep.deadline.seconds if sweep.deadline else None,
        "until": sweep.repeats.until,
        "most_repeats": sweep.repeats.most,
        "measurements": len(left) + len(results),
        "finished": len(results),
        "left": len(left),
        "seconds": round(cost.all_seconds),
        "basis": cost.basis,
        "disk_bytes": cost.disk_bytes + sum(size for _, size in cost.once.values()),
        "memory_bytes": cost.memory_bytes,
        "to_make": sorted(cost.once),
        "unsupported": {label: why for label, why in obstacles.items() if why},
        "missing": dict(chosen.missing),
        "notes": [*dict.fromkeys(reasons), *filter(None, unjudged)],
    }


def _announcement(summary: Mapping[str, Any]) -> Iterator[str]:
    """The summary in sentences."""
    from harness import terminal
    from harness.comparison import statistics

    cells = statistics.plural(len(summary["cells"]), "cell")
    control = summary["control"]
    measurements = summary["measurements"]
    done = f"{summary['finished']} done" if summary["finished"] else "none done yet"
    if control:
        yield SweepPlan.CELLS_AND_CONTROL.format(
            cells=cells, control=control, measurements=measurements, done=done
        )
    else:
        yield SweepPlan.CELLS.format(cells=cells, measurements=measurements, done=done)
    seconds = summary["seconds"]
    yield SweepPlan.COST.format(
        duration=terminal.duration(seconds),
        time=terminal.until(seconds),
        basis=summary["basis"] or SweepPlan.NOTHING_LEFT,
    )
    folder = terminal.near(summary["folder"])
    if summary["for_seconds"]:
        duration = terminal.duration(summary["for_seconds"])
        yield SweepPlan.DEADLINE.format(duration=duration, folder=folder)
    elif summary["left"]:
        yield SweepPlan.ROUNDS.format(seed=summary["seed"], most=summary["most_again"])
    if summary["until"]:
        yield SweepPlan.UNTIL.format(most=summary["most_repeats"], until=summary["until"])
    yield _room(summary)
    if summary["to_make"]:
        yield SweepPlan.TO_MAKE.format(names=", ".join(summary["to_make"]))
    yield from _left_out(summary)
    yield from summary["notes"]
    yield SweepPlan.FOLDER.format(folder=folder)


def _room(summary: Mapping[str, Any]) -> str:
    """The needed and the free disk and memory."""
    import psutil

    from scenarios.worker.preflight import available_memory_bytes

    folder = Path(summary["folder"])
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_memory_bytes = available_memory_bytes() or psutil.virtual_memory().available
    return SweepPlan.ROOM.format(
        disk=summary["disk_bytes"] / 1e9,
        free_disk=psutil.disk_usage(str(existing)).free / 1e9,
        memory=summary["memory_bytes"] / 1e9,
        free_memory=free_memory_bytes / 1e9,
    )


def _left_out(summary: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each reason why cells, or parts of the recipe's source, are not measured."""
    cells: dict[str, list[str]] = {}
    for cell, reason in summary["unsupported"].items():
        cells.setdefault(reason, []).append(cell)
    for reason, (first, *others) in cells.items():
        if others:
            yield SweepPlan.NOT_MEASURED_MORE.format(cell=first, others=len(others), reason=reason)
        else:
            yield SweepPlan.NOT_MEASURED.format(cell=first, reason=reason)
    for part, reason in summary["missing"].items():
        yield SweepPlan.MISSING.format(part=part, reason=reason)


def _show_plan(summary: Mapping[str, Any]) -> None:
    from harness import terminal

    cells = [[name] for name in (*summary["cells"], summary["control"]) if name]
    terminal.table("Sweep (nothing was made)", ("cell",), cells)
    for line in _announcement(summary):
        terminal.line(line)


def _show_results(sweep: Sweep, results: Results, out: Path, as_json: bool) -> None:
    """Print a row for each cell, then the answer in words."""
    from harness import terminal
    from harness.report import content, sections
    from harness.sweep import overview

    report = content.of_results(list(results.values()), terminal.near(str(out)))
    sentences = sections.sentences(sections.of(report))
    if as_json:
        refused = [{"command": s.command, "reason": s.obstacle} for s in sweep.series if s.obstacle]
        cells_ = [terminal.result_as_json(result) for _, result in sorted(results.items())]
        terminal.document(
            {
                "preface": report.preface,
                "answer": [report.headline, *sentences],
                "cells": cells_,
                "refused": refused,
            }
        )
    else:
        rows = overview.rows(sweep.series, results)
        terminal.table(f"Sweep {sweep.folder.name}", overview.COLUMNS, rows)
        terminal.report(report.preface, report.headline, sentences, [], (), report.advice)
        for sentence in _advice(sweep, results):
            terminal.line(sentence)
        hint = Next.REPORT.format(directory=shlex.quote(terminal.near(str(out))))
        terminal.line(f"\nnext  {terminal.typed_here(hint)}")


def _advice(sweep: Sweep, results: Results) -> Iterator[str]:
    """Advice on flags with which the sweep would measure more."""
    from harness.comparison.statistics import plural
    from harness.sweep import schedule

    until = sweep.repeats.until
    if until and not schedule.steps(sweep.series, results, sweep.repeats):
        wide = schedule.wide(sweep.series, results, until)
        if wide:
            yield SweepEnd.UNTIL_NOT_REACHED.format(
                until=until,
                comparisons=plural(wide, "comparison"),
                repeats=plural(sweep.repeats.most, "repeat"),
            )
    found = [_TOO_SHORT.search(result.reason) for result in results.values()]
    durations = [float(match[1]) for match in found if match]
    if durations:
        cells = plural(len(durations), "cell")
        yield SweepEnd.TOO_SHORT.format(cells=cells, duration=max(durations))
