"""`./run.sh profile` shows in which operations the time of a step goes, for each SUT."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from formats.profile import Profile, StepOperations
from formats.writing import write_json
from harness import locks, terminal
from harness.errors import UsageError
from harness.execution import machine, rundir
from harness.execution.environments import ROOT
from harness.measurement import profile
from harness.report import profile as shown
from harness.request import options
from harness.request.flags import Parser, add_output
from harness.request.plan import unsupported
from harness.request.request import Request
from harness.sweep import cells
from harness.sweep.cells import Series
from harness.terminal import Terminal
from sut.registry import FIT

_OUT = ROOT / "profiles"
_SCENARIO = "Offline"
_OF_TRAINING = "Fit"
_SECONDS = 60.0  # of one SUT, for those who wait for the machine


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    values = _values(flags)
    series = cells.make((values,), values, control=False)
    requests = _same_work(series)
    if flags.dry_run:
        _show_plan(requests, flags.json)
        return 0
    reporter = terminal.Terminal(flags.quiet)
    command = shlex.join(["./run.sh", "profile", *arguments])
    # The folder of this profile does not exist yet.
    request = requests[0]
    parts = (request.benchmark, request.options.scenario, f"b{request.batch_size}")
    stem = "-".join((*parts, request.precision, request.device))
    out = request.options.out
    number = 1
    while (out / f"{stem}-{number}").exists():
        number += 1
    directory = out / f"{stem}-{number}"
    with reporter.progress:
        found = _measure(requests, directory, reporter, command)
    path = directory / "profile.json"
    write_json(path, found)
    if flags.json:
        terminal.document(asdict(found))
    else:
        _show(found, path)
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
        gone={
            "--starts": "the page of report has it (Compiled over eager), from the first run of"
            " each cell and a repeat"
        },
    )
    options.add_list_flags(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be profiled, and do nothing"
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


def _measure(
    requests: Sequence[Request], directory: Path, reporter: Terminal, command: str
) -> Profile:
    options = requests[0].options
    rundir.check_writable("--out", options.out)
    rundir.check_writable("--cache", options.cache)
    directory.mkdir(parents=True)
    with locks.machine(reporter.warn, command, _SECONDS * len(requests)):
        suts = []
        for request in requests:
            suts.append(profile.profile(request, directory, reporter))
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


def _show(found: Profile, path: Path) -> None:
    """Print the tables, the sentences and the path of the file."""
    terminal.line(f"{found.title}, {found.machine}")
    for table in shown.tables(found):
        terminal.table(*table)
    for sentence in shown.sentences(found):
        terminal.line(f"- {sentence}")
    terminal.line(f"\nfile  {terminal.near(str(path))}")


def _show_plan(requests: Sequence[Request], as_json: bool) -> None:
    usual = "some steps are timed, and as many run under the framework's profiler"
    plans = {profile.label_of(each): unsupported(each) or usual for each in requests}
    title = profile.title_of(requests[0])
    if as_json:
        terminal.document({"title": title, "suts": plans})
    else:
        terminal.table(f"{title} (nothing was made)", ("SUT", "profile"), plans.items())
