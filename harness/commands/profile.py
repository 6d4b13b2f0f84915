"""`./run.sh profile` shows in which operations the time of a step goes, for each SUT."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from formats.writing import write_json
from harness.commands.pages import drawing, write, write_page
from harness.errors import UsageError
from harness.execution.environments import ROOT
from harness.request import options
from harness.request.flags import Parser, add_output
from sut.registry import FIT

if TYPE_CHECKING:
    from formats.profile import Profile
    from harness.report.section import Table
    from harness.request.request import Request
    from harness.sweep.cells import Series
    from harness.terminal import Terminal

_OUT = ROOT / "profiles"
_SCENARIO, _OF_TRAINING = "Offline", "Fit"
_PAGE = "profile.html"
_SIDE_BY_SIDE, _COLUMN = 4, 13  # SUTs of a table, and columns of each
_SECONDS = 60.0  # of one SUT, for those who wait for the machine


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    from harness import terminal
    from harness.sweep import cells

    values = _values(flags)
    if flags.starts and values["scenario"] == [_OF_TRAINING]:
        raise UsageError(
            "profile --starts: the result of a training has the time of its first step, which"
            " compiles: leave --starts out"
        )
    series = cells.make((values,), values, control=False)
    requests = _same_work(series)
    if flags.dry_run:
        _show_plan(requests, flags.json)
        return 0
    reporter = terminal.Terminal(flags.quiet)
    command = shlex.join(["./run.sh", "profile", *arguments])
    directory = _folder(requests[0])
    with reporter.progress:
        found = _measure(requests, directory, reporter, command, flags.starts)
    write_json(directory / "profile.json", found)
    _draw(found, directory)
    if flags.json:
        terminal.document(asdict(found))
    else:
        _show(found, directory)
    is_profiled = any(each.step for each in found.suts)
    return 0 if is_profiled else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "profile",
        usage="./run.sh profile --sut A,B --model MODEL [flags]",
        description=(
            "Show the time of a step by class of operation, by each framework's own profiler,"
            " and the share of each class in the floating-point operations."
        ),
    )
    options.add_list_flags(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be profiled, and do nothing"
    )
    parser.add_argument(
        "--starts",
        action="store_true",
        help="also measure the time to the first answer: with an empty cache of compiled programs,"
        " and with the cache that this left",
    )
    add_output(parser)
    return parser


def _values(flags: argparse.Namespace) -> dict[str, list[str]]:
    """Name of a flag → its values. `--task fit` means the scenario of a training."""
    values = options.given(flags)
    if "sut" not in values:
        raise UsageError("profile: needs --sut, such as --sut native-torch-eager,keras3-jax")
    if "replicas" in values:
        raise UsageError("--replicas: a profile is of one SUT by itself: leave it out")
    trains = values.get("task") == [FIT]
    if trains:
        del values["task"]
    defaults = {"scenario": [_OF_TRAINING if trains else _SCENARIO], "out": [str(_OUT)]}
    return defaults | values


def _same_work(series: Sequence[Series]) -> list[Request]:
    """Return the requests. Raises UsageError unless they differ only in the SUT, its options and
    its switches.
    """
    for each in series:
        if each.request is None:
            raise UsageError(each.obstacle)
    if len({each.rivals for each in series}) > 1:
        raise UsageError(
            "profile: the SUTs have to do the same work: give one value of each flag but --sut and"
            " --tuned, and a --precision that all SUTs have"
        )
    requests = [each.request for each in series if each.request]
    if any(each.requested_batch or each.tuned.buckets for each in requests):
        raise UsageError(
            "profile: a switch of --tuned changes the batches, and steps of different batches"
            " cannot be compared: leave it out"
        )
    return requests


def _folder(request: Request) -> Path:
    """Return the folder of this profile, which does not exist yet."""
    parts = (request.benchmark, request.options.scenario, f"b{request.batch_size}")
    stem = "-".join((*parts, request.precision, request.device))
    out = request.options.out
    number = 1
    while (out / f"{stem}-{number}").exists():
        number += 1
    return out / f"{stem}-{number}"


def _measure(
    requests: Sequence[Request], directory: Path, reporter: Terminal, command: str, starts: bool
) -> Profile:
    from formats.profile import Profile, StepOperations
    from harness import locks
    from harness.execution import machine, rundir
    from harness.measurement import profile

    out, cache = requests[0].options.out, requests[0].options.cache
    rundir.check_writable("--out", out)
    rundir.check_writable("--cache", cache)
    directory.mkdir(parents=True)
    with locks.machine(reporter.warn, command, _SECONDS * len(requests)):
        suts = []
        for request in requests:
            suts.append(profile.profile(request, directory, reporter, starts=starts))
        operations = profile.operations(requests, reporter)
    counted = operations if isinstance(operations, StepOperations) else None
    return Profile(
        command=command,
        title=profile.title_of(requests[0]),
        machine=machine.describe().cpu,
        suts=tuple(suts),
        operations=counted,
        no_operations=operations if isinstance(operations, str) else "",
    )


def _draw(found: Profile, directory: Path) -> None:
    """Write the page and its picture."""
    page = drawing("profile", "profile_page")
    html = page.render(found, datetime.now().astimezone())
    write_page("profile", directory / _PAGE, "a profile", page.BEGINNING, html)
    picture = page.picture(found)
    if picture:
        write("profile", directory / "profile.svg", picture.encode())


def _show(found: Profile, directory: Path) -> None:
    """Print the tables, the sentences and the path of the page."""
    from harness import terminal
    from harness.report import profile

    suts = list(profile.steps(found))
    terminal.line(f"{found.title}, {found.machine}")
    for first in range(0, len(suts), _SIDE_BY_SIDE):
        shown = suts[first : first + _SIDE_BY_SIDE]
        columns, rows = _narrow(profile.by_class(found, shown), shown)
        terminal.table("Time of a step by class of operation: milliseconds, percent", columns, rows)
    for table in (profile.whole_steps(found), profile.starts(found)):
        if table.count:
            rows = [[str(cell) for cell in row] for row in table.groups[""]]
            columns = [name.replace(", cold", ",\ncold") for name in table.columns]
            columns = [name.replace(", warm", ",\nwarm") for name in columns]
            terminal.table(table.title, columns, rows)
    for sentence in profile.sentences(found):
        terminal.line(f"- {sentence}")
    terminal.line(f"\npage  {terminal.near(str(directory / _PAGE))}")


def _narrow(table: Table, suts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows in which a SUT has one column, with its milliseconds and percents."""
    names = [textwrap.fill(sut, _COLUMN, break_long_words=False) for sut in suts]
    others = len(table.columns) - 2 * len(suts)
    columns = [*table.columns[:others], *names]
    rows = []
    for row in table.groups[""]:
        texts = [str(cell) for cell in row]
        pairs = zip(texts[others::2], texts[others + 1 :: 2], strict=True)
        joined = [f"{ms:>7} {percent:>5}" for ms, percent in pairs]
        rows.append([*texts[:others], *joined])
    return columns, rows


def _show_plan(requests: Sequence[Request], as_json: bool) -> None:
    from harness import terminal
    from harness.measurement import profile
    from harness.request.plan import unsupported

    cells = {
        profile.label_of(each): unsupported(each)
        or "some steps are timed, and as many run under the framework's profiler"
        for each in requests
    }
    title = profile.title_of(requests[0])
    if as_json:
        terminal.document({"title": title, "suts": cells})
    else:
        terminal.table(f"{title} (nothing was made)", ("SUT", "profile"), cells.items())
