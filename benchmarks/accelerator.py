"""This benchmark measures what an accelerator does with the cells of harness/recipes/accelerator.toml, in a number of minutes.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m benchmarks.accelerator --minutes 30 [--device cuda] [--python python3]

The first `./run.sh list` makes that environment. The cells that matter most come first. Each cell runs in a process and a time
box of its own. After each cell accelerator.json and accelerator.md in --out are written anew. However the program ended, the same command
goes on from there. Cells that failed are tried again after all others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from benchmarks import accelerator_page
from compliance.findings.check import Verdict
from compliance.rules import CURRENT
from formats import reading
from formats.result import Result
from formats.writing import write_json
from harness.commands import doctor
from harness.comparison.compare import published_for
from harness.errors import HarnessError
from harness.execution import environments
from harness.execution.environments import ROOT
from harness.execution.interpreter import die_with_parent
from harness.inputs import checkpoint, models
from harness.inputs.models import Size
from harness.sweep import cells, recipe
from harness.sweep.cells import Series
from harness.terminal import duration
from sut.devices import DEVICES
from sut.registry import REFERENCE, spec_of

# The first cell of a model and size makes the reference too.
_FIRST_TIMES = 2
_GRACE_S = 20
_FINAL = ("ok", "invalid", "oom", "too slow")
"""Statuses after which a cell is not tried again by a later command; what is left has a cause outside of the cell, as a rule."""
_FEWEST_TOKENS = 8  # of an answer, below which no share of bandwidth is given
_MOST_CUT = 2  # so often the end of the time may cut a cell off before the others go first
# Copies 1 GiB on the device ten times in a row, and waits then; prints the bytes read and written a second, of the fastest of four rows.
_COPY = """
import sys, time, torch
source = torch.ones(1 << 28, device=sys.argv[1])
target = torch.empty_like(source)
best = 0.0
for _ in range(4):
    start = time.perf_counter()
    for _ in range(10):
        target.copy_(source)
    target[-1].item()
    best = max(best, 20 * source.nbytes / (time.perf_counter() - start))
print(best)
"""


def main() -> int:
    """Measure until the list or the time is at its end. → 0."""
    flags = _flags()
    deadline_s = time.monotonic() + 60 * flags.minutes
    flags.out.mkdir(parents=True, exist_ok=True)
    state = _state(flags)
    _hold_the_driver()
    series = _series(flags)
    _save(flags, state, series)
    state["doctor"] = [
        f"{c.verdict.value} {c.name}: {c.detail}" for c in doctor.examine(flags.cache, CURRENT) if c.verdict is not Verdict.NA
    ]
    _save(flags, state, series)
    for one in _order(series, state):
        obstacle = one.obstacle or _lacks(one, flags)
        if not obstacle and time.monotonic() > deadline_s - flags.least:
            print("the time is up; the same command goes on", file=sys.stderr)
            break
        print(f"[{series.index(one) + 1}/{len(series)}] {one.label}, {duration(deadline_s - time.monotonic())} left", file=sys.stderr)
        entry = {"status": "unsupported", "reason": obstacle} if obstacle else _measure(one, series, state, flags, deadline_s)
        if entry is None:
            state["cut"][one.command] = state["cut"].get(one.command, 0) + 1
        else:
            state["cells"][one.command] = entry
            print(f"    {entry['status']}: {entry['reason'] or _speed(entry)}", file=sys.stderr)
        _save(flags, state, series)
    print(flags.out / "accelerator.md")
    return 0


def _hold_the_driver() -> None:
    """Leave NVML open until this process ends: where the driver is not persistent, each opening starts the GPU anew."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerator", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, required=True, help="measure no longer than this")
    parser.add_argument("--device", choices=tuple(DEVICES), default="cuda")
    parser.add_argument("--sut", metavar="A,B", help="of the list's SUTs only these")
    parser.add_argument("--model", metavar="A,B", help="of its models only these")
    parser.add_argument("--size", help="take this size in place of full")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has the frameworks; see ./run.sh --help")
    parser.add_argument("--box", type=float, default=600, metavar="S", help="a cell that takes longer is given up (default 600)")
    parser.add_argument("--least", type=float, default=60, metavar="S", help="no cell is begun with less time left (default 60)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "accelerator")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache")
    flags = parser.parse_args()
    flags.out, flags.cache = flags.out.absolute(), flags.cache.absolute()
    return flags


def _state(flags: argparse.Namespace) -> dict[str, Any]:
    """What an earlier command found out in this folder."""
    path = flags.out / "accelerator.json"
    new: dict[str, Any] = {"schema": "accelerator-1", "doctor": [], "bytes_per_second": None, "made": {}, "cut": {}, "cells": {}}
    return {**new, **(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})}


