"""The inputs of a model that generates images from prompts.

`input_ids` and `negative_ids` int32 [samples, 77]: the prompt, and the negative prompt of guidance.
Both start with the beginning mark and are padded with the end mark. A user's negative prompts are
empty. Synthetic ones all differ, because a SUT could encode a constant one before the clock starts.
`noise` float32 [samples, side / 8, side / 8, 4]: the start of the first step.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import models, tokenizer, user_config
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Counted,
    Noted,
    SizeInputs,
    UserFile,
    seeded,
    text,
)
from harness.inputs.models import Model, Size
from harness.inputs.models.drawn import Shapes
from harness.inputs.models.stable_diffusion import PARTS
from harness.inputs.tokenizer import Tokenizer
from harness.inputs.user_folder import Document
from harness.samples import images

# Values of Stable Diffusion 1 that `PARTS.configs` does not write: diffusers' defaults, which no
# shape of a tensor shows. A folder may leave them out.
_DEFAULTS = {
    "text_encoder": {},
    "unet": {
        "act_fn": "silu",
        "center_input_sample": False,
        "downsample_padding": 1,
        "flip_sin_to_cos": True,
        "freq_shift": 0,
        "mid_block_scale_factor": 1,
        "norm_eps": 1e-5,
        "norm_num_groups": 32,
    },
    "vae": {"act_fn": "silu", "norm_num_groups": 32},
}
_OF_TEXT_ENCODER = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
# Keys that may differ. The published text encoder has other marks than its tokenizer, and the size
# of the VAE's training images has no effect.
_FREE = ("bos_token_id", "eos_token_id", "pad_token_id", "sample_size")


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    prompts = _drawn_prompts(size, samples, stream, 1)
    negative = _drawn_prompts(size, samples, stream, 2)
    return _arrays(size, prompts, negative, stream)


def _drawn_prompts(size: Size, samples: int, stream: int, which: int) -> list[list[int]]:
    """Random words between the beginning mark and the end mark. Another `which` gives other
    words.
    """
    begin = size.config["bos_token_id"]
    end = size.config["eos_token_id"]
    rng = seeded(stream, which)
    words = rng.integers(0, begin, (samples, size.inputs["prompt_length"]))
    return [[begin, *row, end] for row in words.tolist()]


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    """Other prompts and noise, and a different negative prompt in each row. So a SUT that keeps the
    encoding of the empty prompt must encode these.
    """
    rows = len(arrays["input_ids"]) + 1
    negative = _synthetic(size, rows, stream + 1)["input_ids"]
    return {**_synthetic(size, rows, stream), "negative_ids": negative}, 1


def _synthetic_latents(size: Size, samples: int, stream: int) -> Arrays:
    """Random inputs of a training: `image` float32 [samples, side, side, 3] from -1 to 1, and the
    target latents `label` float32 [samples, side / 8, side / 8, 4].
    """
    side = size.config["image_size"]
    rng = seeded(stream)
    image = rng.random((samples, side, side, 3), np.float32)
    label = rng.standard_normal((samples, side // 8, side // 8, 4), np.float32)
    return {"image": 2 * image - 1, "label": label}


def _arrays(size: Size, rows: list[list[int]], negative: list[list[int]], stream: int) -> Arrays:
    width = size.config["max_position_embeddings"]
    side = size.config["image_size"] // 8
    rng = seeded(stream)
    return {
        "input_ids": text.padded(rows, width, size),
        "negative_ids": text.padded(negative, width, size),
        "noise": rng.standard_normal((len(rows), side, side, 4), np.float32),
    }


def _read(given: UserFile) -> Noted:
    size = given.size
    reader = given.tokenizer or tokenizer.of_bytes(closing=True)
    prompts, unused = given.prompts()
    rows = text.encode(given, prompts, reader)
    most = size.config["max_position_embeddings"]
    for prompt, row in zip(prompts, rows, strict=True):
        if len(row) > most:
            raise UsageError(
                f"{given.path}:{prompt.line}: the prompt has {len(row)} tokens and"
                f" {given.model.name} takes {most}: shorten it"
            )
    empty = [[size.config["bos_token_id"], size.config["eos_token_id"]]] * len(rows)
    notes = text.notes(given, rows, reader, unused, f", padded to {most}")
    return _arrays(size, rows, empty, 0), tuple(notes)


def _least_flops(size: Size, arrays: Arrays) -> float:
    """The operations of the UNet at each step, with and without the prompt. Its lowest resolution
    is an eighth of that of the latents.
    """
    forward = _convolutions(size, "unet/", size.config["image_size"] // 64)
    return forward * 2 * int(size.config["denoising_steps"])


def _convolutions(size: Size, network: str, side: int) -> float:
    """Two operations for each weight of a network's convolutions and each place of its lowest
    resolution, which is `side` wide.
    """
    shapes = [t.shape for t in size.tensors if t.name.startswith(network)]
    weights = sum(math.prod(shape) for shape in shapes if len(shape) == 4)
    return 2.0 * weights * side**2


def _with_steps(model: Model, size: Size, steps: int) -> Size:
    most = size.config["train_steps"]
    if not 2 <= steps <= most:
        raise UsageError(f"--steps {steps}: {model.name} takes 2 to {most}")
    return replace(size, config={**size.config, "denoising_steps": steps})


def _weights_inputs(path: Path, model: Model, config: Config, own: Tokenizer | None) -> SizeInputs:
    """The inputs of the size full. Raises UsageError if the tokenizer is not CLIP's."""
    marks = [config["bos_token_id"], config["eos_token_id"]]
    if own and own.encode("") != marks:
        raise Refused(
            f"tokenizer/{own.name} makes {own.encode('')} of an empty prompt, and that of CLIP"
            f" makes {marks}"
        )
    return dict(model.sizes["full"].inputs)


