"""What Keras costs over JAX: keras3-jax and native-jax in one process, call by call in turns, so that whatever slows one slows both.

    KERAS_BACKEND=jax PYTHONPATH=. .cache/environments/keras3-jax-cpu/bin/python -P -m benchmarks.keras_cost [--size S] [--seconds N]

(after a first run of keras3-jax, which makes that environment). It prints a table in Markdown. A call is `predict` and `to_host` of one
prepared batch. Its checkpoints go to a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.comparison import statistics
from harness.inputs import checkpoint, models
from harness.inputs.models import Model, Size
from sut.contract import Batch, Workload
from sut.registry import SUTS, load_module

_KERAS, _BLOCKS = "keras3-jax", 10
_BUCKETS = {"prompt_buckets": "prompt_length", "new_token_buckets": "new_tokens"}
_COUNTS = {"prompt_length": "prompt_length", "max_new_tokens": "new_tokens"}


def main() -> None:
    """Measure what the flags name, and print a row for each model and batch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["bert", "mistral"])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    flags = parser.parse_args()
    native = SUTS[_KERAS].without_keras
    assert native
    _say(f"| model, batch | {_KERAS} | {native} | Keras costs | speed of Keras over that without |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in flags.models:
            model = models.load(name)
            size = model.sizes[flags.size]
            path = checkpoint.ensure(model, size, Path(folder)).path
            for rows in flags.batch_sizes:
                inputs = _inputs(model, size, rows)
                suts = [load_module(sut, model.family).load(_workload(sut, model, size, path, rows)) for sut in (_KERAS, native)]
                times = _in_turns(suts, inputs, flags.seconds)
                blocks = [np.median(part, axis=1) for part in np.array_split(times, _BLOCKS, axis=1)]
                keras, bare = (list(column) for column in np.transpose(blocks))
                ratio = statistics.compare(keras, bare, higher_is_better=False, paired=True)
                ms = np.median(times, axis=1)
                shown = f"{ratio.value:.2f} ({statistics.interval(ratio.low or 0, ratio.high or 0)})"
                _say(
                    f"| {name} {flags.size}, {rows} | {ms[0]:.3g} ms | {ms[1]:.3g} ms | {1e3 * (ms[0] - ms[1]):,.0f} µs a call | {shown} |"
                )


def _workload(sut: str, model: Model, size: Size, path: Path, rows: int) -> Workload:
    lengths = {name: [size.inputs[key]] for name, key in _BUCKETS.items()} if _generates(model) else {}
    return Workload(
        model=model.name,
        task=model.task,
        config={"model": dict(size.config), "classes": dict(model.classes), **lengths},
        checkpoint=path,
        precision="float32",
        batch_size=rows,
        device="cpu",
        backend=SUTS[sut].backend,
        execution=SUTS[sut].execution,
    )


def _generates(model: Model) -> bool:
    return model.task == "generate"


def _inputs(model: Model, size: Size, rows: int) -> Batch:
    width = size.inputs["prompt_length" if _generates(model) else "sequence_length"]
    ids = np.random.default_rng(0).integers(3, size.config["vocab_size"], (rows, width)).astype(np.int32)
    if not _generates(model):
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {"input_ids": ids, **{name: np.full(rows, size.inputs[key], np.int32) for name, key in _COUNTS.items()}}


def _in_turns(suts: list[Any], inputs: Batch, seconds: float) -> np.ndarray:
    """Milliseconds of each call, float64 [SUTs, calls]; the first five of each are left out."""
    batches, times, end = [sut.prepare(inputs) for sut in suts], list[list[float]](), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5 + _BLOCKS:
        times.append([])
        for sut, batch in zip(suts, batches, strict=True):
            start = time.perf_counter()
            sut.to_host(sut.predict(batch))
            times[-1].append(1e3 * (time.perf_counter() - start))
    return np.array(times[5:]).T


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
