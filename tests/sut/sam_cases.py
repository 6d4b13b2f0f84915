"""Runs in a SUT's environment: the answers of Segment Anything, whole and with one thing broken at
a time, one .npz for each case.

`python -m tests.sut.sam_cases SPEC.json`: the specification of benchmarks.answers, with "cases" and
"folder". It writes seen.json too.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks import answers
from formats.writing import write_json
from sut.registry import REFERENCE, load_module
from tests.support.files import read_json
from tests.sut.one_mistake import (
    answer,
    arrays,
    epsilon,
    rounded,
    swapped,
    tensors,
    write_cases,
    zeros,
)

KERAS = "a layer of Keras zeroed"


def main(specification):
    spec = read_json(specification)
    inputs, whole = arrays(spec["inputs"]), answers.load(spec)
    if spec["sut"] != REFERENCE:
        write_json(Path(spec["folder"]) / f"{spec['sut']}.json", seen(spec, whole, inputs))
    # Another SUT of Keras would compile anew.
    write_cases(spec, whole, inputs, INPUTS, MODELS, of_whole=[KERAS])


def seen(spec, sut, inputs):
    """Which tensors there are, and for native torch what Dynamo makes of the model."""
    if "keras" in sys.modules:
        sam = load_module(spec["sut"], "sam")
        segmenter = sam.build(sut.workload.config["model"])
        named = list(sam.variables(segmenter))
        assert {id(v) for _, v, _ in named} == {id(v) for v in segmenter.weights}
        return {"names": [name for name, _, _ in named]}
    import torch

    from sut.native_torch import sam

    with torch.device("meta"):
        shapes = {
            k: list(v.shape)
            for k, v in sam.build(sut.workload.config["model"]).state_dict().items()
        }
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    plain = answer(sut, {k: v[:2] for k, v in inputs.items()}, 2)
    own = sut.model.forward
    sut.model.forward = torch.compile(own, backend="eager", dynamic=False, fullgraph=True)
    differences = []
    # Of which the prompt encoder's graph must hold all.
    for labels in (inputs["labels"], 1 - inputs["labels"]):
        traced = answer(sut, {k: v[:2] for k, v in {**inputs, "labels": labels}.items()}, 2)
        differences.append(float(np.abs(traced["logits"] - plain["logits"]).max()))
    sut.model.forward = own
    counters = torch._dynamo.utils.counters
    return {
        "shapes": shapes,
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": len(counters["graph_break"]),
        "same": differences,
    }


def zeroed_patch(inputs):
    image = inputs["image"].copy()
    image[:, 16:32, 16:32] = 0
    return {**inputs, "image": image}


INPUTS = {
    "images permuted": lambda inputs: {**inputs, "image": np.roll(inputs["image"], 1, axis=0)},
    "colours reversed": lambda inputs: {
        **inputs,
        "image": np.ascontiguousarray(inputs["image"][..., ::-1]),
    },
    "a patch zeroed": zeroed_patch,
    "points ignored": lambda inputs: {**inputs, "points": np.zeros_like(inputs["points"])},
    "points moved by a pixel": lambda inputs: {**inputs, "points": inputs["points"] + 1},
    "labels ignored": lambda inputs: {**inputs, "labels": np.ones_like(inputs["labels"])},
}


def tanh_gelu(sut):
    import torch

    torch.nn.GELU.forward = lambda self, x: torch.nn.functional.gelu(x, approximate="tanh")


def keras_layer_zeroed(sut):
    """What a layer of the image encoder adds to the residual: nothing."""
    layer = next(
        layer
        for layer in sut.model._flatten_layers()
        if type(layer).__name__ == "WindowedTransformerEncoder"
    )
    ends = (layer.attention.projection, layer.mlp_block.dense_net.layers[2])
    for variable in (v for end in ends for v in end.weights):
        variable.assign(np.zeros(variable.shape, np.float32))


MODELS = {
    "a layer zeroed": tensors(zeros, "blocks.2.attn.proj", "blocks.2.mlp.lin2"),
    "relative positions of one layer zeroed": tensors(zeros, "blocks.2.attn.rel_pos_h"),
    "absolute positions zeroed": tensors(zeros, "pos_embed"),
    "the point that is none zeroed": tensors(zeros, "not_a_point_embed"),
    "two rows of one tensor swapped": tensors(
        swapped, "layers.1.cross_attn_image_to_token.out_proj.weight"
    ),
    "weights rounded to float16": tensors(rounded, ""),
    "epsilon of layer norms 1e-5": epsilon("LayerNorm", 1e-5),
    "epsilon of layer norms 1e-6": epsilon("LayerNorm", 1e-6),
    "epsilon of the decoder's norms 1e-5": epsilon("LayerNorm2d", 1e-5),
    KERAS: keras_layer_zeroed,
    "tanh GELU for the exact one": tanh_gelu,  # the last one: it stays for the process
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