def _weights_config(path: Path, shapes: Shapes) -> Document:
    """The size's configuration, from which the config.json of each part is derived. Raises
    UsageError if a part's config.json differs from the derived one, because it is not of Stable
    Diffusion 1 then.
    """
    full = models.load("stable-diffusion").sizes["full"].config
    _check_pipeline(path)
    own = {part: user_config.load(path, f"{part}/config.json") for part in PARTS.files}
    try:
        config = {
            **full,
            "architectures": ["StableDiffusionPipeline"],
            **{key: own["text_encoder"][key] for key in _OF_TEXT_ENCODER},
            "unet_channels": own["unet"]["block_out_channels"],
            "unet_heads": own["unet"]["attention_head_dim"],
            "vae_channels": own["vae"]["block_out_channels"],
            "image_size": 8 * own["unet"]["sample_size"],
        }
        if not isinstance(config["unet_heads"], int):
            config["unet_heads"] = full["unet_heads"]  # a list is refused below
        expected = PARTS.configs(config)
    except (KeyError, TypeError) as e:
        raise Refused(
            f"the config.json of a part lacks {e}: give the folder that save_pretrained wrote"
        ) from None
    for part, defaults in _DEFAULTS.items():
        required = {**expected[part], **defaults}
        for key, value in required.items():
            if key not in _FREE and own[part].get(key, value) != value:
                raise Refused(
                    f"{part}/config.json says {key} {json.dumps(own[part][key])}, and"
                    f" stable-diffusion here is Stable Diffusion 1, which has {json.dumps(value)}"
                )
    if config["vocab_size"] <= config["eos_token_id"]:
        raise Refused(
            f"text_encoder/config.json says vocab_size {config['vocab_size']}, and the vocabulary"
            f" of CLIP has {config['eos_token_id'] + 1}"
        )
    scheduler = user_config.load(path, "scheduler/scheduler_config.json")
    kind = scheduler.get("prediction_type", "epsilon")
    if kind != "epsilon":
        raise Refused(
            f"its UNet predicts {kind}, and stable-diffusion here is computed with one that"
            " predicts noise"
        )
    return config


def _check_pipeline(path: Path) -> None:
    """Raises UsageError if the folder's model_index.json names another pipeline than Stable
    Diffusion's, such as that of SDXL.
    """
    if not (path / "model_index.json").is_file():
        return
    ours = models.load("stable-diffusion").native_class
    kind = user_config.load(path, "model_index.json").get("_class_name")
    if kind != ours:
        raise Refused(
            f"model_index.json says {kind}, and stable-diffusion here is {ours} (Stable Diffusion"
            " 1.1 to 1.5)"
        )


def _least_flops_of_encoder(size: Size, arrays: Arrays) -> float:
    """The operations of the VAE's encoder. Its lowest resolution is that of the latents."""
    return _convolutions(size, "vae/encoder.", size.config["image_size"] // 8)


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    trained=Architecture(synthetic=_synthetic_latents, least_flops=_least_flops_of_encoder),
    synthetic_like=_synthetic_like,
    least_flops=_least_flops,
    read=_read,
    with_steps=_with_steps,
    weights_inputs=_weights_inputs,
    weights_config=_weights_config,
    show=lambda directory, *_: images.write(directory),
)
