"""Writes a SUT's answers to all inputs, or a reference. benchmarks/disagreement.py runs it in the
environment of the SUT.

`python -m benchmarks.answers SPEC.json` writes the file "out" of the specification. For a reference
it is the file of `write_reference`. For a SUT it contains the answers. If the SUT generates, it
also contains the SUT's logits of the reference's answers (`forced`) and of its own (`own`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker import teacher_forcing
from scenarios.worker.qsl import Qsl
from scenarios.worker.reference import write_reference
from sut.contract import Batch, Inference, Workload
from sut.registry import REFERENCES, load_module


def write(spec: Mapping[str, Any]) -> None:
    """Write the answers that the specification requests."""
    if spec["sut"] not in REFERENCES:
        np.savez(Path(spec["out"]), allow_pickle=False, **answers(spec, load(spec)))
        return
    sut, size = load(spec), spec["workload"]["batch_size"]
    qsl, batches = _inputs(spec, sut)
    write_reference(
        Path(spec["out"]),
        sut,
        qsl.arrays,
        prepared=batches,
        batch_size=size,
        logits_rows=spec["logits_rows"],
        on_batch=lambda: None,
    )


def load(spec: Mapping[str, Any]) -> Inference:
    """Return the SUT, or the reference, of a specification."""
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    sut: Inference = load_module(spec["sut"], spec["architecture"]).load(workload)
    return sut


def answers(spec: Mapping[str, Any], sut: Inference) -> dict[str, np.ndarray]:
    """Return a loaded SUT's answers to all inputs, with the worker's `forced` and `own`."""
    qsl, batches = _inputs(spec, sut)
    parts = [sut.to_host(sut.predict(batch)) for batch in batches]
    made = {key: np.concatenate([part[key] for part in parts])[: qsl.count] for key in parts[0]}
    if "tokens" not in made:
        return made
    return made | _logits(
        sut,
        qsl,
        made["tokens"],
        Path(spec["reference"]),
        spec["logits_rows"],
        spec["workload"]["batch_size"],
    )


def _inputs(spec: Mapping[str, Any], sut: Inference) -> tuple[Qsl, list[Batch]]:
    qsl = Qsl(Path(spec["inputs"]), sut.prepare)
    qsl.load(range(qsl.count))
    return qsl, qsl.batches(spec["workload"]["batch_size"])


def _logits(
    sut: Inference, qsl: Qsl, tokens: np.ndarray, path: Path, rows: int, size: int
) -> dict[str, np.ndarray]:
    first = {key: values[:rows] for key, values in qsl.arrays.items()}
    with np.load(path) as reference:
        forced = teacher_forcing.forced_logits(
            sut, first, {"tokens": reference["tokens"][:rows]}, size
        )
    return {"forced": forced, "own": teacher_forcing.own_logits(sut, qsl.arrays, tokens, size)}


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
