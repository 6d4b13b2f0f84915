"""`./run.sh sweep` measures many cells in turns, each several times. After an interruption the same
command continues.
"""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import replace

from harness import terminal
from harness.cluster import array
from harness.commands import on_cluster
from harness.errors import UsageError
from harness.execution import interpreter, machine, rundir
from harness.request import options
from harness.request.flags import Parser, add_output
from harness.sweep import cells, journal, loop, recipe, words
from harness.sweep.deadline import Deadline
from harness.sweep.recipe import Recipe
from harness.sweep.schedule import RepeatPlan

_LISTS = ", ".join(options.flag(name) for name in options.LISTS)
_EPILOG = textwrap.fill(
    f"{_LISTS} take lists: A,B. `all` stands for every SUT (but the mock), every scenario, or"
    " every model that is in no group. The name of a group, such as hf-2019, stands for its"
    " models. A flag after a recipe replaces the recipe's value.",
    width=100,
)
_REPEATS = 3
_UNTIL = "the answer says how many more runs decide, and a larger --repeats adds them"


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)

    deadline = Deadline.after("--for", flags.time) if flags.time else None
    if flags.python:
        interpreter.inventory(flags.python)  # one error instead of one for each SUT
    values = options.given(flags)
    chosen = _recipe(flags.recipe, values)
    if flags.repeats < 1:
        raise UsageError(f"--repeats {flags.repeats}: at least 1")
    repeats = RepeatPlan(least=flags.repeats, most=flags.repeats)
    if flags.on:
        return on_cluster.main(flags, arguments, chosen, values, repeats)
    if flags.slurm or flags.print:
        raise UsageError("--slurm and --print are for --on slurm and --on ray: give --on too")
    if flags.part:
        chosen = array.part(chosen, flags.part)
    series = cells.make(chosen.grids, values, control=repeats.least > 1)
    out = next(s.request.options.out for s in series if s.request)
    folder = journal.folder(out, chosen.name, series, flags.again)
    repeats = replace(
        repeats,
        seed=journal.seed(folder),
        as_listed=deadline is not None,
    )
    sweep = loop.Sweep.of(folder, series, repeats, deadline)
    summary = words.summary(sweep, chosen.missing)
    if flags.dry_run:
        terminal.document(summary) if flags.json else words.show_plan(summary)
        return 0
    reporter = terminal.Terminal(flags.quiet)
    for line in words.announcement(summary):
        reporter.say(line)
    if not deadline:
        words.confirm(summary["seconds"], flags.yes)
    rundir.check_writable("--out", out)
    command = shlex.join(["./run.sh", "sweep", *arguments])
    journal.write_plan(folder, command, series, chosen.missing)
    if deadline:
        machine.hold_open()
    with reporter.progress:
        results = loop.measure(sweep, reporter, flags.fail_fast)
    words.show_results(sweep, results, out, flags.json)
    return 1 if any(result.status in loop.FAILED for result in results.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "sweep",
        usage=(
            "./run.sh sweep --sut A,B|all --scenario … --model … [flags]\n"
            "       ./run.sh sweep RECIPE [flags]"
        ),
        description=(
            "Measure many cells, each several times, in turns (A B C A B C). After an interruption"
            " the same command continues."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        gone=dict.fromkeys(("--until", "--max-repeats"), _UNTIL),
    )
    parser.add_argument(
        "recipe",
        nargs="?",
        help="a TOML file that names cells, or the name of one in harness/recipes/",
    )
    options.add_list_flags(parser)
    parser.add_argument(
        "--repeats",
        type=int,
        default=_REPEATS,
        metavar="N",
        help=f"measure each cell so often (default {_REPEATS})",
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
    _add_cluster(parser)
    parser.add_argument(
        "--yes", action="store_true", help="do not ask, even if the plan takes more than an hour"
    )
    add_output(parser)
    return parser


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a sweep on the nodes of a cluster."""
    parser.add_argument(
        "--on",
        metavar="CLUSTER",
        help=(
            "measure each comparison on a node of a cluster: slurm, ray (the cluster of this"
            " machine) or ray://HOST:PORT"
        ),
    )
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="NAME=VALUE,…",
        help="with --on slurm: options of sbatch, such as partition=gpu,gpus=1; may be repeated",
    )
    parser.add_argument(
        "--print", action="store_true", help="with --on: print the jobs, and submit nothing"
    )
    # A job of --on measures only its comparison.
    parser.add_argument("--part", metavar="NAME.N", help=argparse.SUPPRESS)


def _recipe(name: str | None, values: Mapping[str, list[str]]) -> Recipe:
    """The recipe with the values that flags replace, or a recipe made only of flags."""

    if name:
        chosen = recipe.read(name)
        return replace(chosen, grids=tuple({**grid, **values} for grid in chosen.grids))
    needed = ("sut", "scenario") if "weights" in values else ("sut", "scenario", "model")
    lacking = [options.flag(key) for key in needed if key not in values]
    if lacking:
        raise UsageError(
            f"a sweep needs {', '.join(lacking)}, or the name of a recipe:"
            f" {', '.join(recipe.names())}"
        )
    return recipe.Recipe(name="sweep", grids=(values,), missing={})
