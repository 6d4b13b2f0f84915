"""Runs in a SUT's environment: its answers from each of several checkpoint folders, one .npz for
each. See tests/sut/test_weights.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker.queries.teacher_forcing import forced_logits, own_logits
from scenarios.worker.reference import write_reference
from sut.contract import Workload
from sut.registry import REFERENCE, load_module
from tests.sut.probe import answer


@contextmanager
def names_read(keras: bool) -> Iterator[list[str]]:
    """The names of the tensors KerasHub reads meanwhile."""
    names = list[str]()
    if not keras:
        yield names
        return
    from keras_hub.src.utils.transformers.safetensor_utils import SafetensorLoader

    own = SafetensorLoader.port_weight

    def port_weight(
        self: SafetensorLoader, keras_variable: object, hf_weight_key: str, **named: object
    ) -> None:
        names.append(hf_weight_key)
        own(self, keras_variable, hf_weight_key, **named)

    SafetensorLoader.port_weight = port_weight
    yield names
    SafetensorLoader.port_weight = own


def main(specification: Path) -> None:
    for spec in json.loads(specification.read_text()):
        answers_of(spec)


def answers_of(spec: dict[str, Any]) -> None:
    module, out = load_module(spec["sut"], spec["architecture"]), Path(spec["out"])
    with np.load(spec["inputs"]) as f:
        inputs = dict(f)
    reference = Path(spec["reference"])
    for name, folder in spec["folders"].items():
        workload = Workload(**{**spec["workload"], "checkpoint": Path(folder)})
        with names_read(spec["sut"].startswith("keras3")) as names:
            sut = module.load(workload)
        (out / "read.json").write_text(json.dumps(names))
        if not reference.exists():
            write_reference(
                reference,
                load_module(REFERENCE, spec["architecture"]).load(workload),
                inputs,
                prepared=[inputs],
                batch_size=workload.batch_size,
                logits_rows=len(inputs["input_ids"]),
                on_batch=lambda: None,
            )
        answers = dict(answer(sut, inputs))
        with np.load(reference) as f:
            if "tokens" in f:
                answers["forced"] = forced_logits(
                    sut, inputs, {"tokens": f["tokens"]}, workload.batch_size
                )
                answers["own"] = own_logits(sut, inputs, answers["tokens"], workload.batch_size)
        np.savez(out / f"{name}.npz", **answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
