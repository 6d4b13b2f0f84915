"""Segment Anything of KerasHub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import keras_hub
import numpy as np

from sut.checkpoint import keras_weights
from sut.checkpoint import sam as weight_map
from sut.contract import Batch, Workload
from sut.keras.model import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras3 import runtime, training


def load(workload: Workload) -> KerasPredictor:
    """Return the checkpoint's segmenter, with every tensor under KerasHub's name."""
    runtime.configure(workload)
    keras.config.set_dtype_policy(workload.dtype)  # not every layer of KerasHub takes a dtype
    segmenter = build(workload.config["model"])
    keras_weights.assign(workload.checkpoint, variables(segmenter))
    # The segmenter's class fills in prompts that are left out, and cannot do so in
    # `predict_on_batch`. This model has the same layers and takes all prompts.
    model = keras.Model(segmenter.input, segmenter.output)
    runtime.backend.product(workload.dtype)  # compiled here, so that evidence compiles nothing
    return KerasPredictor(model, workload, runtime, prepare=_prepare, to_host=_to_host)


def _prepare(inputs: Batch) -> Batch:
    """Return the inputs under Keras' names. Without a box, a padding point with label -1 follows
    the points, as in Meta's library, which adds it itself.
    """
    points = inputs["points"]
    labels = inputs["labels"].astype(np.float32)
    boxes = inputs.get("boxes")
    count = len(points)
    if boxes is None:
        padding_point = np.zeros((count, 1, 2), np.float32)
        padding_label = np.full((count, 1), -1, np.float32)
        points = np.concatenate([points, padding_point], axis=1)
        labels = np.concatenate([labels, padding_label], axis=1)
        boxes = np.zeros((count, 0, 2, 2), np.float32)
    no_masks = np.zeros((count, 0, 1, 1, 1), np.float32)
    return {
        "images": inputs["image"],
        "points": points,
        "labels": labels,
        "boxes": boxes,
        "masks": no_masks,
    }


def _to_host(outputs: Batch) -> Batch:
    """Return the same answers as native torch. The first mask is left out: Meta's library computes
    it too, and uses it only for single answers.

    Args:
        outputs: `masks` [batch, 4, side / 4, side / 4] and `iou_pred` [batch, 4].
    """
    logits = np.asarray(outputs["masks"][:, 1:], np.float32)
    scores = np.asarray(outputs["iou_pred"][:, 1:], np.float32)
    return {
        "mask": logits > 0,
        "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
        "score": np.ascontiguousarray(scores),
    }


@runtime.nothing_drawn()
def build(config: Any) -> Any:
    """KerasHub's segmenter of a configuration, without a preprocessor. Its variables are zeros."""
    grid = config["image_embedding_size"]
    side = config["image_size"]
    channels = config["output_channels"]
    encoder = keras_hub.models.ViTDetBackbone(
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        intermediate_dim=config["mlp_dim"],
        num_heads=config["num_attention_heads"],
        global_attention_layer_indices=config["global_attn_indexes"],
        image_shape=(side, side, 3),
        patch_size=config["patch_size"],
        num_output_channels=channels,
        window_size=config["window_size"],
    )
    prompts = keras_hub.layers.SAMPromptEncoder(
        hidden_size=channels,
        image_embedding_size=(grid, grid),
        input_image_size=(side, side),
        mask_in_channels=config["mask_input_channels"],
    )
    decoder = keras_hub.layers.SAMMaskDecoder(
        num_layers=2,
        hidden_size=channels,
        intermediate_dim=config["decoder_mlp_dim"],
        num_heads=config["decoder_attention_heads"],
        embedding_dim=channels,
        num_multimask_outputs=config["mask_tokens"] - 1,
        iou_head_depth=3,
        iou_head_hidden_dim=config["iou_hidden_dim"],
    )
    backbone = keras_hub.models.SAMBackbone(
        image_encoder=encoder, prompt_encoder=prompts, mask_decoder=decoder
    )
    return keras_hub.models.SAMImageSegmenter(backbone=backbone)


def variables(segmenter: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (Meta's name, the variable, whether it is a layer's weight) of each tensor of a
    checkpoint.
    """
    backbone = segmenter.backbone
    encoder = backbone.image_encoder
    roots = {
        "encoder": encoder.layers,
        "neck": encoder.neck,
        "prompts": backbone.prompt_encoder,
        "decoder": backbone.mask_decoder,
    }
    return keras_weights.variables(roots, weight_map.keras_hub(encoder.num_layers))


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's image encoder, compiled to train towards features; see `training`."""
    layers = load(workload).model.layers
    encoder = next(layer.image_encoder for layer in layers if hasattr(layer, "image_encoder"))
    return training.image_encoder(encoder, workload)
