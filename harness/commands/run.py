"""`./run.sh run` measures one cell, or shows the plan with --dry-run. Flags without a command mean
`run`.
"""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from formats.cell import fields_with
from formats.outcome import CUT_SHORT
from harness.commands import COMMANDS
from harness.request import options
from harness.request.flags import Parser, add_output, without
from sut.registry import spec_of

if TYPE_CHECKING:
    from harness.request.request import Request  # it imports numpy, which would slow --help down


_EPILOG = f"""\
commands (bare flags mean `run`):
{"".join(f"  {name:<12}{text}{chr(10)}" for name, text in COMMANDS.items())}
exit codes: 0 good, 1 a cell or an audit failed, 2 usage, 3 environment,
4 nothing proven (compare), 70 internal, 130 interrupted"""


_OF_FEW_QUERIES = ("percentile", "plain percentile")
"""Estimates of a latency for which LoadGen had too few queries, if it calls the run INVALID."""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = run_parser().parse_args(arguments)
    from harness.request import plan

    request = plan.resolve(options.read(flags, shlex.join(["./run.sh", *arguments])))
    if flags.dry_run:
        return _dry_run(request, flags.json)
    from harness import terminal
    from harness.comparison import compare  # imports scipy, which no plan needs
    from harness.execution import machine
    from harness.measurement import run

    reporter = terminal.Terminal(flags.quiet)
    for reason in request.reasons:
        reporter.say(reason)
    if not plan.unsupported(request):
        reporter.say(_cost(request))
    with reporter.progress:
        result = run.run(request, reporter, machine.command_started_monotonic_ns())
    if flags.json:
        terminal.document({"cells": [terminal.result_as_json(result)]})
    else:
        terminal.result(result, _next(result, request), compare.beside_earlier(result))
    return 0 if result.status == "ok" else 1