def _order(series: list[Series], state: Mapping[str, Any]) -> list[Series]:
    """List the cells that are left to measure: first those never begun or cut off once, then those cut off more often or failed."""
    left = [one for one in series if state["cells"].get(one.command, {}).get("status") not in _FINAL]
    return sorted(left, key=lambda one: one.command in state["cells"] or state["cut"].get(one.command, 0) >= _MOST_CUT)


def _lacks(one: Series, flags: argparse.Namespace) -> str:
    """Return what the interpreter of --python lacks for a cell, in one sentence. Empty if nothing is known to be lacking."""
    request = one.request
    if request is None or not flags.python or request.spec.environment == "core":
        return ""
    return _not_adopted(request.spec.environment, request.device, flags.python, flags.cache)


@cache
def _not_adopted(environment: str, device: str, python: str, cache: Path) -> str:
    try:
        environments.adopt(python, environment, CURRENT, device, cache)
    except HarnessError as e:
        return str(e)
    return ""


def _series(flags: argparse.Namespace) -> list[Series]:
    """The list's cells, in its order."""
    grids = []
    for grid in recipe.read("accelerator").grids:
        changed = {**grid, "device": [flags.device]}
        if flags.size and grid["size"] == ["full"]:
            changed["size"] = [flags.size]
        grids.append(changed)
    wanted = [(name, getattr(flags, name).split(",")) for name in ("sut", "model") if getattr(flags, name)]
    every = cells.make(grids, {"out": [str(flags.out)], "cache": [str(flags.cache)]}, twin=False)
    return [one for one in every if all(one.words[one.words.index(f"--{name}") + 1] in of for name, of in wanted)]


def _measure(
    one: Series, series: list[Series], state: dict[str, Any], flags: argparse.Namespace, deadline_s: float
) -> dict[str, Any] | None:
    """What came of a cell. None: the time was up before its end, and the same command goes on with it."""
    try:
        _prepare(one, state, flags)
    except HarnessError as e:  # a disk that is too small for the weights
        return {"status": "error", "reason": str(e)}
    if state["bytes_per_second"] is None:
        state["bytes_per_second"] = _bytes_per_second(flags)
    assert one.request is not None  # _prepare has seen it
    alike = [each.command for each in series if each.request and each.request.benchmark == one.request.benchmark]
    first = not any(state["cells"].get(command, {}).get("status") in ("ok", "invalid") for command in alike)
    box_s = flags.box * (_FIRST_TIMES if first else 1)
    left_s = deadline_s - time.monotonic()
    if left_s < flags.least:  # making the weights took the time
        return None
    start_s = time.monotonic()
    code, output, error = _run(one, flags, min(box_s, left_s))
    seconds = round(time.monotonic() - start_s, 1)
    if code is None and left_s < box_s:
        return None
    if code is None:
        return {"status": "too slow", "reason": f"not done within {box_s:.0f} s", "seconds": seconds}
    try:
        result = reading.result(json.loads(output)["cells"][0])
    except (ValueError, KeyError, IndexError):
        return {"status": "error", "reason": (error.strip().splitlines() or [f"exit code {code}"])[-1], "seconds": seconds}
    return {"seconds": seconds, **_figures(result, state["bytes_per_second"])}


def _prepare(one: Series, state: dict[str, Any], flags: argparse.Namespace) -> None:
    """Make environments and weights, outside of every time box."""
    request = one.request
    assert request is not None
    for name in {request.spec.environment, spec_of(request.spec.reference).environment} - {"core"}:
        with suppress(HarnessError):  # the cell itself will say why
            if not flags.python:
                environments.ensure(flags.cache, name, request.device, CURRENT, environments.say_on_stderr)
    known = state["made"].get(request.benchmark)
    if (
        not request.spec.reads_weights or known and Path(known.get("path", "nowhere")).exists()
    ):  # on another machine they are to be made again
        return
    start_s = time.monotonic()
    made = checkpoint.ensure(request.model, request.size, flags.cache, lambda text: print(f"    {text}", file=sys.stderr))
    seconds = round(time.monotonic() - start_s, 1)
    state["made"][request.benchmark] = {"path": str(made.path), "bytes": made.bytes, "seconds": seconds}


