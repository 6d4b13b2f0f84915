"""What Keras costs over JAX and over PyTorch. It prints the tables of docs/overhead.md.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m studies.keras_cost \\
        [--suts S …] [--models M …] [--sizes S …] [--seconds N]

The first `./run.sh list` creates that environment. A SUT of Keras and the SUT without it take
turns, so that a disturbance slows both. Each SUT has a process in its own environment, which is
stopped while the other one calls. A turn calls `predict` and `to_host` of one prepared batch for 20
ms, at least once. Checkpoints go to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from compliance import rules
from harness.comparison import statistics
from harness.execution import environments
from harness.inputs import checkpoint, models
from harness.inputs.models import Model, Size
from studies import turns
from studies.turns import Peer
from sut.contract import Batch, Workload
from sut.registry import SUTS

_TURN_S = 0.02
_BLOCKS = 10
_BUCKETS = {"prompt_buckets": "prompt_length", "new_token_buckets": "new_tokens"}
_COLUMNS = (
    "Keras costs, µs a call (95 % interval)",
    "ms a token with, without",
    "speed of Keras over that without (95 % interval)",
)
_COUNTS = {"prompt_length": "prompt_length", "max_new_tokens": "new_tokens"}


def main() -> None:
    """Run the measurements that the flags select, and print a row for each SUT of Keras, model,
    size and batch.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    every = [name for name, spec in SUTS.items() if spec.without_keras]
    parser.add_argument("--suts", nargs="+", default=every)
    parser.add_argument("--models", nargs="+", default=["bert", "mistral"])
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mid"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args()
    for keras in flags.suts:
        say(f"| model, batch | {keras} | {SUTS[keras].without_keras} | {' | '.join(_COLUMNS)} |")
        say("|---|---|---|---|---|---|")
        for name, size_name in product(flags.models, flags.sizes):
            model = models.load(name)
            size = model.sizes[size_name]
            for rows in flags.batch_sizes:
                with pair(keras, model, size, rows, flags.cache) as peers:
                    times = in_turns(peers, flags.seconds)
                say(_row(model, size, rows, times))
        say("")


@contextmanager
def pair(keras: str, model: Model, size: Size, rows: int, cache: Path) -> Iterator[list[Peer]]:
    """Yield the SUT of Keras and the SUT without it, loaded and warm, with a random batch."""
    bare = SUTS[keras].without_keras
    assert bare
    inputs = _inputs(model, size, rows)
    with together([(keras, {}), (bare, {})], model, size, inputs, cache) as peers:
        yield peers


@contextmanager
def together(
    members: Sequence[tuple[str, Mapping[str, Any]]],
    model: Model,
    size: Size,
    inputs: Batch,
    cache: Path,
    module: str = turns.__name__,
) -> Iterator[list[Peer]]:
    """Yield SUTs, loaded and warm, with one batch.

    Args:
        members: (SUT, additions to its process' specification) of each.
        module: the module that the processes run.
    """
    rows = len(inputs["input_ids"])
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        path = checkpoint.ensure(model, size, Path(name)).path
        np.savez(Path(name) / "inputs.npz", allow_pickle=False, **inputs)
        peers = []
        for number, (sut, more) in enumerate(members):
            spec = SUTS[sut]
            file = Path(name) / f"{number}.json"
            specification = _specification(sut, model, size, path, rows)
            file.write_text(json.dumps({**specification, **more}), encoding="utf-8")
            environment = environments.ensure(
                cache, spec.environment, "cpu", rules.CURRENT, environments.say_on_stderr
            )
            peer = Peer(file, environment.python, spec.process_env, module)
            ends.callback(peer.close)
            peers.append(peer)
        yield peers


def in_turns(peers: Sequence[Peer], seconds: float) -> np.ndarray:
    """Return the milliseconds of a call, as the median of each turn, float64 [SUTs, turns]."""
    rounds: list[list[float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < _BLOCKS:
        rounds.append([peer.turn(_TURN_S) for peer in peers])
    return np.array(rounds).T


def _row(model: Model, size: Size, rows: int, times: np.ndarray) -> str:
    ms = np.median(times, axis=1)
    tokens = ""
    if _generates(model):
        tokens = ", ".join(f"{each / size.inputs['new_tokens']:.3g}" for each in ms)
    columns = (
        f"{model.name} {size.name}, {rows}",
        *map(_milliseconds, ms),
        _cost(*times),
        tokens,
        speed(*times),
    )
    return f"| {' | '.join(columns)} |"


def _milliseconds(ms: float) -> str:
    return f"{ms:,.3g} ms" if ms < 1000 else f"{ms:,.0f} ms"


def speed(times: np.ndarray, others: np.ndarray) -> str:
    """Return a SUT's speed over another's, with interval, from the milliseconds of each turn."""
    ratio = _ratio(times, others)
    return f"{ratio.value:.3g} ({statistics.interval(ratio.low or 0, ratio.high or 0)})"


def _cost(times: np.ndarray, others: np.ndarray) -> str:
    """Return how many microseconds more a call of a SUT takes than the other's. The interval is
    that of the ratio of their speeds.
    """
    ratio = _ratio(times, others)
    assert ratio.low and ratio.high
    call_us = 1e3 * float(np.median(others))
    value = call_us * (1 / ratio.value - 1)
    least = call_us * (1 / ratio.high - 1)
    most = call_us * (1 / ratio.low - 1)
    return f"{value:,.0f} ({least:,.0f} to {most:,.0f})"


def _ratio(times: np.ndarray, others: np.ndarray) -> statistics.Ratio:
    """Return the speed of a SUT over another's. The turns are divided into parts, and the medians
    of the parts are compared in pairs.
    """
    return statistics.compare(
        _medians(times), _medians(others), higher_is_better=False, paired=True
    )


def _medians(times: np.ndarray) -> list[float]:
    return [float(np.median(part)) for part in np.array_split(times, _BLOCKS)]


def _specification(sut: str, model: Model, size: Size, path: Path, rows: int) -> dict[str, Any]:
    """Return the specification for studies.turns."""
    lengths = {}
    if _generates(model):
        lengths = {name: [size.inputs[key]] for name, key in _BUCKETS.items()}
    workload = Workload(
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
    return {
        "sut": sut,
        "architecture": model.architecture,
        "workload": {**asdict(workload), "checkpoint": str(path)},
    }


def _generates(model: Model) -> bool:
    return model.task == "generate"


def _inputs(model: Model, size: Size, rows: int) -> Batch:
    width = size.inputs["prompt_length" if _generates(model) else "sequence_length"]
    drawn = np.random.default_rng(0).integers(3, size.config["vocab_size"], (rows, width))
    ids = drawn.astype(np.int32)
    if not _generates(model):
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    counts = {name: np.full(rows, size.inputs[key], np.int32) for name, key in _COUNTS.items()}
    return {"input_ids": ids, **counts}


def say(text: str) -> None:
    """Print a row at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
