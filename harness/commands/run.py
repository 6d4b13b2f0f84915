"""`./run.sh run`, which bare flags mean too: measures one cell, or with --dry-run says what that would be."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cell import END_TOKENS, MODES, PRECISIONS, SIZES
from harness.commands.flags import Parser, add_common, did_you_mean, known_name, model_names, sut_name
from harness.errors import UsageError
from harness.execution.environments import ROOT, is_made
from scenarios.table import SCENARIOS
from sut.devices import DEVICES, accelerators
from sut.registry import SUTS

if TYPE_CHECKING:
    from harness.plan import Request  # it imports numpy, and --help answers at once


_EPILOG = """\
commands (bare flags mean `run`):
  run      measure one cell: ./run.sh --sut keras3-jax --scenario Offline --model mistral
  list     the SUTs, models, sizes and scenarios there are
  audit    judge a run or submission directory from its files alone
  comply   MLPerf's compliance tests on a finished run directory: ./run.sh comply runs/…/valid-1
  pack     the trees of --mode submission runs as one: ./run.sh pack runs --out submission
  doctor   is this machine fit to measure on?
  test     the harness' own tests (arguments go to pytest)

exit codes: 0 good, 1 a cell or an audit failed, 2 usage, 3 environment, 4 internal, 130 interrupted"""


def main(arguments: list[str]) -> int:
    flags = run_parser().parse_args(arguments)
    from harness import output, plan, run
    from harness.execution import machine

    request = plan.resolve(
        sut=sut_name(flags.sut),
        model=known_name(flags.model, model_names(), "--model"),
        scenario=known_name(flags.scenario, SCENARIOS, "--scenario"),
        mode=known_name(flags.mode, MODES, "--mode"),
        size=flags.size and known_name(flags.size, SIZES, "--size"),
        precision=flags.precision and known_name(flags.precision, PRECISIONS, "--precision"),
        batch_size=flags.batch_size,
        seq_len=flags.seq_len,
        eos=flags.eos and known_name(flags.eos, END_TOKENS, "--eos"),
        dataset_file=flags.dataset and flags.dataset.absolute(),
        device=flags.device,
        out=flags.out.absolute(),
        cache=flags.cache.absolute(),
        python=flags.python and flags.python.absolute(),
        weights_folder=flags.weights and flags.weights.absolute(),
        load_seconds=flags.load_seconds,
        submitter=submitter_name(flags.submitter),
        options=sut_options(flags.sut, flags.sut_option),
        command=shlex.join(["./run.sh", *arguments]),
    )
    if flags.dry_run:
        return _dry_run(request, flags.json)
    terminal = output.Terminal(flags.quiet or flags.json)
    for reason in request.reasons:
        terminal.say(reason)
    with terminal.progress:
        found = run.run(request, terminal, machine.command_started_monotonic_ns())
    if flags.json:
        output.document({"cells": [output.result_as_json(found)]})
    else:
        output.result(found, _next(found, request))
    return 0 if found.status == "ok" else 1


class _Once(argparse.Action):
    """A flag that names the cell: given twice, the second would silently win."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise UsageError(f"{option} {value}: given twice, and one command measures one cell; give it once")
        setattr(namespace, self.dest, value)


def run_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh",
        usage="./run.sh [run] --sut SUT --scenario SCENARIO --model MODEL [flags]",
        allow_abbrev=False,
        description="Measure ML frameworks with the official MLPerf LoadGen: speed, accuracy and evidence of what ran.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--sut", required=True, action=_Once, help="framework + backend + execution, such as keras3-jax (see list)")
    add("--scenario", required=True, action=_Once, help=" or ".join(f"{s.name} ({s.measures})" for s in SCENARIOS.values()))
    add("--model", required=True, action=_Once, help="bert, gemma, mistral (see list)")
    add(
        "--mode",
        default="quick",
        help="quick (default): seconds; valid: the round's official settings, 10 minutes and more; submission: the same, to be packed",
    )
    add("--size", help="tiny, base or full; default: full on an accelerator that holds it, else tiny")
    add("--precision", help="float32, tf32 or bfloat16; default: the size's")
    add("--batch-size", type=int, metavar="N", help=f"samples a step in {_batched()}; default: the size's")
    add(
        "--seq-len",
        type=int,
        metavar="N",
        help="length a model that predicts pads its inputs to; default: the size's, or with --dataset that of the longest prompt",
    )
    add("--eos", help="stop: an answer ends at its end token; ignore: it gets all its tokens; default: stop with --dataset and --weights")
    add(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="your prompts: text, one a paragraph; or .jsonl with `prompt` and optional `max_new_tokens`",
    )
    add(
        "--weights",
        type=Path,
        metavar="DIR",
        help="your own weights of the model: a Hugging Face folder with config.json, safetensors and perhaps a tokenizer",
    )
    add("--device", choices=tuple(DEVICES), help=f"default: {' or '.join(accelerators())} where there is an accelerator")
    add("--load-seconds", type=float, metavar="S", help="how long a quick performance test is to last (default 10)")
    add("--sut-option", action="append", default=[], metavar="NAME=VALUE", help="an option of the SUT (see list); may be repeated")
    add("--out", type=Path, default=ROOT / "runs", metavar="DIR", help="where run directories go (default: runs/ beside run.sh)")
    add("--python", type=Path, metavar="PATH", help="use this interpreter for the SUT, such as a vendor's GPU image; nothing is installed")
    add("--submitter", default="unofficial", metavar="NAME", help="the submitter's folder in the tree (default: unofficial)")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add_common(parser)
    return parser


