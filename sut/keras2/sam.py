"""Segment Anything of KerasCV on Keras 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras_cv
import tf_keras

from sut.checkpoint import keras_weights
from sut.checkpoint import sam as weight_map
from sut.contract import Workload
from sut.keras import sam as keras_sam
from sut.keras.predictor import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras2 import runtime, training


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's segmenter, compiled to predict."""
    segmenter = load_segmenter(workload)
    # The segmenter's class fills in prompts that are left out. This model has the same layers and
    # takes all prompts.
    model = tf_keras.Model(segmenter.input, segmenter.output)
    return KerasPredictor(
        model,
        workload,
        runtime,
        prepare=keras_sam.prepare,
        to_host=keras_sam.to_host,
        keras_cv=keras_cv.__version__,
    )


def load_segmenter(workload: Workload) -> Any:
    """Return KerasCV's segmenter with all of the checkpoint's weights."""
    runtime.configure(workload)
    segmenter = build(workload.config["model"])
    keras_weights.assign(workload.checkpoint, variables(segmenter))
    return segmenter


def build(config: Any) -> Any:
    """KerasCV's segmenter of a configuration."""
    grid = config["image_embedding_size"]
    side = config["image_size"]
    channels = config["output_channels"]
    encoder = keras_cv.models.ViTDetBackbone(
        include_rescaling=False,
        input_shape=(side, side, 3),
        patch_size=config["patch_size"],
        embed_dim=config["hidden_size"],
        depth=config["num_hidden_layers"],
        mlp_dim=config["mlp_dim"],
        num_heads=config["num_attention_heads"],
        out_chans=channels,
        window_size=config["window_size"],
        global_attention_indices=config["global_attn_indexes"],
    )
    prompts = keras_cv.models.SAMPromptEncoder(
        embed_dim=channels,
        image_embedding_size=(grid, grid),
        input_image_size=(side, side),
        mask_in_chans=config["mask_input_channels"],
    )
    transformer = keras_cv.models.TwoWayTransformer(
        depth=2,
        embed_dim=channels,
        num_heads=config["decoder_attention_heads"],
        mlp_dim=config["decoder_mlp_dim"],
    )
    decoder = keras_cv.models.SAMMaskDecoder(
        transformer_dim=channels,
        transformer=transformer,
        num_multimask_outputs=config["mask_tokens"] - 1,
        iou_head_depth=3,
        iou_head_hidden_dim=config["iou_hidden_dim"],
    )
    return keras_cv.models.SegmentAnythingModel(
        backbone=encoder, prompt_encoder=prompts, mask_decoder=decoder
    )


def variables(segmenter: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (Meta's name, the variable, whether it is a layer's weight) of each tensor of a
    checkpoint.
    """
    encoder = segmenter.backbone
    # Keras 2 creates a TFOpLambda for each bare operation.
    layers = [layer for layer in encoder.layers if type(layer).__name__ != "TFOpLambda"]
    roots = {
        "encoder": layers,
        "neck": layers[-1],
        "prompts": segmenter.prompt_encoder,
        "decoder": segmenter.mask_decoder,
    }
    return keras_weights.variables(roots, weight_map.keras_cv(encoder.depth))


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's image encoder, compiled to train towards features; see `training`."""
    encoder = load_segmenter(workload).backbone
    return training.image_encoder(encoder, workload, keras_cv=keras_cv.__version__)
