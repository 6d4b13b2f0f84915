"""Segment Anything. The measured call has the inputs and outputs of Meta's own: it normalises the
image itself, and it does not enlarge the answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import transformers

from sut.checkpoint import sam as weight_map
from sut.contract import Batch, Workload
from sut.hf_tensorflow.library import Predictor, load_model, to_float32

# Meta's, for pixels from 0 to 1.
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_SHARED = ("image_size", "patch_size")
_OF_ENCODER = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "mlp_dim",
    "window_size",
)
"""Keys of our configuration that Transformers uses, too."""


class Segmenter(Predictor):
    """A `TFSamModel`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs in Transformers' names. Each prompt is the only one of its image."""
        prepared = {"pixel_values": inputs["image"]}
        if inputs["points"].shape[1]:
            prepared["input_points"] = inputs["points"][:, None]
            prepared["input_labels"] = inputs["labels"][:, None].astype(np.int32)
        if "boxes" in inputs:
            prepared["input_boxes"] = inputs["boxes"].reshape(-1, 1, 4)
        return prepared

    def forward(self, inputs: Any) -> Any:
        """Normalise pixels and put channels first, as Transformers' processor does; run the
        model.
        """
        pixels = tf.transpose((inputs["pixel_values"] - _MEAN) / _DEVIATION, (0, 3, 1, 2))
        inputs = {**inputs, "pixel_values": tf.cast(pixels, self.model.compute_dtype)}
        return self.model(inputs, multimask_output=True, training=False)


def load(workload: Workload) -> Segmenter:
    """Return the checkpoint's model. Its answers are those of `sut.native_torch.sam`."""
    config = configuration(workload.config["model"])
    model = load_model(workload, config, weight_map.transformers)
    return Segmenter(model, workload, _answer)


def _answer(outputs: Any) -> Batch:
    logits = to_float32(outputs["pred_masks"])[:, 0]
    scores = to_float32(outputs["iou_scores"])[:, 0]
    return {
        "mask": logits > 0,
        "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
        "score": scores,
    }


def configuration(config: Any) -> Any:
    """Return Transformers' form of our configuration."""
    channels = config["output_channels"]
    image = {name: config[name] for name in _SHARED}
    encoder = {name: config[name] for name in _OF_ENCODER}
    return transformers.SamConfig(
        vision_config={
            **image,
            **encoder,
            "global_attn_indexes": list(config["global_attn_indexes"]),
            "output_channels": channels,
            "num_pos_feats": config["positional_features"],
        },
        prompt_encoder_config={
            **image,
            "hidden_size": channels,
            "mask_input_channels": config["mask_input_channels"],
        },
        mask_decoder_config={
            "hidden_size": channels,
            "mlp_dim": config["decoder_mlp_dim"],
            "num_attention_heads": config["decoder_attention_heads"],
            "num_multimask_outputs": config["mask_tokens"] - 1,
            "iou_head_hidden_dim": config["iou_hidden_dim"],
            "layer_norm_eps": 1e-5,  # Meta's; Transformers' 1e-6 is only for the image encoder
        },
    )
