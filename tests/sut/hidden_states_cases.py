"""Runs in a SUT's environment: the answers of models without a head, whole and with one thing
broken at a time, one .npz for each case.

`python -m tests.sut.hidden_states_cases SPEC.json`: "cells" holds a specification of
benchmarks.answers for each model, "references" those of the reference, "whole" those of models that
are not broken, "folder" says where the answers go. It writes seen.json too.
"""

import re
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks import answers
from formats.writing import write_json
from scenarios.worker.watching.evidence import watch
from tests.support.files import read_json
from tests.sut.one_mistake import answer

FIRST = re.compile(r"(^|[._/])0[._/]")
OUTPUTS = re.compile(
    r"(c_proj|out_lin|lin2|output[./]dense|attention[./]dense|attention_output|feedforward_output)"
)


def main(specification):
    told = read_json(specification)
    folder, name = Path(told["folder"]), told["cells"][0]["sut"]
    for spec in (*told["references"], *told["whole"]):
        answers.write(spec)
    seen = {spec["workload"]["model"]: broken_one_by_one(spec, folder) for spec in told["cells"]}
    write_json(folder / f"{name}.json", seen)


def broken_one_by_one(spec, folder):
    """Writes the answers of every case. → what is seen of the intact SUT."""
    inputs, batch = read(spec)
    sut = answers.load(spec)

    def save(case, tested, given):
        np.savez(
            folder / f"{spec['sut']} {spec['workload']['model']} {case}.npz",
            **answer(tested, given, batch),
        )

    save("intact", sut, inputs)
    for case, change in INPUTS.items():
        save(case, sut, change(inputs))
    seen = look(sut, inputs, batch)
    if hasattr(sut.model, "named_parameters"):
        seen["shapes"] = {name: list(p.shape) for name, p in sut.model.named_parameters()}
        save(
            "bfloat16",
            answers.load({**spec, "workload": {**spec["workload"], "precision": "bfloat16"}}),
            inputs,
        )
    for case, change_weights in WEIGHTS.items():
        hit = outputs_of_first_layer(sut)
        whole = [value(variable) for variable in hit]
        change_weights(hit)
        save(case, sut, inputs)
        for variable, before in zip(hit, whole, strict=True):
            assign(variable, before)
    return seen


def read(spec):
    """The inputs and the batch size."""
    with np.load(spec["inputs"]) as f:
        return dict(f), spec["workload"]["batch_size"]


def look(sut, inputs, batch):
    """The evidence of two batches and then of one."""
    prepared = sut.prepare({"input_ids": inputs["input_ids"][:batch]})
    return {
        "before": asdict(watch(sut, [prepared, prepared])),
        "after": asdict(watch(sut, [prepared])),
    }


INPUTS = {
    "rows permuted": lambda inputs: {"input_ids": np.roll(inputs["input_ids"], 1, axis=0)},
    "tokens reversed": lambda inputs: {
        "input_ids": np.ascontiguousarray(inputs["input_ids"][:, ::-1])
    },
    "first token another": lambda inputs: {
        "input_ids": np.where(np.arange(inputs["input_ids"].shape[1]) == 0, 3, inputs["input_ids"])
    },
}


def outputs_of_first_layer(sut):
    """The two matrices by which the first layer adds to the residual, whatever the library."""
    if hasattr(sut.model, "named_parameters"):
        named = list(sut.model.named_parameters())
    else:
        named = [(getattr(v, "path", v.name), v) for v in sut.model.weights]
    hit = [
        v
        for name, v in named
        if FIRST.search(name) and OUTPUTS.search(name) and len(v.shape) > 1 and min(v.shape) > 1
    ]
    assert len(hit) == 2, [name for name, _ in named]
    return hit


def value(variable):
    return np.array(variable.detach() if hasattr(variable, "detach") else variable)


def assign(variable, new):
    if hasattr(variable, "data_ptr"):
        import torch

        variable.data.copy_(torch.from_numpy(new))
    else:
        variable.assign(new)


def zeroed(hit):
    for variable in hit:
        assign(variable, np.zeros(variable.shape, np.float32))


def swapped(hit):
    new = value(hit[0])
    new[[1, 3]] = new[[3, 1]]
    assign(hit[0], new)


WEIGHTS = {"a layer zeroed": zeroed, "two rows of one tensor swapped": swapped}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