def _bytes_per_second(flags: argparse.Namespace) -> float:
    """Measure how many bytes a second the device copies in its own memory, read and written ones together. 0 where torch cannot tell."""
    name = spec_of(REFERENCE).environment
    try:
        if flags.python:
            environment = environments.adopt(flags.python, name, CURRENT, flags.device, flags.cache)
        else:
            environment = environments.ensure(flags.cache, name, flags.device, CURRENT, environments.say_on_stderr)
        words = subprocess.run(
            [environment.python, "-c", _COPY, flags.device], capture_output=True, text=True, check=True, timeout=120
        ).stdout
        return float(words)
    except (HarnessError, subprocess.SubprocessError, ValueError) as e:
        print(f"    the device's memory could not be timed: {e}", file=sys.stderr)
        return 0.0


def _run(one: Series, flags: argparse.Namespace, seconds: float) -> tuple[int | None, str, str]:
    """→ (exit code, or None where the time was up; standard output; standard error)."""
    words = [*one.words, "--out", str(flags.out), "--cache", str(flags.cache), *(["--python", flags.python] if flags.python else [])]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *words, "--json"],
        env={**_kernels_kept(flags), **os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        output, error = process.communicate(timeout=seconds)
        return process.returncode, output, error
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # the harness ends its worker and keeps what was measured
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_GRACE_S)
        return None, "", ""
    except KeyboardInterrupt:  # Ctrl-C reached the harness too, which keeps what was measured
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        raise
    finally:
        process.kill()
        process.wait()


def _kernels_kept(flags: argparse.Namespace) -> dict[str, str]:
    """Variables by which JAX keeps what it compiled for a GPU, as PyTorch does: each cell has two workers, and would compile all twice."""
    if not DEVICES[flags.device].accelerator:
        return {}
    return {"JAX_COMPILATION_CACHE_DIR": str(flags.cache / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def bandwidth_share(result: Result, bytes_per_second: float) -> float | None:
    """The share of the bytes that the device copies in a second which reading the weights takes, once for each step of a batch.

    The cache of keys and values is not counted. None of a cell that generates fewer than 8 tokens: most of its time is the prompt's.
    """
    cell = result.cell
    size = models.load(cell.model).sizes[cell.size]
    new_tokens = cell.new_tokens or size.inputs.get("new_tokens", 0)
    if not bytes_per_second or new_tokens < _FEWEST_TOKENS or "tokens_per_second" not in result.metrics:
        return None
    steps_per_second = result.metrics["tokens_per_second"] / cell.batch_size
    return _bytes_per_step(size, cell.precision) * steps_per_second / bytes_per_second


def _bytes_per_step(size: Size, precision: str) -> float:
    """The bytes of all weights but the tables of which a token needs one row. An embedding that is the head too is read whole."""
    tables = ["wpe.weight"]
    if not size.config.get("tie_word_embeddings", True):
        tables.append("model.embed_tokens.weight")
    rows = sum(math.prod(tensor.shape) for tensor in size.tensors if tensor.name in tables)
    return size.weight_bytes(precision) * (1 - rows / size.parameters)


def _figures(result: Result, bytes_per_second: float) -> dict[str, Any]:
    """What the summary shows of a result."""
    metrics, cell = result.metrics, result.cell
    joules = {name.removeprefix("joules_per_sample_"): j for name, j in metrics.items() if name.startswith("joules_per_sample_")}
    return {
        "status": str(result.status),
        "reason": result.reason,
        "metrics": dict(metrics),
        "published_ms_per_step": theirs.ms_per_step if (theirs := published_for(cell).get(cell.sut)) and cell.size == "full" else None,
        "bandwidth_share": bandwidth_share(result, bytes_per_second),
        "peak_device_bytes": result.peak_device_bytes,
        "peak_host_bytes": result.peak_host_bytes,
        "joules_per_sample": joules,
        "clocks": list(result.energy.get("clocks", ())),
        "accuracy": result.accuracy and {k: result.accuracy[k] for k in ("metric", "value", "threshold", "passed")},
        "evidence": result.evidence.get("sentence"),
        "evidence_after": result.evidence.get("after"),
        "until_measuring": result.seconds.get("until_measuring"),
        "unranked": list(result.unranked),
        "directory": result.directory,
    }


def _save(flags: argparse.Namespace, state: Mapping[str, Any], series: list[Series]) -> None:
    write_json(flags.out / "accelerator.json", state)
    partial = flags.out / "accelerator.md.partial"
    partial.write_text("\n".join(accelerator_page.markdown(flags.device, state, series)) + "\n", encoding="utf-8")
    partial.replace(flags.out / "accelerator.md")


def _speed(entry: Mapping[str, Any]) -> str:
    metrics = entry["metrics"]
    return f"{metrics['samples_per_second']:,.4g} samples/s" if "samples_per_second" in metrics else "no figure"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        sys.exit(130)
