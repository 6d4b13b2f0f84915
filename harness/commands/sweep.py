"""`./run.sh sweep` measures many cells in turns, each several times. After an interruption the same
command continues.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.request import options
from harness.request.flags import Parser, add_output

if TYPE_CHECKING:
    from harness.sweep.deadline import Deadline
    from harness.sweep.loop import Sweep
    from harness.sweep.recipe import Recipe
    from harness.sweep.schedule import RepeatPlan, Results

_EPILOG = """\
--sut, --model, --task, --scenario, --size, --precision, --batch-size, --seq-len, --prompt-tokens
and --new-tokens take lists: A,B. `all` stands for every SUT (but the mock), every scenario, or
every model that is in no group. The name of a group, such as hf-2019, stands for its models. Flags
beside a recipe replace what the recipe says of them."""
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
    from harness.request import estimate, plan
    from harness.sweep import cells, journal, loop

    deadline = _deadline(flags.time) if flags.time else None
    if flags.python:
        interpreter.inventory(flags.python)  # one error instead of one for each SUT
    values = {
        name: _texts(value)
        for name in options.names()
        if (value := getattr(flags, name)) is not None
    }
    chosen, repeats = _recipe(flags.recipe, values), _repeats(flags)
    series = cells.make(chosen.grids, values, control=repeats.least > 1)
    out = next(s.request.options.out for s in series if s.request)
    requests = {s.number: s.request for s in series if s.request and not s.obstacle}
    shortages = {
        number: why
        for number, r in requests.items()
        if (why := plan.memory_shortage(r, r.precision))
    }
    costs = {
        number: estimate.of(request)
        for number, request in requests.items()
        if number not in shortages
    }
    folder = journal.folder(out, chosen.name, series, flags.again)
    repeats = replace(repeats, seed=journal.seed(folder), as_listed=deadline is not None)
    most_again = max(loop.AGAIN_A_REPEAT, repeats.least * len(requests) // 2)
    sweep = loop.Sweep(
        folder=folder,
        series=series,
        repeats=repeats,
        costs=costs,
        most_again=0 if deadline else most_again,
        deadline=deadline,
    )
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


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh sweep",
        usage=(
            "./run.sh sweep --sut A,B|all --scenario … --model … [flags]\n"
            "       ./run.sh sweep RECIPE [flags]"
        ),
        description=(
            "Measure many cells, each several times, in turns (A B C A B C). The same command goes"
            " on after an interruption."
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
        help="start the sweep anew, though there is one of these cells",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be measured and what it costs, and do nothing",
    )
    add_output(parser)
    return parser


def _texts(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _recipe(name: str | None, values: Mapping[str, list[str]]) -> Recipe:
    """The recipe with the values that flags replace, or a recipe made only of flags."""
    from dataclasses import replace

    from harness.sweep import recipe

    if name:
        chosen = recipe.read(name)
        return replace(chosen, grids=tuple({**grid, **values} for grid in chosen.grids))
    needed = ("sut", "scenario") if "weights" in values else ("sut", "scenario", "model")
    if lacking := [options.flag(key) for key in needed if key not in values]:
        raise UsageError(
            f"a sweep needs {', '.join(lacking)}, or the name of a recipe:"
            f" {', '.join(recipe.names())}"
        )
    return recipe.Recipe(name="sweep", grids=(values,), missing={})


def _repeats(flags: Any) -> RepeatPlan:
    from harness.sweep.schedule import RepeatPlan

    least = min(_REPEATS, flags.max_repeats or _REPEATS) if flags.repeats is None else flags.repeats
    most = max(_MOST, least) if flags.max_repeats is None else flags.max_repeats
    if not 1 <= least <= most:
        raise UsageError(f"--repeats {least}: at least 1, and at most --max-repeats ({most})")
    if flags.until is None:
        if flags.max_repeats is not None:
            raise UsageError(
                f"--max-repeats {most}: is for --until; --repeats alone says how often"
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
    unjudged = [
        why for r in {r.benchmark: r for r in requests}.values() if (why := reference.shortage(r))
    ]
    results = dict(journal.finished(sweep.folder.name, sweep.series))
    left = schedule.steps(sweep.series, results, sweep.repeats)
    cost = estimate.together(
        sweep.costs[series.number] for series, _ in left if series.number in sweep.costs
    )
    measurable = [s for s in sweep.series if not s.obstacle]
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
        "unsupported": {
            s.label: why for s in sweep.series if (why := s.obstacle or shortages.get(s.number))
        },
        "missing": dict(chosen.missing),
        "notes": [*dict.fromkeys(reason for r in requests for reason in r.reasons), *unjudged],
    }


def _announcement(summary: Mapping[str, Any]) -> Iterator[str]:
    """The summary in sentences."""
    import psutil

    from harness import terminal
    from harness.comparison import statistics
    from scenarios.worker.preflight import available_memory_bytes

    control = (
        f", and the control run {summary['control']}, which shows this machine's own noise"
        if summary["control"]
        else ""
    )
    done = f"{summary['finished']} done" if summary["finished"] else "none done yet"
    yield (
        f"{statistics.plural(len(summary['cells']), 'cell')}{control}: {summary['measurements']}"
        f" measurements, {done}"
    )
    seconds = summary["seconds"]
    yield (
        f"about {terminal.duration(seconds)}, until {terminal.until(seconds)}"
        f" ({summary['basis'] or 'nothing is left to measure'})"
    )
    if summary["for_seconds"]:
        yield (
            f"--for: it ends after {terminal.duration(summary['for_seconds'])}; "
            "cells in the list's order, each once before any repeat; "
            f"after each cell {terminal.near(summary['folder'])}/overview.md shows all"
        )
    elif summary["left"]:
        yield (
            f"each round has an order of its own (seed {summary['seed']}); a disturbed repeat is"
            f" measured again at once, at most twice, and at most {summary['most_again']} times in"
            " the whole sweep"
        )
    if summary["until"]:
        yield (
            f"at least so long: repeats are added, up to {summary['most_repeats']} of each cell,"
            f" until its ratio to the first one is known to ± {summary['until']:.1%}"
        )
    where = next(
        p for p in (Path(summary["folder"]), *Path(summary["folder"]).parents) if p.exists()
    )
    memory = available_memory_bytes() or psutil.virtual_memory().available
    yield (
        f"about {summary['disk_bytes'] / 1e9:.2f} GB on disk,"
        f" {psutil.disk_usage(str(where)).free / 1e9:.0f} GB are free; about"
        f" {summary['memory_bytes'] / 1e9:.2f} GB of memory, {memory / 1e9:.0f} GB are available"
    )
    if summary["to_make"]:
        yield f"to be made first: {', '.join(summary['to_make'])}"
    for reason in dict.fromkeys(summary["unsupported"].values()):
        first, *others = (name for name, why in summary["unsupported"].items() if why == reason)
        yield f"not measured: {first}{f' and {len(others)} more' if others else ''}: {reason}"
    for name, reason in summary["missing"].items():
        yield f"not there: {name}: {reason}"
    yield from summary["notes"]
    yield (
        f"the sweep is {terminal.near(summary['folder'])}; the same command goes on after an"
        " interruption"
    )


def _show_plan(summary: Mapping[str, Any]) -> None:
    from harness import terminal

    terminal.table(
        "Sweep (nothing was made)",
        ("cell",),
        ([name] for name in [*summary["cells"], *filter(None, [summary["control"]])]),
    )
    for line in _announcement(summary):
        terminal.line(line)


def _show_results(sweep: Sweep, results: Results, out: Path, as_json: bool) -> None:
    """Print a row for each cell, then the answer in words."""
    from harness import terminal
    from harness.comparison import statistics
    from harness.report import content, sections
    from harness.sweep import overview, schedule

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
        until = sweep.repeats.until
        if (
            until
            and not schedule.steps(sweep.series, results, sweep.repeats)
            and (wide := schedule.wide(sweep.series, results, until))
        ):
            most = statistics.plural(sweep.repeats.most, "repeat")
            terminal.line(
                f"--until {until:.1%}: {statistics.plural(wide, 'comparison')} did not get there in"
                f" {most}; --max-repeats N allows more"
            )
        if longer := [
            float(found[1])
            for result in results.values()
            if (found := _TOO_SHORT.search(result.reason))
        ]:
            skipped = statistics.plural(len(longer), "cell")
            terminal.line(
                f"{skipped} skipped, whose tests take longer: a sweep with --duration"
                f" {max(longer):g} measures all"
            )
        hint = f"./run.sh report {shlex.quote(terminal.near(str(out)))} --html report.html"
        terminal.line(f"\nnext  {terminal.typed_here(hint)}")
