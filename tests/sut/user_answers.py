"""Runs in a SUT's environment: its answers from each of several checkpoint folders, one .npz for each. See tests/sut/test_weights.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from scenarios.worker.reference import write_reference
from scenarios.worker.teacher_forcing import forced_logits, own_logits
from sut.contract import Workload
from sut.registry import REFERENCE, load_module
from tests.sut.probe import answer


def main(specification: Path) -> None:
    spec = json.loads(specification.read_text())
    module = load_module(spec["sut"], spec["family"])
    with np.load(spec["inputs"]) as f:
        inputs = dict(f)
    reference = Path(spec["reference"])
    for name, folder in spec["folders"].items():
        workload = Workload(**{**spec["workload"], "checkpoint": Path(folder)})
        sut = module.load(workload)
        if not reference.exists():
            write_reference(
                reference,
                load_module(REFERENCE, spec["family"]).load(workload),
                inputs,
                prepared=[inputs],
                batch_size=workload.batch_size,
                logits_rows=len(inputs["input_ids"]),
                on_batch=lambda: None,
            )
        answers = dict(answer(sut, inputs))
        with np.load(reference) as f:
            if "tokens" in f:
                answers["forced"] = forced_logits(sut, inputs, {"tokens": f["tokens"]}, workload.batch_size)
                answers["own"] = own_logits(sut, inputs, answers["tokens"], workload.batch_size)
        np.savez(specification.parent / f"{name}.npz", **answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
