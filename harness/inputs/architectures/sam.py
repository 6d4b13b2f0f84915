"""The inputs of a model that segments the object at given points.

`image` float32 [samples, side, side, 3], red, green and blue from 0 to 1. `points` float32
[samples, points, 2], x and y in pixels of that image. `labels` int32 [samples, points]: 1 is a
point of the object, 0 one of its background.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from harness.errors import Refused
from harness.inputs import pictures
from harness.inputs.architectures import Architecture, Arrays, Counted, seeded
from harness.inputs.models import Size
from harness.inputs.models.drawn import Shapes
from harness.inputs.user_folder import Document

_DECODER_HEADS = 8  # of all published models; no shape shows it


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    return _drawn(size, samples, size.inputs["points"], stream)


def _drawn(size: Size, samples: int, points: int, stream: int) -> Arrays:
    """Random pictures and points, the first of them on the object."""
    side = size.config["image_size"]
    rng = seeded(stream)
    image = np.stack([pictures.drawn(side, side, rng) for _ in range(samples)])
    labels = rng.integers(0, 2, (samples, points)).astype(np.int32)
    labels[:, :1] = 1
    return {
        "image": image,
        "points": rng.integers(0, side, (samples, points, 2)).astype(np.float32),
        "labels": labels,
    }


def _synthetic_features(size: Size, samples: int, stream: int) -> Arrays:
    """Pictures, and random features as the target of a training: `label`, float32 [samples, grid,
    grid, channels].
    """
    side = size.config["image_size"]
    grid = size.config["image_embedding_size"]
    channels = size.config["output_channels"]
    rng = seeded(stream)
    image = np.stack([pictures.drawn(side, side, rng) for _ in range(samples)])
    label = rng.standard_normal((samples, grid, grid, channels), np.float32)
    return {"image": image, "label": label}


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    """Other pictures with as many points, and a warm-up row."""
    samples, points = arrays["labels"].shape
    return _drawn(size, samples + 1, points, stream), 1


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight of the encoder's layers and each patch. The attention itself
    and the decoder are left out.
    """
    of_layers = [t for t in size.tensors if t.name.startswith("image_encoder.blocks.")]
    weights = sum(math.prod(t.shape) for t in of_layers if t.name.endswith(".weight"))
    return 2.0 * weights * size.config["image_embedding_size"] ** 2


def _weights_config(path: Path, shapes: Shapes) -> Document:
    """The configuration, derived from the shapes of Meta's checkpoint, which has no config.json.
    Raises UsageError if it is no such checkpoint.
    """
    try:
        _, grid, _, hidden = shapes["image_encoder.pos_embed"]
        patch = shapes["image_encoder.patch_embed.proj.weight"][3]
        in_layers = [name for name in shapes if name.startswith("image_encoder.blocks.")]
        layers = sum(name.endswith(".norm1.weight") for name in in_layers)
        positions = [shapes[f"image_encoder.blocks.{n}.attn.rel_pos_h"] for n in range(layers)]
        lengths = [length for length, _ in positions]
        longest = 2 * grid - 1
        windows = [length for length in lengths if length != longest]
        channels = shapes["prompt_encoder.no_mask_embed.weight"][1]
        mask_hidden = shapes["prompt_encoder.mask_downscaling.1.weight"][0]
        config = {
            "model_type": "sam",
            "architectures": ["Sam"],
            "image_size": grid * patch,
            "image_embedding_size": grid,
            "patch_size": patch,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // positions[0][1],
            "head_dim": positions[0][1],
            "mlp_dim": shapes["image_encoder.blocks.0.mlp.lin1.weight"][0],
            "window_size": (max(windows) + 1) // 2,
            "window_positions": max(windows),
            "global_positions": longest,
            "global_attn_indexes": [n for n, length in enumerate(lengths) if length == longest],
            "output_channels": channels,
            "positional_features": channels // 2,
            "upscaling_channels": channels // 4,
            "mask_channels": channels // 8,
            "mask_tokens": shapes["mask_decoder.mask_tokens.weight"][0],
            "mask_input_hidden": mask_hidden,
            "mask_input_channels": 4 * mask_hidden,
            "decoder_attention_heads": _DECODER_HEADS,
            "decoder_attention_dim": channels // 2,
            "decoder_mlp_dim": shapes["mask_decoder.transformer.layers.0.mlp.lin1.weight"][0],
            "iou_hidden_dim": shapes["mask_decoder.iou_prediction_head.layers.0.weight"][0],
        }
    except (KeyError, IndexError, ValueError) as e:
        raise Refused(
            f"is no checkpoint of Segment Anything in Meta's own names ({e}): give sam_vit_b,"
            " sam_vit_l or sam_vit_h of github.com/facebookresearch/segment-anything, written as"
            " safetensors"
        ) from None
    return config


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    trained=Architecture(synthetic=_synthetic_features, least_flops=_least_flops),
    synthetic_like=_synthetic_like,
    least_flops=_least_flops,
    counts_most=True,
    read=lambda given: pictures.read(given.path, given.size.config["image_size"]),
    count=lambda path: len(pictures.files(path)),
    weights_inputs=lambda path, model, config, own: dict(model.sizes["full"].inputs),
    weights_config=_weights_config,
)