def _batched() -> str:
    """The scenarios whose batches may be larger than one."""
    return " or ".join(s.name for s in SCENARIOS.values() if not s.one_sample_a_query)


def submitter_name(name: str) -> str:
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise UsageError(f"--submitter {name!r}: letters, digits, - and _ only, since it names a folder")
    return name


def sut_options(sut: str, given: list[str]) -> dict[str, Any]:
    """`--sut-option name=value`, checked against what the registry says the SUT takes."""
    known = SUTS[sut_name(sut)].options
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name in known and not equals:
            raise UsageError(f"--sut-option {text}: a value is needed, {name}=…")
        if name not in known:
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"--sut-option {text}: {sut} has no such option{did_you_mean(name, known)}; {there}")
        kind = known[name][0]
        if isinstance(kind, tuple):
            found[name] = known_name(value, kind, f"--sut-option {name}=")
            continue
        try:
            found[name] = kind(value)
        except ValueError:
            raise UsageError(f"--sut-option {text}: the value is {'a number' if kind is float else 'a whole number'}") from None
    return found


def _next(found: Any, request: Any) -> str:
    """The command a user would want now."""
    from harness import output
    from harness.plan import LONGEST_TIMES

    if found.status == "skipped":
        return "the same command, changed as the status line says"
    if found.status in ("error", "oom"):
        log = f"; the worker's own words: {output.near(found.directory)}/raw/*/worker.log" if found.directory else ""
        return f"the same command goes on from here: {request.command}{log}"
    if found.status == "unsupported":
        return "./run.sh list  (what there is), or another --precision or --device"
    if found.status == "invalid":
        return f"./run.sh audit {shlex.quote(output.near(found.directory))} --level {found.mode}"
    if request.mode == "quick" and "early stopping" in (found.loadgen or ""):
        longer = 80e-3 * found.metrics["ms_per_step"] / LONGEST_TIMES  # room for 80 queries, where 64 are needed
        enough = f"--load-seconds {float(f'{longer:.2g}'):g}"
        return f"{_without(request.command, '--load-seconds')} {enough}  (LoadGen had too few queries to call it VALID)"
    if request.mode == "quick":
        return f"{_without(request.command, '--load-seconds')} --mode valid  (10 minutes and more, by the round's settings)"
    if request.mode == "submission":
        return f"./run.sh pack {shlex.quote(output.near(found.directory))} --out submission  (and other cells' directories)"
    return f"./run.sh audit {shlex.quote(output.near(found.directory))} --level valid"


def _without(command: str, flag: str) -> str:
    """The command less a flag and its value."""
    words = shlex.split(command)
    kept = [w for n, w in enumerate(words) if w != flag and (n == 0 or words[n - 1] != flag) and not w.startswith(f"{flag}=")]
    return shlex.join(kept)


def _dry_run(request: Any, as_json: bool) -> int:
    from harness import output, plan, reference
    from harness.execution import environments
    from harness.inputs import dataset

    prompts = len(dataset.read(request.dataset)[0]) if request.dataset else None
    refused = plan.unsupported(request)
    if request.python:
        environments.adopt(request.python, request.spec.environment, request.rules.round, request.device)
    summary = planned(request, prompts, refused or plan.memory_shortage(request, request.precision), reference.shortage(request))
    if as_json:
        output.document(summary)
    else:
        output.table("Plan (nothing was made)", ("what", "value"), ([k.replace("_", " "), str(v)] for k, v in summary.items()))
    return 0


def planned(request: Request, prompts: int | None, refused: str | None, no_reference: str | None) -> dict[str, Any]:
    """What a run would do, for --dry-run: nothing is made for it, so weights and inputs have no digest yet."""
    limits = request.limits(request.samples if prompts is None else prompts)
    environments = dict.fromkeys((request.spec.environment, SUTS[request.spec.reference].environment))
    missing = [name for name in environments if not is_made(request.cache, name, request.device, request.rules.round)]
    return {
        "sut": request.sut,
        "model": request.model.name,
        "size": request.size.name,
        "task": request.model.task,
        "scenario": request.scenario,
        "mode": request.mode,
        "precision": request.precision,
        "batch_size": request.batch_size,
        "device": request.device,
        "benchmark": f"{request.benchmark} (mapped to {request.official})",
        "samples": request.samples if prompts is None else prompts,
        "min_duration_s": limits.min_duration_ms / 1e3,
        "min_query_count": limits.min_query_count,
        "weights": f"{request.size.parameters / 1e6:,.1f} M parameters, {request.size.weight_bytes(request.precision) / 1e6:,.1f} MB"
        + (f", of {request.weights.path}" if request.weights else ""),
        "environments_to_make": ", ".join(missing) or "none",
        "reference": f"{request.spec.reference} in float32; {no_reference or 'made on first use of these inputs'}",
        "refused": refused or "no",
        "out": str(request.out),
        "why": "; ".join(request.reasons),
    }
