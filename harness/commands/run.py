"""`./run.sh run` measures one cell, or shows the plan with --dry-run. Flags without a command mean
`run`.
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from harness.commands import COMMANDS
from harness.execution.environments import is_made
from harness.request import options
from harness.request.flags import Parser, add_output
from sut.registry import spec_of

if TYPE_CHECKING:
    from harness.request.request import Request  # it imports numpy, which would slow --help down


_EPILOG = f"""\
commands (bare flags mean `run`):
{"".join(f"  {name:<12}{text}{chr(10)}" for name, text in COMMANDS.items())}
exit codes: 0 good, 1 a cell or an audit failed, 2 usage, 3 environment,
4 nothing proven (compare), 70 internal, 130 interrupted"""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = run_parser().parse_args(arguments)
    from harness import terminal
    from harness.comparison import compare
    from harness.execution import machine
    from harness.measurement import run
    from harness.request import plan

    request = plan.resolve(options.read(flags, shlex.join(["./run.sh", *arguments])))
    if flags.dry_run:
        return _dry_run(request, flags.json)
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
        prog="./run.sh",
        usage="./run.sh [run] --sut SUT --scenario SCENARIO --model MODEL [flags]",
        allow_abbrev=False,
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
    """The cost of the run, in a sentence."""
    from harness import terminal
    from harness.request import estimate

    cost = estimate.of(request)
    once = "".join(
        f", {name} {terminal.duration(seconds)}" for name, (seconds, _) in cost.once.items()
    )
    disk = cost.disk_bytes + sum(size for _, size in cost.once.values())
    return (
        f"about {terminal.duration(cost.all_seconds)} in all{once}; {disk / 1e6:,.0f} MB on disk, "
        f"{cost.memory_bytes / 1e9:.1f} GB of memory ({cost.basis})"
    )


def _next(result: Any, request: Any) -> str:
    """The command that a user probably needs next."""
    from harness import terminal
    from harness.request.request import LONGEST_TIMES

    if result.status == "skipped":
        return "the same command, changed as the status line says"
    if result.status == "oom":
        cell = result.cell
        flags = {
            "--batch-size": cell.batch_size > 1,
            "--size": not request.weights,
            "--seq-len": cell.seq_len is not None,
        }
        smaller = " or ".join(flag for flag, helps in flags.items() if helps)
        return f"a smaller {smaller}" if smaller else "a machine with more memory"
    if result.status == "error":
        log = (
            f"; the worker's own words: {terminal.near(result.directory)}/raw/*/worker.log"
            if result.directory
            else ""
        )
        return f"the same command goes on from here: {request.options.command}{log}"
    if result.status == "unsupported":
        return "./run.sh list  (what there is), or another --precision or --device"
    if result.status == "invalid":
        return f"./run.sh audit {shlex.quote(terminal.near(result.directory))} --mode {result.mode}"
    plain = _without(request.options.command, "--duration", "--load-seconds")
    if request.options.mode == "quick" and "early stopping" in (result.loadgen or ""):
        # Room for 80 queries; 64 are needed.
        longer = 80e-3 * result.metrics["ms_per_step"] / LONGEST_TIMES
        enough = f"--duration {float(f'{longer:.2g}'):g}"
        return f"{plain} {enough}  (LoadGen had too few queries to call it VALID)"
    if request.trains:
        audit = f"./run.sh audit {shlex.quote(terminal.near(result.directory))} --mode valid"
        return f"{plain} --mode valid  (100 steps)" if request.options.mode == "quick" else audit
    if request.options.mode == "quick":
        return _all_suts(plain, base=request.size.name == "tiny")
    if request.options.mode == "submission":
        return (
            f"./run.sh pack {shlex.quote(terminal.near(result.directory))} --out submission  (and"
            " other cells' directories)"
        )
    return f"./run.sh audit {shlex.quote(terminal.near(result.directory))} --mode valid"


def _all_suts(command: str, base: bool) -> str:
    """The sweep that shows which SUT is fastest and by how much."""
    rest = shlex.split(
        _without(command, "--sut", "--sut-option", "--python", *(("--size",) if base else ()))
    )
    words = [word for word in rest[1:] if word not in ("run", "--quiet", "--json")]
    sweep = shlex.join(
        [rest[0], "sweep", "--sut", "all", *words, *(("--size", "base") if base else ())]
    )
    return (
        f"{sweep}  (all SUTs in turns; or this command with --mode valid: 10 minutes and more, by"
        " MLPerf's settings)"
    )


def _without(command: str, *flags: str) -> str:
    """The command without these flags and their values."""
    words = shlex.split(command)
    kept = [
        w
        for n, w in enumerate(words)
        if not {w, w.partition("=")[0]} & set(flags) and (n == 0 or words[n - 1] not in flags)
    ]
    return shlex.join(kept)


def _dry_run(request: Any, as_json: bool) -> int:
    from harness import terminal
    from harness.execution import environments
    from harness.inputs import architectures
    from harness.measurement import reference
    from harness.request import plan

    prompts = (
        architectures.dataset_of(request.model, request.trains).count(request.options.dataset)
        if request.options.dataset
        else None
    )
    obstacle = plan.unsupported(request)
    if request.options.python:
        environments.adopt(
            request.options.python, request.spec.environment, request.rules.round, request.device
        )
    refused = obstacle or plan.memory_shortage(request, request.precision)
    summary = planned(
        request, prompts, refused, reference.shortage(request), None if obstacle else _cost(request)
    )
    if as_json:
        terminal.document(summary)
    else:
        terminal.table(
            "Plan (nothing was made)",
            ("what", "value"),
            ([k.replace("_", " "), str(v)] for k, v in summary.items()),
        )
    return 0


def planned(
    request: Request,
    prompts: int | None,
    obstacle: str | None,
    no_reference: str | None,
    cost: str | None,
) -> dict[str, Any]:
    """Return the plan of a run, for --dry-run. Nothing is written, so weights and inputs have no
    digest yet.
    """
    samples = request.samples if prompts is None or request.trains else prompts
    limits = request.limits(samples)
    environments = dict.fromkeys((request.spec.environment, spec_of(request.reference).environment))
    if request.options.python:
        environments.pop(request.spec.environment, None)
    missing = [
        name
        for name in environments
        if not is_made(request.options.cache, name, request.device, request.rules.round)
    ]
    return {
        "sut": request.options.sut,
        "model": request.model.name,
        "size": request.size.name,
        "task": request.task,
        "scenario": request.options.scenario,
        "mode": request.options.mode,
        "precision": request.precision,
        "batch_size": request.batch_size,
        "device": request.device,
        "benchmark": (
            request.benchmark
            if request.trains
            else f"{request.benchmark} (mapped to {request.official})"
        ),
        "samples": samples,
        "duration_s": (limits.planned_ms or limits.min_duration_ms) / 1e3,
        "min_duration_s": limits.min_duration_ms / 1e3,
        "min_query_count": limits.min_query_count,
        "weights": (
            (f"{request.size.parameters / 1e6:,.1f} M parameters, " * (request.size.parameters > 0))
            + f"{request.size.weight_bytes(request.precision) / 1e6:,.1f} MB"
            + (f", of {request.weights.path}" if request.weights else "")
        ),
        "environments_to_make": ", ".join(missing) or "none",
        "reference": (
            f"{request.reference} in float32; {no_reference or 'made on first use of these inputs'}"
        ),
        "cost": cost,
        "refused": obstacle or "no",
        "out": str(request.options.out),
        "why": "; ".join(request.reasons),
    }
