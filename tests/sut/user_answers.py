"""Runs in a SUT's environment: its answers from each of several checkpoint folders, one .npz for
each. See tests/sut/test_weights.py.
"""

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from formats.writing import write_json
from scenarios.worker.queries.teacher_forcing import forced_logits, own_logits
from scenarios.worker.reference import write_reference
from sut.registry import REFERENCE, load_module
from tests.support.files import read_json
from tests.sut.one_mistake import arrays, workload_of
from tests.sut.probe import answer


@contextmanager
def names_read(keras):
    """The names of the tensors KerasHub reads meanwhile."""
    names = []
    if not keras:
        yield names
        return
    from keras_hub.src.utils.transformers.safetensor_utils import SafetensorLoader

    own = SafetensorLoader.port_weight

    def port_weight(self, keras_variable, hf_weight_key, **named):
        names.append(hf_weight_key)
        own(self, keras_variable, hf_weight_key, **named)

    SafetensorLoader.port_weight = port_weight
    yield names
    SafetensorLoader.port_weight = own


def main(specification):
    for spec in read_json(specification):
        answers_of(spec)


def answers_of(spec):
    module, out = load_module(spec["sut"], spec["architecture"]), Path(spec["out"])
    inputs = arrays(spec["inputs"])
    reference = Path(spec["reference"])
    for name, folder in spec["folders"].items():
        workload = workload_of(spec["workload"], checkpoint=Path(folder))
        with names_read(spec["sut"].startswith("keras3")) as names:
            sut = module.load(workload)
        write_json(out / "read.json", names)
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
