"""Runs in a SUT's environment: the answers of Stable Diffusion, whole and with one thing broken at
a time, one .npz for each case.

`python -m tests.sut.stable_diffusion_cases SPEC.json`: the specification of benchmarks.answers,
with "cases", "folder" and "own", the checkpoint from a user's folder. It writes which tensors there
are too.
"""

import importlib
import sys
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import answers
from formats.writing import write_json
from tests.support.files import read_json
from tests.sut.one_mistake import arrays, epsilon, rounded, swapped, tensors, write_cases, zeros

KERAS, OWN = "a layer of Keras zeroed", "the checkpoint from a user's folder"


def main(specification):
    spec = read_json(specification)
    whole = answers.load(spec)
    write_json(Path(spec["folder"]) / f"{spec['sut']}.json", seen(whole))
    mistakes = {**BROKEN, OWN: partial(from_folder, spec=spec)}
    # Another SUT of Keras would compile anew.
    inputs = arrays(spec["inputs"])
    write_cases(spec, whole, inputs, INPUTS, mistakes, of_whole=[KERAS, OWN])


def from_folder(sut, spec):
    """The SUT with the weights of the user's folder. Keras' has them in the same variables, so that
    nothing is compiled anew.
    """
    if "keras" not in sys.modules:
        return answers.load({**spec, "workload": {**spec["workload"], "checkpoint": spec["own"]}})
    library = importlib.import_module("sut.keras3.stable_diffusion")
    for variable in sut.model.weights:
        variable.assign(np.zeros(variable.shape, np.float32))
    folder = Path(spec["own"])
    library.keras_weights.assign(
        folder, library.variables(sut.model, library.weights_files.names(folder))
    )
    return sut


def seen(sut):
    """Which tensors of the checkpoint there are."""
    if "keras" in sys.modules:
        library = importlib.import_module("sut.keras3.stable_diffusion")
        names = library.weights_files.names(sut.workload.checkpoint)
        named = list(library.variables(sut.model, names))
        assert {id(v) for _, v, _ in named} == {id(v) for v in sut.model.weights}
        return {"names": [name for name, _, _ in named]}
    # Transformers 5 leaves `text_model` out of the names in memory; those of a file have it.
    parts = {
        "text_encoder/text_model.": sut.pipeline.text_encoder,
        "unet/": sut.pipeline.unet,
        "vae/": sut.pipeline.vae,
    }
    return {
        "shapes": {
            f"{part}{name}": list(value.shape)
            for part, model in parts.items()
            for name, value in model.state_dict().items()
        }
    }


INPUTS = {
    "prompts permuted": lambda inputs: {
        **inputs,
        "input_ids": np.roll(inputs["input_ids"], 1, axis=0),
    },
    "the last word of each prompt dropped": lambda inputs: {
        **inputs,
        "input_ids": _without_last_word(inputs["input_ids"]),
    },
    "noise permuted": lambda inputs: {**inputs, "noise": np.roll(inputs["noise"], 1, axis=0)},
    "no empty prompt": lambda inputs: {**inputs, "negative_ids": inputs["input_ids"]},
}


def _without_last_word(ids):
    shorter = ids.copy()
    shorter[np.arange(len(ids)), (ids == ids.max()).argmax(axis=1) - 1] = ids.max()
    return shorter


def guidance_dropped(sut):
    sut.guidance = 1.0


def other_timesteps(sut):
    """Those of diffusers' DDIM: evenly spaced, and none of them the last."""
    sut.timesteps = [step * (1000 // sut.steps) for step in reversed(range(sut.steps))]


def one_timestep_off_by_one(sut):
    sut.timesteps = [*sut.timesteps[:-2], sut.timesteps[-2] - 1, sut.timesteps[-1]]


def other_betas(sut):
    library = importlib.import_module(type(sut).__module__)
    sut.pipeline.scheduler = library.scheduler({**sut.config, "beta_end": 0.0121})


def tanh_gelu(sut):
    import torch
    from diffusers.models.activations import GEGLU

    GEGLU.gelu = lambda self, gate: torch.nn.functional.gelu(gate, approximate="tanh")


def keras_layer_zeroed(sut):
    """What a layer of the UNet adds to its input: nothing."""
    layer = next(
        layer for layer in sut.model.unet.layers if type(layer).__name__ == "SpatialTransformer"
    )
    for variable in layer.proj2.weights:
        variable.assign(np.zeros(variable.shape, np.float32))


BROKEN = {
    "guidance dropped": guidance_dropped,
    "timesteps of another spacing": other_timesteps,
    "one timestep off by one": one_timestep_off_by_one,
    "other betas": other_betas,
    "a transformer of the UNet zeroed": tensors(zeros, "down_blocks.1.attentions.0.proj_out"),
    "one cross attention zeroed": tensors(
        zeros, "up_blocks.2.attentions.1.transformer_blocks.0.attn2.to_out"
    ),
    "a layer of the text encoder zeroed": tensors(
        zeros, "layers.1.self_attn.out_proj", "layers.1.mlp.fc2"
    ),
    "a layer of the decoder zeroed": tensors(zeros, "decoder.up_blocks.1.resnets.1.conv2"),
    "positions of the prompt zeroed": tensors(zeros, "position_embedding"),
    "two rows of one tensor swapped": tensors(
        swapped, "up_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"
    ),
    "weights rounded to float16": tensors(rounded, ""),
    "epsilon of the UNet's group norms 1e-6": epsilon("GroupNorm", 1e-6, "unet"),
    "epsilon of the decoder's group norms 1e-5": epsilon("GroupNorm", 1e-5, "vae"),
    "epsilon of the text encoder's norms 1e-6": epsilon("LayerNorm", 1e-6, "text_encoder"),
    KERAS: keras_layer_zeroed,
    "tanh GELU for the exact one": tanh_gelu,  # the last one: it stays for the process
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
