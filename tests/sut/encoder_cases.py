"""Runs in a SUT's environment: the answers of users' folders of encoders, whole and with one thing
broken at a time, one .npz for each case.

`python -m tests.sut.encoder_cases SPEC.json`: "references" holds specifications of
benchmarks.answers for the references, "cells" those of the SUT, by the folder's name. "folder" says
where the answers go.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks import answers
from scenarios.worker.queries.qsl import Qsl
from sut.contract import Unsupported
from tests.support.files import read_json
from tests.sut.hidden_states_cases import assign, value
from tests.sut.one_mistake import answer


def main(specification):
    told = read_json(specification)
    for spec in told["references"]:
        answers.write(spec)
    folder = Path(told["folder"])
    for name, spec in told["cells"].items():
        broken_one_by_one(spec, name, folder)


def broken_one_by_one(spec, name, folder):
    """Write the answers of every case, or the reason why the SUT cannot load the folder."""
    try:
        sut = answers.load(spec)
    except Unsupported as e:
        (folder / f"{spec['sut']} {name}.txt").write_text(str(e))
        return
    qsl = Qsl(Path(spec["inputs"]), sut.prepare)
    inputs = dict(qsl.arrays)
    batch = spec["workload"]["batch_size"]

    def save(case, given, tested=sut):
        found = answer(tested, given, batch)
        np.savez(folder / f"{spec['sut']} {name} {case}.npz", **found)

    save("intact", inputs)
    for case, change in (PICTURES if "pixel_values" in inputs else TEXT).items():
        save(case, change(inputs))
    hit = matrices_in_the_middle(sut.model)
    whole = [value(variable) for variable in hit]
    for variable, before in zip(hit, whole, strict=True):
        assign(variable, np.zeros_like(before))
    save("a layer zeroed", inputs)
    if hasattr(sut.model, "named_parameters"):
        half = {**spec, "workload": {**spec["workload"], "precision": "bfloat16"}}
        save("bfloat16", inputs, answers.load(half))


def matrices_in_the_middle(model):
    """Three matrices, or kernels of convolutions, in the middle of the model, whatever the library.
    Without its queries and keys alone, a small model attends to all tokens, which changes little.
    """
    weights = list(model.parameters()) if hasattr(model, "parameters") else model.weights
    matrices = [each for each in weights if len(each.shape) > 1 and min(each.shape) > 1]
    middle = len(matrices) // 2
    return matrices[middle : middle + 3]


def corner_zeroed(inputs):
    pixels = inputs["pixel_values"].copy()
    pixels[..., :8, :8] = 0
    return {"pixel_values": pixels}


def without_padding(inputs):
    return {**inputs, "attention_mask": np.ones_like(inputs["attention_mask"])}


def first_token_another(inputs):
    ids = inputs["input_ids"].copy()
    ids[:, 0] = 7
    return {**inputs, "input_ids": ids}


def rows_permuted(inputs):
    changed = {key: np.roll(values, 1, axis=0) for key, values in inputs.items()}
    return {**inputs, **{key: changed[key] for key in changed if key != "attention_mask"}}


TEXT = {
    "rows permuted": rows_permuted,
    "first token another": first_token_another,
    "padding ignored": without_padding,
}
PICTURES = {
    "rows permuted": rows_permuted,
    "corner zeroed": corner_zeroed,
    "mirrored": lambda inputs: {"pixel_values": inputs["pixel_values"][..., ::-1].copy()},
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
