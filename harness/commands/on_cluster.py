"""`sweep --on CLUSTER`: each comparison on a node of a cluster."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
from collections.abc import Iterable, Sequence

from harness import terminal
from harness.cluster import array, follow, schedulers
from harness.cluster.array import Array
from harness.cluster.follow import Follower
from harness.errors import UsageError
from harness.execution import clusters, rundir
from harness.report import content
from harness.request.flags import known_name, without
from harness.request.options import Options
from harness.sweep import cells, journal, words
from harness.sweep.cells import Series
from harness.sweep.recipe import Recipe, Values
from harness.sweep.schedule import RepeatPlan
from sut import variables
from sut.devices import DEVICES

_OF_NODE = ("device", "replicas")
"""Flags that only a node can check, because this machine may have other devices."""
_NOT_OF_JOB = ("--print", "--json", "--again")


def main(
    flags: argparse.Namespace,
    arguments: list[str],
    recipe: Recipe,
    values: Values,
    repeats: RepeatPlan,
) -> int:
    """Measure each comparison on a node of a cluster. → the exit code.

    Args:
        flags: those of `sweep`.
        arguments: the words of the command after `sweep`.
        values: name of a flag of a cell → its values.
    """

    reporter = terminal.Terminal(flags.quiet)
    address = clusters.ray_address(flags.on, flags.slurm)
    given = [name for grid in recipe.grids for name in grid.get("device", ())]
    devices = [known_name(name, DEVICES, "--device") for name in given]
    array, options = _array(flags, arguments, recipe, values, devices)
    show = terminal.line if flags.dry_run else reporter.say
    for number in array.numbers:
        show(f"comparison {number}: {array.label(number)}")
    reporter.say("each comparison is a job that has a node to itself")
    if flags.dry_run:
        return 0
    rundir.check_writable("--out", options.out)
    if flags.print:
        array.write(array.numbers)
        terminal.line(array.text(array.numbers))
        reporter.say(f"nothing was submitted; this is {terminal.near(str(array.script))}")
        return 0
    cluster: schedulers.Slurm | schedulers.Ray
    if address:
        clusters.make_ray(options.cache, reporter.say)
        accelerator = any(DEVICES[device].accelerator for device in devices)
        cluster = schedulers.Ray(address, accelerator, options.cache)
    else:
        clusters.check_slurm("sbatch", "squeue", "scancel")
        cluster = schedulers.Slurm()
        for end in (signal.SIGHUP, signal.SIGTERM):  # only Ctrl-C cancels its jobs
            signal.signal(end, signal.SIG_DFL)
    follower = follow.Follower(
        array=array,
        cluster=cluster,
        out=options.out,
        repeats=repeats.least,
        reporter=reporter,
    )
    follower.run()
    return 0 if _show(follower, flags.json) else 1


def _array(
    flags: argparse.Namespace,
    arguments: Sequence[str],
    recipe: Recipe,
    values: Values,
    devices: Sequence[str],
) -> tuple[Array, Options]:
    """The jobs of the cells, and the options of one that is possible. Raises UsageError if all are
    impossible without the flags in `_OF_NODE`.
    """

    grids = recipe.grids
    if any("replicas_on" in grid for grid in grids):
        raise UsageError(
            "--replicas-on: with --on, a comparison and its replicas have one node: leave out one"
            " of both"
        )
    on_host = []
    for grid in grids:
        on_host.append({flag: value for flag, value in grid.items() if flag not in _OF_NODE})
    series = cells.make(on_host, values, control=False)
    options = next(s.request.options for s in series if s.request)
    name = re.sub(r"[^\w.-]+", "-", recipe.name)
    of_node = [[grid.get(flag) for flag in _OF_NODE] for grid in grids]
    more = [*of_node, _variables(series, devices)]
    plain = shlex.split(without(shlex.join(arguments), "--on", "--slurm"))
    command = ["sweep", *(word for word in plain if word not in _NOT_OF_JOB), "--yes"]
    jobs = array.Array(
        sweep=journal.folder(options.out, name, series, flags.again, more),
        comparisons=array.comparisons(grids),
        command=command,
        options=clusters.slurm_options(flags.slurm, "sbatch", schedulers.OURS),
    )
    return jobs, options


def _variables(series: Iterable[Series], devices: Sequence[str]) -> list[tuple[str, str]]:
    """The environment variables that may change a figure on one of these devices. If none is named,
    a node decides, so those of every device.
    """

    found: dict[str, str] = {}
    for each in series:
        for device in devices or DEVICES:
            if each.request:
                found |= variables.of_cell(each.request.spec, device, os.environ)
    return sorted(found.items())


def _show(follower: Follower, as_json: bool) -> bool:
    """Print what was measured, and which comparisons are not complete. → whether all is good."""

    array = follower.array
    results = follower.results()
    faults = {number: follower.fault(number) for number in array.numbers}
    jobs = [{"work": array.label(number), "fault": fault} for number, fault in faults.items()]
    report = content.of_results(results, terminal.near(str(follower.out)))
    words.show_report(report, results, {"jobs": jobs}, as_json)
    for number, fault in faults.items():
        if fault:
            follower.reporter.warn(f"comparison {number} is not complete: {fault}")
    good = all(result.status in ("ok", "unsupported") for result in results)
    return good and not any(faults.values())
