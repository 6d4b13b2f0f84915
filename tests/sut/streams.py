"""Runs in a SUT's environment: the tokens of prompts, whole and streamed, in batches of each size.

`python -m tests.sut.streams SPEC.json` writes tokens.npz and facts.json beside it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker.queries.streaming import Streamed
from scenarios.worker.watching.evidence import watch
from sut.contract import Batch, Inference, Workload
from sut.evidence import compilations
from sut.registry import load_module

STOP = 5


def main(specification: Path) -> None:
    spec = json.loads(specification.read_text())
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    with np.load(spec["inputs"]) as f:
        inputs = dict(f)
    sut = load_module(spec["sut"], spec["architecture"]).load(workload)
    found = {}
    for size in spec["batch_sizes"]:
        batches = [sut.prepare(rows) for rows in split(inputs, size)]
        found[f"whole {size}"] = stacked([whole(sut, each) for each in batches], inputs)
        found[f"streamed {size}"] = stacked([streamed(sut, each) for each in batches], inputs)
    np.savez(specification.with_name("tokens.npz"), **found)
    compiled = compilations.count() or 0
    facts = {"stopped": stopped(sut, batches[0])}
    for each in batches:
        streamed(sut, each)
    facts["compiled_again"] = (compilations.count() or 0) - compiled
    facts["seen"] = seen(Streamed(sut, ()), batches)
    end = int(found["whole 1"][0, 2])
    ending = Streamed(sut, [end])
    answers = ending.predict(batches[0])
    facts["ended"] = answers["n_tokens"].tolist()
    facts["ended_tokens"] = answers["tokens"][0].tolist()
    first = [sut.prepare(rows) for rows in split(inputs, 1)][:1]
    facts["seen_ended"] = seen(ending, [*first, *batches])
    specification.with_name("facts.json").write_text(json.dumps(facts))


def split(inputs: Batch, size: int) -> list[Batch]:
    """The inputs in batches of this size."""
    rows = range(0, len(inputs["input_ids"]), size)
    return [{name: values[row : row + size] for name, values in inputs.items()} for row in rows]


def stacked(answers: list[np.ndarray], inputs: Batch) -> np.ndarray:
    """The tokens of all batches, [rows, most new tokens]. -1: the row did not request it."""
    most = inputs["max_new_tokens"].max()
    equal = [np.pad(each, ((0, 0), (0, most - each.shape[1]))) for each in answers]
    own = np.arange(most) < inputs["max_new_tokens"][:, None]
    return np.where(own, np.concatenate(equal), -1)


def whole(sut: Inference, batch: Batch) -> np.ndarray:
    """The tokens of the whole answers, [rows, new]."""
    return sut.to_host(sut.predict(batch))["tokens"]


def streamed(sut: Any, batch: Batch) -> np.ndarray:
    """The tokens that the SUT hands over, [rows, most new tokens]."""
    steps: list[np.ndarray] = []

    def on_step(tokens: np.ndarray) -> bool:
        assert tokens.dtype == np.int32 and tokens.shape == batch["prompt_length"].shape
        steps.append(tokens.copy())
        return len(steps) < batch["max_new_tokens"].max()

    sut.stream(batch, on_step)
    return np.stack(steps, axis=1)


def stopped(sut: Any, batch: Batch) -> int:
    """How many tokens the SUT hands over if the fifth call says that it is enough."""
    calls = 0

    def on_step(tokens: np.ndarray) -> bool:
        nonlocal calls
        calls += 1
        return calls < STOP

    sut.stream(batch, on_step)
    return calls


def seen(sut: Inference, batches: list[Batch]) -> list[dict[str, Any]]:
    """The evidence of one streamed batch, and of all."""
    return [asdict(watch(sut, batches[:1])), asdict(watch(sut, batches))]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
