"""Segment Anything of Meta's own library. The measured call is the `__call__` of a module around
its three parts.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from sut.checkpoint import weights_files
from sut.contract import Batch, Call, Evidence, Workload
from sut.native_torch import compiled, execution, tuning
from sut.native_torch.training import TorchTraining


class Segmenter(torch.nn.Module):
    """Meta's `Sam`, used as in its own forward, up to the masks of low resolution. Its own forward
    would then enlarge them, and Keras' model does not.

    The images are encoded as one batch. Meta's mask decoder takes one image at a time.
    """

    def __init__(self, sam: Any):
        super().__init__()
        self.sam = sam

    def forward(
        self, images: torch.Tensor, points: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """images [batch, 3, side, side], points [batch, points, 2], labels [batch, points] → (mask
        logits [batch, 3, side / 4, side / 4], scores [batch, 3]).
        """
        sam = self.sam
        dtype = sam.image_encoder.pos_embed.dtype
        encoded = sam.image_encoder(sam.preprocess(images).to(dtype))
        dense_positions = sam.prompt_encoder.get_dense_pe().to(dtype)
        answers = []
        for row in range(len(images)):
            one = slice(row, row + 1)
            its_points = points[one], labels[one]
            sparse, dense = sam.prompt_encoder(points=its_points, boxes=None, masks=None)
            answer = sam.mask_decoder(
                encoded[one], dense_positions, sparse.to(dtype), dense, multimask_output=True
            )
            answers.append(answer)
        masks, scores = zip(*answers, strict=True)
        return torch.cat(masks), torch.cat(scores)


class TorchSam(execution.OneModel):
    """A `Segmenter`. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return images with channels first, as Meta's encoder takes them."""
        return {
            "images": inputs["image"].transpose(0, 3, 1, 2),
            "points": inputs["points"],
            "labels": inputs["labels"],
        }

    def predict(self, batch: Batch) -> tuple[execution.OnItsWay, execution.OnItsWay]:
        """Return `Segmenter.forward`'s (mask logits, scores), float32, on their way to the host."""
        with torch.no_grad():
            logits, scores = self.model(**execution.on_device(batch, self.workload))
        return execution.OnItsWay(logits.float()), execution.OnItsWay(scores.float())

    def to_host(self, outputs: tuple[execution.OnItsWay, execution.OnItsWay]) -> Batch:
        """Return the masks as bits, every seventh of their logits in either direction, and the
        scores, once they have arrived.
        """
        logits, scores = [output.wait().contiguous().numpy() for output in outputs]
        return {
            "mask": logits > 0,
            "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
            "score": scores,
        }

    def evidence(self, call: Call) -> Evidence:
        """See `execution.evidence`."""
        return execution.evidence(
            self.model, self.workload, "Sam: image_encoder, prompt_encoder, mask_decoder", call
        )


def load(workload: Workload) -> TorchSam:
    """The checkpoint's model, in the workload's precision and execution."""
    execution.configure(workload)
    sam = build(workload.config["model"])
    sam.load_state_dict(load_file(workload.checkpoint / weights_files.SINGLE))
    if workload.precision == "bfloat16":
        # The model's buffers (the pixels' mean and the frequencies of positions) stay in float32.
        for parameter in sam.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    model = tuning.adapted(Segmenter(sam).to(workload.device).eval(), workload)
    if workload.execution == "compile":
        # The prompt encoder indexes with masks of labels. Their counts are unknown before a graph
        # runs.
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        compiled.compile_forward(model, workload.settings)
    return TorchSam(model, workload)


def build(config: Any) -> Any:
    """Build Meta's `Sam` of a configuration, as `segment_anything.build_sam` does for the published
    ones.
    """
    library = modeling()
    grid = config["image_embedding_size"]
    side = config["image_size"]
    channels = config["output_channels"]
    encoder = library.ImageEncoderViT(
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
    prompts = library.PromptEncoder(
        embed_dim=channels,
        image_embedding_size=(grid, grid),
        input_image_size=(side, side),
        mask_in_chans=config["mask_input_channels"],
    )
    transformer = library.TwoWayTransformer(
        depth=2,
        embedding_dim=channels,
        mlp_dim=config["decoder_mlp_dim"],
        num_heads=config["decoder_attention_heads"],
    )
    decoder = library.MaskDecoder(
        num_multimask_outputs=config["mask_tokens"] - 1,
        transformer=transformer,
        transformer_dim=channels,
        iou_head_depth=3,
        iou_head_hidden_dim=config["iou_hidden_dim"],
    )
    # Meta's own mean and deviation are for pixels from 0 to 255; these are for pixels from 0 to 1.
    return library.Sam(
        encoder, prompts, decoder, pixel_mean=[0.485, 0.456, 0.406], pixel_std=[0.229, 0.224, 0.225]
    )


def modeling() -> ModuleType:
    """Import `segment_anything.modeling`. The package's own `__init__` is not run, because it
    imports torchvision for tools that are not used here.
    """
    spec = importlib.util.find_spec("segment_anything")
    assert spec is not None
    sys.modules.setdefault("segment_anything", importlib.util.module_from_spec(spec))
    return importlib.import_module("segment_anything.modeling")


class Encoder(torch.nn.Module):
    """Meta's preprocessing and image encoder."""

    def __init__(self, segmenter: Any):
        super().__init__()
        self.encoder = segmenter.image_encoder
        # The list keeps the rest of the segmenter from becoming a part of this module.
        self.preprocess = [segmenter.preprocess]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, side, side] → features [batch, channels, grid, grid]."""
        pixels = self.preprocess[0](images).to(self.encoder.pos_embed.dtype)
        features: torch.Tensor = self.encoder(pixels)
        return features


def load_training(workload: Workload) -> TorchTraining:
    """The checkpoint's image encoder, in the workload's precision and execution, to train towards
    features; see `training`.
    """
    uncompiled = load(replace(workload, execution="eager"))  # `TorchTraining` compiles it
    return TorchTraining(Encoder(uncompiled.model.sam), workload)
