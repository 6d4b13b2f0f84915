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

from scenarios.worker.queries import teacher_forcing
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.reference import write_reference
from sut.contract import Batch, Inference, Workload
from sut.registry import REFERENCES, load_module


def write(spec: Mapping[str, Any]) -> None:
    """Write the answers that the specification requests."""
    if spec["sut"] not in REFERENCES:
        np.savez(Path(spec["out"]), allow_pickle=False, **answers(spec, load(spec)))
        return
    sut = load(spec)
    qsl, batches = _inputs(spec, sut)
    write_reference(
        Path(spec["out"]),
        sut,
        qsl.arrays,
        prepared=batches,
        batch_size=spec["workload"]["batch_size"],
        logits_rows=spec["logits_rows"],
        on_batch=lambda: None,
        mask=spec["workload"]["config"].get("mask"),
    )


def load(spec: Mapping[str, Any]) -> Inference:
    """Return the SUT, or the reference, of a specification."""
    values = {**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])}
    module = load_module(spec["sut"], spec["architecture"])
    sut: Inference = module.load(Workload(**values))
    return sut


def answers(spec: Mapping[str, Any], sut: Inference) -> dict[str, np.ndarray]:
    """Return a loaded SUT's answers to all inputs, with the worker's `forced` and `own`."""
    qsl, batches = _inputs(spec, sut)
    parts = [sut.to_host(sut.predict(batch)) for batch in batches]
    whole = {}
    for key in parts[0]:
        rows = np.concatenate([part[key] for part in parts])
        whole[key] = rows[: qsl.count]
    if "tokens" not in whole:
        return whole
    return whole | _logits(spec, sut, qsl, whole["tokens"])


def _inputs(spec: Mapping[str, Any], sut: Inference) -> tuple[Qsl, list[Batch]]:
    qsl = Qsl(Path(spec["inputs"]), sut.prepare)
    return qsl, list(qsl.in_turn(spec["workload"]["batch_size"]))


def _logits(
    spec: Mapping[str, Any], sut: Inference, qsl: Qsl, tokens: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the SUT's logits of the reference's answers (`forced`) and of its own (`own`).

    `tokens`: the SUT's answers.
    """
    rows = spec["logits_rows"]
    size = spec["workload"]["batch_size"]
    first = {key: values[:rows] for key, values in qsl.arrays.items()}
    with np.load(Path(spec["reference"])) as reference:
        expected = {"tokens": reference["tokens"][:rows]}
    forced = teacher_forcing.forced_logits(sut, first, expected, size)
    own = teacher_forcing.own_logits(sut, qsl.arrays, tokens, size)
    return {"forced": forced, "own": own}


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
