"""`./run.sh tune` measures the gain of each switch of `--tuned` and of the set of those that help,
and keeps the gains for `--tuned on`.

It runs sweeps: first each SUT without switches and with one switch at a time, then with the set of
the switches that helped.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from formats.tuning import Gain
from formats.writing import write_json
from harness.errors import UsageError
from harness.request import options
from harness.request.flags import Parser, add_cache, without

_STOPS = 2
"""The least exit code with which a sweep ends before it has measured its cells."""
_OF_A_CELL = (
    "sut",
    "model",
    "task",
    "size",
    "scenario",
    "precision",
    "batch_size",
    "seq_len",
    "prompt_tokens",
    "new_tokens",
    "rate",
)
"""Flags of a sweep that take lists, and the fields of `Gain` with the value of one cell."""
_NOT_OF_A_PLAN = ("--again", "--json", "--quiet")
"""Flags that are left out when the plan of the last sweep is read as JSON."""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code, that of a sweep that could not be measured, else 0."""
    flags, rest = _parser().parse_known_args(arguments)
    for word in rest:
        if word.partition("=")[0] == options.flag("tuned"):
            raise UsageError(
                f"tune {word}: measures every switch: leave it out, or name some by --switches A,B"
            )
    from harness.request.tuning import GAINS

    out = flags.out.absolute()
    cache = flags.cache.absolute()
    sweep = [*rest, "--out", str(out), "--cache", str(cache)]
    single = f"{options.OFF},{flags.switches}" if flags.switches else options.EACH
    code = _sweep(sweep, single)
    if code >= _STOPS or "--dry-run" in rest:
        return code
    ids = {_id(sweep, single)}
    for one, switches in _together(_measured(out, ids)):
        words = _only(sweep, one)
        tuned = f"{options.OFF},{'+'.join(switches)}"
        code = _sweep(words, tuned)
        if code >= _STOPS:
            return code
        ids.add(_id(words, tuned))
    gains = _measured(out, ids)
    _keep(cache / GAINS, gains)
    _show(gains, cache / GAINS)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh tune",
        usage="./run.sh tune --sut A,B|all --scenario … --model … [flags of sweep]",
        description=(
            "Measure the gain of each switch of --tuned, and of the set of those that help,"
            " compared with the SUT as it comes. --tuned on then applies the best measured set."
            " After an interruption the same command continues."
        ),
        epilog="All other flags are those of sweep.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--switches",
        metavar="A,B",
        help="measure only these, for example with more --repeats; default: all of the SUT",
    )
    add_cache(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=options.Options.out,
        metavar="DIR",
        help="folder for run directories (default: runs/ next to run.sh)",
    )
    return parser


def _command(words: Sequence[str], tuned: str) -> list[str]:
    return [sys.executable, "-P", "-m", "harness", "sweep", *words, "--tuned", tuned]


def _sweep(words: Sequence[str], tuned: str) -> int:
    """Run a sweep with these flags. → its exit code."""
    return subprocess.run(_command(words, tuned), check=False).returncode


def _id(words: Sequence[str], tuned: str) -> str:
    """Return the id of the last sweep with these flags."""
    kept = [word for word in words if word not in _NOT_OF_A_PLAN]
    command = [*_command(kept, tuned), "--dry-run", "--json"]
    plan = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(plan.stdout)["folder"]).name


def _measured(out: Path, ids: Collection[str]) -> list[Gain]:
    """Return the gains that these sweeps measured on this machine."""
    from harness.comparison import runs, tables, tuning
    from harness.request.tuning import this_machine

    results, _ = runs.find(out)
    swept = [result for result in results if result.sweep and result.sweep.id in ids]
    gains = tuning.gains(tables.grouped(swept))
    return [gain for gain in gains if gain.machine == this_machine()]


def _only(words: Sequence[str], one: Gain) -> list[str]:
    """The flags of a sweep for the cell of one measurement. Lists are replaced by its values."""
    from harness.inputs import models

    given = {word.partition("=")[0] for word in words}
    values = {options.flag(name): getattr(one, name) for name in _OF_A_CELL}
    if one.model not in models.names():  # a file or folder of the user, which has no such name
        values[options.flag("model")] = None
    replaced = {flag: value for flag, value in values.items() if flag in given and value}
    kept = shlex.split(without(shlex.join(words), *replaced))
    for flag, value in replaced.items():
        kept += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return kept


def _together(gains: Iterable[Gain]) -> list[tuple[Gain, list[str]]]:
    """List (a measurement of the cell, names of the single switches that helped it) for each cell
    that several switches helped. Of switches that exclude each other the best one counts.
    """
    from harness.request.tuning import best_of, is_usable
    from sut.tuning import switches

    single: dict[tuple[str, ...], dict[str, list[Gain]]] = {}
    for gain in gains:
        if len(gain.switches) == 1 and is_usable(gain):
            (name,) = gain.switches
            choice = switches()[name].choice or name
            of_cell = single.setdefault((gain.machine, gain.mode, gain.cell), {})
            of_cell.setdefault(choice, []).append(gain)
    found = []
    for of_cell in single.values():
        helped = [best for best in map(best_of, of_cell.values()) if best]
        if len(helped) > 1:
            found.append((helped[0], sorted(gain.switches[0] for gain in helped)))
    return found


def _keep(path: Path, gains: Sequence[Gain]) -> None:
    """Write the gains to a file, with those of other cells and machines that it has."""
    from harness.request.tuning import known

    kept = {_key(gain): gain for gain in (*known(path), *gains)}
    write_json(path, [asdict(kept[key]) for key in sorted(kept)])


def _key(gain: Gain) -> tuple[str, ...]:
    """The cell and the conditions of a gain. A newer one with the same key replaces it."""
    versions = [f"{name} {version}" for name, version in sorted(gain.versions.items())]
    work = (gain.sut, gain.model, gain.size, gain.scenario, gain.cell, gain.mode)
    return (gain.machine, *work, ", ".join(versions), "+".join(gain.switches))


def _show(gains: Sequence[Gain], path: Path) -> None:
    """Print a row for each measured set of switches, and the path of the file."""
    from harness import terminal

    rows = []
    for gain in gains:
        times = gain.reason or gain.status
        if gain.ratio:
            times = f"{gain.ratio:.3g}"
        if gain.low and gain.high:
            times += f" ({gain.low:.2f}–{gain.high:.2f})"
        work = f"{gain.sut} {gain.model} {gain.size} {gain.scenario} batch {gain.batch_size}"
        rows.append([work, " + ".join(gain.switches), times])
    terminal.table("Gains", ("cell", "switches", "times as fast as without"), rows)
    terminal.line(f"\n--tuned on applies the best set of each SUT: {terminal.near(str(path))}")
