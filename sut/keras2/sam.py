"""Segment Anything of KerasCV on Keras 2. The measured call is Keras' `predict_on_batch`, as on Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras_cv
import numpy as np
import tf_keras

from sut import keras_sam, keras_weights
from sut.contract import Batch, Evidence, Workload
from sut.keras2 import runtime
from sut.weight_maps import sam as weight_map


class Keras2Sam:
    """KerasCV's segmenter. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False  # predict_on_batch copies to the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload

    def prepare(self, inputs: Batch) -> Batch:
        """See `keras_sam.prepare`."""
        return keras_sam.prepare(inputs)

    def predict(self, batch: Batch, on_first_token: Any = None) -> dict[str, np.ndarray]:
        """→ `masks` [batch, 4, side / 4, side / 4] and `iou_pred` [batch, 4], already on the host."""
        return self.model.predict_on_batch(batch)

    def to_host(self, outputs: dict[str, np.ndarray]) -> Batch:
        """See `keras_sam.to_host`."""
        return keras_sam.to_host(outputs)

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call, keras_cv=keras_cv.__version__)


def load(workload: Workload) -> Keras2Sam:
    """The checkpoint's segmenter, compiled to predict."""
    segmenter = load_segmenter(workload)
    # Its class fills in prompts that are left out: this one has the same layers and takes all.
    model = tf_keras.Model(segmenter.input, segmenter.output)
    model.compile(optimizer="sgd", loss=None, metrics=None, jit_compile=workload.execution == "xla")  # Keras 2 wants one named; none trains
    return Keras2Sam(model, workload)


def load_segmenter(workload: Workload) -> Any:
    """KerasCV's segmenter with the checkpoint's weights, every tensor under KerasCV's name."""
    runtime.configure(workload)
    segmenter = build(workload.config["model"])
    keras_weights.assign(workload.checkpoint, variables(segmenter))
    return segmenter


def build(config: Any) -> Any:
    """KerasCV's segmenter of a configuration."""
    grid, side, channels = config["image_embedding_size"], config["image_size"], config["output_channels"]
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
        embed_dim=channels, image_embedding_size=(grid, grid), input_image_size=(side, side), mask_in_chans=config["mask_input_channels"]
    )
    transformer = keras_cv.models.TwoWayTransformer(
        depth=2, embed_dim=channels, num_heads=config["decoder_attention_heads"], mlp_dim=config["decoder_mlp_dim"]
    )
    decoder = keras_cv.models.SAMMaskDecoder(
        transformer_dim=channels,
        transformer=transformer,
        num_multimask_outputs=config["mask_tokens"] - 1,
        iou_head_depth=3,
        iou_head_hidden_dim=config["iou_hidden_dim"],
    )
    return keras_cv.models.SegmentAnythingModel(backbone=encoder, prompt_encoder=prompts, mask_decoder=decoder)


def variables(segmenter: Any) -> Iterator[tuple[str, Any, bool]]:
    """(Meta's name, the variable, whether it is a layer's weight) of each tensor of a checkpoint."""
    encoder = segmenter.backbone
    layers = [layer for layer in encoder.layers if type(layer).__name__ != "TFOpLambda"]  # which Keras 2 makes of each bare operation
    roots = {"encoder": layers, "neck": layers[-1], "prompts": segmenter.prompt_encoder, "decoder": segmenter.mask_decoder}
    return keras_weights.variables(roots, weight_map.keras_cv(encoder.depth))
