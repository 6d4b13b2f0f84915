"""`./run.sh doctor --limits`: the speed that each framework reaches on this machine, without a
model. The cache keeps the figures (`harness.execution.limits`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from formats.limits import LAYER_SHAPE, Limits, Measured, Spread
from formats.record import Machine
from harness import locks, terminal
from harness.comparison.statistics import plural
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, limits, machine
from harness.execution.environments import Environment
from harness.report.sections.computing import Products, meaning
from harness.request import options, plan, replicas
from harness.request.flags import sut_name
from results.summary import library
from scenarios.worker.system import cores
from sut import variables
from sut.devices import DEVICES, HOST
from sut.registry import SUTS, framework_of

_USUAL_S = 60  # of one environment on one device
_LEGEND = (
    f"large: two square matrices; layer: {' × '.join(map(str, LAYER_SHAPE))}; one row:"
    " with a matrix larger than the last-level cache, as decoding needs it, and the bytes"
    " that it reads; read: a large array; ±: the repeat that is furthest from the"
    " median. Above ±15% other programs or the host disturbed it: --again measures again"
)
_FIGURES = {
    "large\nGFLOP/s": "matrix_flops",
    "layer\nGFLOP/s": "layer_flops",
    "one row\nGFLOP/s": "thin_flops",
    "it reads\nGB/s": "thin_bytes_per_second",
    "read\nGB/s": "read_bytes_per_second",
}
"""Heading → field of `Limits`."""
_Place = tuple[Environment, str]
"""An environment and the device that it is measured on."""


def measure(flags: argparse.Namespace, command: str) -> int:
    """Measure the limits that are not kept, and show all. → the exit code.

    `command`: the typed one, for those who wait for the machine.
    """
    reporter = terminal.Terminal(flags.quiet)
    here = _with_threads(machine.describe(), flags.threads)
    cache = flags.cache.absolute()
    places = _places(flags, here, reporter)
    kept: dict[_Place, Measured] = {}
    for environment, device in places:
        measured = limits.read(cache, limits.recorded(environment), here, device)
        if measured and not flags.again:
            kept[environment, device] = measured
    left = [place for place in places if place not in kept]
    if left:
        seconds = _USUAL_S * len(left)
        reporter.say(
            f"{plural(len(left), 'environment')} to measure, about {terminal.duration(seconds)},"
            f" until {terminal.until(seconds)}; {len(kept)} kept from earlier"
        )
    failed = False
    for number, (environment, device) in enumerate(left, 1):
        reporter.say(f"[{number}/{len(left)}] {environment.name} on {device}")
        try:
            with locks.machine(reporter.warn, command, _USUAL_S):
                kept[environment, device] = limits.measure(cache, environment, here, device)
        except EnvironmentFailure as e:
            failed = True
            terminal.error(str(e))
    in_order = [kept[place] for place in places if place in kept]
    if flags.json:
        terminal.document({"measured": [asdict(measured) for measured in in_order]})
    else:
        show(in_order, here)
    return 1 if failed else 0


def _with_threads(here: Machine, value: str | None) -> Machine:
    """The machine with as many processors as --threads requests. Raises UsageError if there are
    fewer, or if a variable sets another number.
    """
    spelt = options.spelt("threads", value or options.AUTO)
    if spelt == options.AUTO:
        return here
    threads = int(spelt)
    replicas.check_threads(threads, len(cores.usable()), "a framework")
    plan.check_thread_variables(threads, variables.read_by_any(os.environ))
    return replace(here, usable_threads=threads)


def _places(flags: argparse.Namespace, here: Machine, reporter: terminal.Terminal) -> list[_Place]:
    """The environments to show, made if a flag names them. Raises UsageError, or EnvironmentFailure
    if one cannot be made.
    """
    devices = [HOST]
    if here.accelerators:
        devices += [name for name, device in DEVICES.items() if device.accelerator]
    python = flags.python
    if python and not flags.limits:
        raise UsageError(
            "--python: also name the SUT whose packages to look for: --limits native-torch-eager"
        )
    cache = flags.cache.absolute()
    places = []
    for name, device in _named(flags, devices):
        # No SUT of the environment may run with some environment variables.
        for spec in limits.suts_of(name).values():
            if refusal := variables.refusal(spec, device, os.environ):
                raise UsageError(refusal)
        if python:
            environment = environments.adopt(python, name, device, cache)
        else:
            environment = environments.ensure(cache, name, device, reporter.say)
        places.append((environment, device))
    return places


def _named(flags: argparse.Namespace, devices: Sequence[str]) -> list[tuple[str, str]]:
    """(name of an environment, device) of each environment to show."""
    cache = flags.cache.absolute()
    every = [spec.environment for sut, spec in SUTS.items() if framework_of(sut)]
    if not flags.limits:
        pairs = [
            (name, device)
            for name in dict.fromkeys(every)
            for device in environments.made_for(cache, name)
            if device in devices
        ]
        if not pairs:
            raise UsageError(
                f"no environment is made for {' or '.join(devices)} yet: name SUTs, such as"
                " --limits all, and their environments are made first"
            )
        return pairs
    if flags.limits != "all":
        suts = [sut_name(name, "--limits") for name in flags.limits.split(",")]
        without = [sut for sut in suts if not framework_of(sut)]
        if without:
            raise UsageError(f"--limits {without[0]}: runs no framework, so it has no limits")
        every = [SUTS[sut].environment for sut in suts]
    # Of an interpreter only the list of packages is needed.
    suffix = "in" if flags.python else "txt"
    pairs = []
    for name in dict.fromkeys(every):
        known = [d for d in devices if (environments.LOCKS / f"{name}-{d}.{suffix}").exists()]
        pairs.append((name, known[-1] if known else HOST))
    return pairs


def show(measured: Sequence[Measured], here: Machine) -> None:
    """Print a table for each device, and in words what differs and what was refused."""
    rows = [each for of_one in measured for each in of_one.limits]
    for device in dict.fromkeys(row.device for row in rows):
        of_device = [row for row in rows if row.device == device]
        _show_table(device, of_device)
        for sentence in _explained(of_device, here):
            terminal.line(f"- {sentence}")
    for of_one in measured:
        environment = of_one.made_with["environment"]
        device = of_one.made_with["device"]
        for precision, words in of_one.lacking.items():
            lacks = f"{environment} has no matrix product in {precision} on {device}"
            terminal.line(f"- {lacks}: {words}")
        absent = {name: words for row in of_one.limits for name, words in row.absent.items()}
        for name, words in absent.items():
            terminal.line(f"- {environment} on {device}, {name}: {words}")
    terminal.line(_LEGEND)


def _show_table(device: str, rows: Sequence[Limits]) -> None:
    lines = []
    for row in rows:
        texts = [_text(getattr(row, field)) for field in _FIGURES.values()]
        by = library(row.matrix_products)
        lines.append([row.environment, row.precision, *texts, by])
        for way, spread in row.other_matrix_flops.items():
            blank = [""] * (len(_FIGURES) - 1)
            lines.append([f"  through {way}", row.precision, _text(spread), *blank, ""])
    title = f"What the frameworks reach on {device}: the median of the repeats"
    terminal.table(title, ("environment", "precision", *_FIGURES, "by"), lines)


def _text(spread: Spread) -> str:
    """`471 ±2%`: the median in 10⁹ a second, and the distance of the repeat that is furthest."""
    median = spread.median
    value = median / 1e9
    digits = f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
    furthest = max(spread.maximum - median, median - spread.minimum)
    return f"{digits} ±{furthest / median:.0%}"


def _explained(rows: Sequence[Limits], here: Machine) -> Iterator[str]:
    """Yield why frameworks are far apart in large products."""
    by_precision: dict[str, dict[str, Products]] = {}
    for row in rows:
        of_one = by_precision.setdefault(row.precision, {})
        products = of_one.setdefault(row.framework, Products())
        products.add(row.matrix_flops.median, row.matrix_products, here)
        for way, spread in row.other_matrix_flops.items():
            ratio = spread.median / row.matrix_flops.median
            products.ways.setdefault(way, []).append(ratio)
    for precision, of_one in by_precision.items():
        yield from meaning(precision, of_one)
