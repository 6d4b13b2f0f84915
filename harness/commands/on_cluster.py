"""`sweep --on CLUSTER`: each comparison on a node of a cluster."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.request.flags import known_name

if TYPE_CHECKING:
    from harness.cluster.jobs import Job
    from harness.sweep.cells import Series
    from harness.sweep.recipe import Recipe, Values
    from harness.sweep.schedule import RepeatPlan

_OF_NODE = ("device", "replicas")
"""Flags that only a node can check, because this machine may have other devices."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The jobs of a sweep.

    Attributes:
        folder: the sweep's folder below `out`, the folder of run directories.
        cache: the folder of environments.
        devices: the devices that flags or a recipe name.
    """

    folder: Path
    out: Path
    cache: Path
    devices: Sequence[str]
    jobs: Sequence[Job]


def main(
    flags: argparse.Namespace,
    arguments: list[str],
    chosen: Recipe,
    values: Values,
    repeats: RepeatPlan,
) -> int:
    """Measure each comparison on a node of a cluster. → the exit code.

    Args:
        flags: those of `sweep`.
        arguments: the words of the command after `sweep`.
        values: name of a flag of a cell → its values.
    """
    from harness import terminal
    from harness.cluster import follow, kinds, progress, words
    from harness.comparison.statistics import plural
    from harness.execution import clusters, rundir
    from harness.sweep import journal

    reporter = terminal.Terminal(flags.quiet)
    plan = _plan(flags, chosen, values, repeats)
    cluster = kinds.named(flags.on, flags.slurm, plan.devices, plan.cache, reporter.say)
    cells_in_all = sum(len(job.cells) for job in plan.jobs)
    reporter.say(
        f"{plural(cells_in_all, 'cell')} in {plural(len(plan.jobs), 'comparison')}, each cell"
        f" {plural(repeats.least, 'time')}; each comparison is a job that has a node to itself"
    )
    if flags.dry_run:
        for job in plan.jobs:
            terminal.line(job.label)
        return 0
    rundir.check_writable("--out", plan.out)
    command = shlex.join(["./run.sh", "sweep", *arguments])
    if flags.print:
        for job in plan.jobs:
            job.write(command)
            terminal.line(cluster.text(job))
        folder = terminal.near(str(plan.jobs[0].folder))
        reporter.say(f"nothing was submitted; the files of the jobs are in {folder}")
        return 0
    cluster.check()
    if flags.on == clusters.SLURM:  # its jobs outlive this command: only Ctrl-C cancels them
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    plan.folder.mkdir(parents=True, exist_ok=True)
    wanted = journal.Repeats(least=repeats.least, most=repeats.most, until=repeats.until)
    follower = follow.Follower(
        jobs=plan.jobs,
        cluster=cluster,
        progress=progress.Progress(out=plan.out, repeats=wanted),
        reporter=reporter,
        command=command,
        folder=plan.folder,
    )
    is_good = words.show(follower.run(), plan.out, flags.json)
    return 0 if is_good else 1


def _plan(flags: argparse.Namespace, chosen: Recipe, values: Values, repeats: RepeatPlan) -> _Plan:
    """The jobs of the cells. Raises UsageError if all are impossible without the flags in
    `_OF_NODE`.
    """
    from harness.cluster import jobs
    from harness.sweep import cells, journal, recipe

    grids = [_without(grid, recipe.LEFT_OUT) for grid in chosen.grids]
    if any("replicas_on" in grid for grid in grids):
        raise UsageError(
            "--replicas-on: with --on, a comparison and its replicas have one node: leave out one"
            " of both"
        )
    devices = _devices(grids)
    on_host = [_without(grid, _OF_NODE) for grid in grids]
    series = cells.make(on_host, values, control=False)
    options = next(s.request.options for s in series if s.request)
    name = re.sub(r"[^\w.-]+", "-", chosen.name)
    of_node = [[grid.get(flag) for flag in _OF_NODE] for grid in grids]
    more = [*of_node, _variables(series, devices)]
    folder = journal.folder(options.out, name, series, flags.again, more)
    each_cell = [words for grid in grids for words in cells.expand(grid)]
    places = ["--out", str(options.out), "--cache", str(options.cache)]
    common = [*places, *_common_flags(flags, values, repeats)]
    return _Plan(
        folder=folder,
        out=options.out,
        cache=options.cache,
        devices=devices,
        jobs=jobs.of(each_cell, folder, common),
    )


def _devices(grids: Iterable[Values]) -> list[str]:
    """The devices that flags or a recipe name. Raises UsageError for an unknown one."""
    from sut.devices import DEVICES

    given = [name for grid in grids for name in grid.get("device", ())]
    return [known_name(name, DEVICES, "--device") for name in dict.fromkeys(given)]


def _variables(series: Iterable[Series], devices: Sequence[str]) -> list[str]:
    """The environment variables that may change a figure on one of these devices. If none is named,
    a node decides, so those of every device.
    """
    from sut import variables
    from sut.devices import DEVICES

    found: dict[str, str] = {}
    for each in series:
        for device in devices or DEVICES:
            if each.request:
                found |= variables.of_cell(each.request.spec, device, os.environ)
    return [f"{name}={value}" for name, value in sorted(found.items())]


def _without(grid: Values, names: Collection[str]) -> Values:
    return {name: values for name, values in grid.items() if name not in names}


def _common_flags(flags: argparse.Namespace, values: Values, repeats: RepeatPlan) -> list[str]:
    """The flags of the plain command that a recipe does not have, without --out and --cache."""
    from harness.sweep import cells

    given = {name: values[name] for name in ("submitter", "python") if name in values}
    words = [*cells.flags_of(given), "--repeats", str(repeats.least), "--yes"]
    if flags.until:
        words += ["--until", flags.until, "--max-repeats", str(repeats.most)]
    if flags.time:
        words += ["--for", flags.time]
    if flags.fail_fast:
        words.append("--fail-fast")
    return words
