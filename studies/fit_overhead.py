"""What the harness costs a training: a table in Markdown.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m studies.fit_overhead \\
        [--suts …] [--size mid --batch-size 8 --seq-len 128]

The first `./run.sh list` creates that environment. A SUT's `fit` with the harness' timer around it
is compared with the framework's bare loop, on the same model and batches. The model is bert. One
process for each SUT loads the model, and calls both loops in turns (studies/fit_loops.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compliance import rules
from formats.job import PERFORMANCE, Job, Limits
from formats.writing import write_json
from harness.comparison import statistics
from harness.execution import environments
from harness.inputs import checkpoint, dataset
from harness.measurement import reference
from harness.request import plan
from harness.request.options import Options
from harness.request.request import Request
from studies import fit_loops
from sut.contract import Workload
from sut.registry import FIT

_SUTS = ("keras3-jax", "native-torch-eager", "keras3-tensorflow")
_MORE = ("keras3-tensorflow-graph", "keras3-torch", "native-torch-compile")
_GOAL = 0.99


def main(arguments: Sequence[str]) -> None:
    """Run the measurements that the flags select, and print a row for each SUT."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suts", nargs="+", default=list(_SUTS), choices=(*_SUTS, *_MORE))
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--steps", type=int, default=20, help="of a call (default 20)")
    parser.add_argument(
        "--rounds", type=int, default=10, help="how often each loop is called (default 10)"
    )
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args(arguments)
    _say(
        "| SUT, bert | bare loop | in the harness | of that in our code | speed in the harness over"
        " that of the bare loop | goal |"
    )
    _say("|---|---|---|---|---|---|")
    for sut in flags.suts:
        with tempfile.TemporaryDirectory() as folder:
            _say(row(sut, flags, Path(folder)))


def row(sut: str, flags: argparse.Namespace, folder: Path) -> str:
    """Return the times of one SUT's loops, as a row of the table."""
    cell = {
        "size": flags.size,
        "batch_size": flags.batch_size,
        "seq_len": flags.seq_len,
        "cache": flags.cache,
    }
    request = plan.resolve(Options(sut=sut, model="bert", scenario="Fit", **cell))
    environment = environments.ensure(
        flags.cache,
        request.spec.environment,
        request.device,
        rules.CURRENT,
        environments.say_on_stderr,
    )
    write_json(folder / "job.json", _job(request, flags, folder))
    done = subprocess.run(
        [environment.python, "-m", "studies.fit_loops", folder / "job.json", str(flags.rounds)],
        cwd=environments.ROOT,
        env={**os.environ, **request.spec.process_env, "PYTHONPATH": str(environments.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{sut}: {done.stderr[-3000:]}")
    with np.load(folder / "times.npz") as times:
        bare = (times["bare"] / 1e6).tolist()
        harness = (times["harness"] / 1e6).tolist()
        own_ms = np.median(times["own"]) / 1e6
    ratio = statistics.compare(harness, bare, higher_is_better=False, paired=True)
    between = f" ({ratio.low:.4f}–{ratio.high:.4f})" if ratio.low and ratio.high else ""
    tokens = request.size.inputs["sequence_length"]
    bare_ms = np.median(bare)
    harness_ms = np.median(harness)
    columns = (
        f"{sut}, {request.size.name}, batch {request.batch_size}, {tokens} tokens",
        f"{bare_ms:.4g} ms/step",
        f"{harness_ms:.4g} ms/step",
        f"{1e3 * own_ms:.3g} µs a step, {own_ms / harness_ms:.2g} of it",
        f"{ratio.value:.4f}{between}",
        f"≥ {_GOAL}",
    )
    return f"| {' | '.join(columns)} |"


def _job(request: Request, flags: argparse.Namespace, folder: Path) -> Job:
    samples = (fit_loops.UNTIMED + flags.steps) * request.batch_size
    inputs = dataset.prepare(
        request.model,
        request.size,
        samples,
        None,
        flags.cache,
        batch_size=request.batch_size,
        trains=True,
    )
    workload = Workload(
        model=request.model.name,
        task=FIT,
        config=reference.workload_config(request, inputs.description.config),
        checkpoint=checkpoint.ensure(request.model, request.size, flags.cache).path,
        precision=request.precision,
        batch_size=request.batch_size,
        device=request.device,
        backend=request.spec.backend,
        execution=request.spec.execution,
    )
    return Job(
        sut=request.options.sut,
        architecture=request.model.architecture,
        workload=workload,
        scenario=request.options.scenario,
        test=PERFORMANCE,
        procedure=FIT,
        benchmark=request.benchmark,
        answer=("loss",),
        inputs=inputs.path,
        synthetic=inputs.synthetic,
        warmup_rows=inputs.warmup_rows,
        limits=Limits(min_duration_ms=0, min_query_count=0, performance_sample_count=samples),
        log_dir=folder,
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