def run_parser() -> argparse.ArgumentParser:
    """The parser of the command's flags."""
    parser = Parser(
        usage="./run.sh [run] --sut SUT --scenario SCENARIO --model MODEL [flags]",
        description=(
            "Measure ML frameworks with the official MLPerf LoadGen: speed, accuracy and evidence"
            " of what ran."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_flags(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and do nothing"
    )
    add_output(parser)
    return parser


def _cost(request: Any) -> str:
    """The cost of the run, in a sentence, and in another one if its test takes too long."""
    from harness import terminal
    from harness.request import estimate

    cost = estimate.of(request)
    setup = ""
    disk_bytes = cost.disk_bytes
    for name, (seconds, size_bytes) in cost.once.items():
        setup += f", {name} {terminal.duration(seconds)}"
        disk_bytes += size_bytes
    text = (
        f"about {terminal.duration(cost.all_seconds)} in all{setup}; {disk_bytes / 1e6:,.0f}"
        f" MB on disk, {cost.memory_bytes / 1e9:.1f} GB of memory ({cost.basis})"
    )
    too_short = estimate.too_short(request)
    return f"{text}; {too_short}" if too_short else text


def _next(result: Any, request: Any) -> str:
    """The command that a user probably needs next."""
    from harness import terminal
    from harness.request import serving
    from harness.request.request import LONGEST_TIMES

    directory = shlex.quote(terminal.near(result.directory))
    cell = result.cell
    if result.status == "oom":
        # What may help a cell that was out of memory.
        flags = []
        if cell.batch_size > 1:
            flags.append("--batch-size")
        if not request.weights:
            flags.append("--size")
        if cell.seq_len is not None:
            flags.append("--seq-len")
        if not flags:
            return "a machine with more memory"
        return f"a smaller {' or '.join(flags)}"
    if CUT_SHORT in result.refused and request.options.dataset:
        command = without(request.options.command, "--eos")
        return f"{command} --eos stop  (an answer has the tokens that the engine gives)"
    if result.status == "skipped" or CUT_SHORT in result.refused:
        return "the same command, changed as the status line says"
    if result.status == "error":
        command = request.options.command
        if not result.directory:
            return f"the same command continues from here: {command}"
        return (
            f"the same command continues from here: {command}; the output of the worker:"
            f" {directory}/raw/*/worker.log"
        )
    if result.status == "unsupported":
        return "./run.sh list  (shows what there is), or another --precision or --device"
    if result.status == "invalid":
        return f"./run.sh audit {directory} --mode {result.mode}"
    plain = without(request.options.command, "--duration")
    mode = request.options.mode
    estimate = result.metric.estimate if result.metric else ""
    if mode == "quick" and result.loadgen != "VALID" and estimate in _OF_FEW_QUERIES:
        # Room for 80 queries, of which 64 are needed; MultiStream needs 662.
        queries = 80 if cell.batch_size == 1 else 800
        longer_s = 1e-3 * queries * result.metrics["ms_per_step"] / LONGEST_TIMES
        duration = float(f"{longer_s:.2g}")
        return f"{plain} --duration {duration:g}  (LoadGen had too few queries to call it VALID)"
    if mode == "quick" and request.trains:
        return f"{plain} --mode valid  (100 steps)"
    if mode == "quick":
        limits = [getattr(request.options, name) for name in serving.LIMITS]
        is_whole = all(limit is None or limit.is_integer() for limit in limits)
        return _all_suts(plain, mid=request.size.name == "tiny", valid=is_whole)
    if mode == "submission":
        return f"./run.sh pack {directory} --out submission  (and other cells' directories)"
    return f"./run.sh audit {directory} --mode valid"


def _all_suts(command: str, mid: bool, valid: bool) -> str:
    """The sweep that shows which SUT is fastest and by how much.

    `valid`: whether mode valid takes the cell.
    """
    left_out = ["--sut", "--sut-option", "--python", "--with", "--slurm"]
    if mid:
        left_out.append("--size")
    program, *rest = shlex.split(without(command, *left_out))
    words = [program, "sweep", "--sut", "all"]
    words += [word for word in rest if word not in ("run", "--quiet", "--json")]
    # In a sweep, --on would spread comparisons over nodes.
    words = [re.sub("^--on(?=$|=)", "--replicas-on", word) for word in words]
    if mid:
        words += ["--size", "mid"]
    longer = ""
    if valid:
        longer = "; or this command with --mode valid: 10 minutes and more, by MLPerf's settings"
    return f"{shlex.join(words)}  (all SUTs in turns{longer})"


def _dry_run(request: Any, as_json: bool) -> int:
    from harness import terminal
    from harness.execution import environments
    from harness.request import estimate, plan

    options_ = request.options
    obstacle = plan.unsupported(request)
    if options_.python:
        environments.adopt(options_.python, request.spec.environment, request.device)
    cost = None if obstacle else _cost(request)
    shortage = plan.memory_shortage(request, request.precision) or estimate.disk_shortage(request)
    refused = obstacle or shortage
    summary = planned(request, refused, _without_reference(request), cost)
    if as_json:
        terminal.document(summary)
        return 0
    rows = [[name.replace("_", " "), str(value)] for name, value in summary.items()]
    terminal.table("Plan (nothing was made)", ("what", "value"), rows)
    return 0


def _without_reference(request: Request) -> str | None:
    """Why there will be no reference. None: there will be one, as far as that is known."""
    from harness.request import plan

    shortage = plan.memory_shortage(request, spec_of(request.references[0]).precisions[0])
    if not shortage:
        return None
    from harness.measurement.reference import NONE

    return NONE + shortage


def planned(
    request: Request,
    obstacle: str | None,
    no_reference: str | None,
    cost: str | None,
) -> dict[str, Any]:
    """Return the plan of a run, for --dry-run. Nothing is written, so weights and inputs have no
    digest yet.
    """
    from harness.request.estimate import to_make

    samples = request.samples if request.trains else request.count or request.samples
    limits = request.limits(samples)
    benchmark = request.benchmark
    if not request.trains and request.official_run is None:
        benchmark += f" (mapped to {request.official})"
    at_most = "at most " if request.model.file else ""
    no_reference = no_reference or "computed at the first use of these inputs"
    megabytes = f"{request.size.weight_bytes(request.precision) / 1e6:,.1f} MB"
    brought = request.weights or request.model.file
    source = f", of {brought.path}" if brought else ""
    official: dict[str, str] = {}
    if run := request.official_run:
        official = {
            "scenarios": f"{run.suite}: {run.scenarios}",
            "accuracy": run.target,
            "division": run.division,
            "eligibility": run.eligibility,
        }
    cell = asdict(request.cell())
    unknown = fields_with("inputs")
    known = {name: value for name, value in cell.items() if value and name not in unknown}
    return {
        **known,
        "mode": request.options.mode,
        "benchmark": benchmark,
        **official,
        "samples": samples,
        "duration_s": (limits.planned_ms or limits.min_duration_ms) / 1e3,
        "min_duration_s": limits.min_duration_ms / 1e3,
        "min_query_count": limits.min_query_count,
        "weights": f"{request.size.facts}, {at_most}{megabytes}{source}",
        "environments_to_make": ", ".join(to_make(request)) or "none",
        "reference": f"{_references(request)}; {no_reference}",
        "cost": cost,
        "refused": obstacle or "no",
        "out": str(request.options.out),
        "why": "; ".join(request.reasons),
    }


def _references(request: Request) -> str:
    precisions = (spec_of(name).precisions[0] for name in request.references)
    named = zip(request.references, precisions, strict=True)
    return " and ".join(f"{name} in {precision}" for name, precision in named)
