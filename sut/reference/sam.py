"""The reference for Segment Anything. Its methods are those of `sut.contract.Inference`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from sut.contract import Batch, Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining
from sut.reference.untimed import Untimed

# An empty package replaces Meta's own, which imports torchvision for tools that are not used here.
_spec = importlib.util.find_spec("segment_anything")
assert _spec is not None
sys.modules.setdefault("segment_anything", importlib.util.module_from_spec(_spec))

from segment_anything.modeling import (  # noqa: E402
    ImageEncoderViT,
    MaskDecoder,
    PromptEncoder,
    Sam,
    TwoWayTransformer,
)


class Reference(Untimed):
    """Meta's `Sam`, run by its own forward on one image at a time."""

    def __init__(self, workload: Workload):
        library.products_in_float32()
        self.device = workload.device
        self.model = _sam(workload.config["model"])
        self.model.load_state_dict(load_file(workload.checkpoint / "model.safetensors"))
        self.model.to(self.device).eval()

    def predict(self, batch: Batch) -> list[Any]:
        """Return the output of `Sam.forward` for each image."""
        arrays = {name: torch.from_numpy(values).to(self.device) for name, values in batch.items()}
        answers = []
        for row, image in enumerate(arrays["image"]):
            record = {
                "image": 255 * image.permute(2, 0, 1),
                "original_size": tuple(image.shape[:2]),
                "point_coords": arrays["points"][row : row + 1],
                "point_labels": arrays["labels"][row : row + 1],
            }
            answers += self.model([record], multimask_output=True)
        return answers

    def to_host(self, outputs: list[Any]) -> Batch:
        """Return Meta's masks of the logits of low resolution, every seventh of these logits in
        both directions, and the scores.
        """
        logits = torch.cat([answer["low_res_logits"] for answer in outputs]).cpu().numpy()
        scores = torch.cat([answer["iou_predictions"] for answer in outputs]).cpu().numpy()
        return {
            "mask": logits > self.model.mask_threshold,
            "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
            "score": scores,
        }


def _sam(config: Any) -> Sam:
    """Build the model as `segment_anything.build_sam` does, with the sizes of the configuration."""
    channels = config["output_channels"]
    side = config["image_size"]
    grid = side // config["patch_size"]
    encoder = ImageEncoderViT(
        depth=config["num_hidden_layers"],
        embed_dim=config["hidden_size"],
        img_size=side,
        mlp_ratio=config["mlp_dim"] / config["hidden_size"],
        norm_layer=partial(torch.nn.LayerNorm, eps=1e-6),
        num_heads=config["num_attention_heads"],
        patch_size=config["patch_size"],
        qkv_bias=True,
        use_rel_pos=True,
        global_attn_indexes=config["global_attn_indexes"],
        window_size=config["window_size"],
        out_chans=channels,
    )
    prompts = PromptEncoder(
        embed_dim=channels,
        image_embedding_size=(grid, grid),
        input_image_size=(side, side),
        mask_in_chans=config["mask_input_channels"],
    )
    transformer = TwoWayTransformer(
        depth=2,
        embedding_dim=channels,
        mlp_dim=config["decoder_mlp_dim"],
        num_heads=config["decoder_attention_heads"],
    )
    decoder = MaskDecoder(
        num_multimask_outputs=config["mask_tokens"] - 1,
        transformer=transformer,
        transformer_dim=channels,
        iou_head_depth=3,
        iou_head_hidden_dim=config["iou_hidden_dim"],
    )
    return Sam(
        image_encoder=encoder,
        prompt_encoder=prompts,
        mask_decoder=decoder,
        pixel_mean=[123.675, 116.28, 103.53],
        pixel_std=[58.395, 57.12, 57.375],
    )


def load(workload: Workload) -> Reference:
    """The checkpoint's segmenter."""
    return Reference(workload)


def _loss(model: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss for `image` [batch, side, side, 3] and `label` [batch, grid, grid, channels].
    Meta's encoder has channels first.
    """
    pixels = 255 * batch["image"].permute(0, 3, 1, 2)
    features = model.image_encoder(model.preprocess(pixels))
    return torch.nn.functional.mse_loss(features, batch["label"].permute(0, 3, 1, 2))


def load_training(workload: Workload) -> ReferenceTraining:
    """Return the checkpoint's model. Only its image encoder is trained, towards features."""
    model = Reference(workload).model
    model.requires_grad_(False)
    model.image_encoder.requires_grad_(True)
    return ReferenceTraining(model, _loss, workload)
