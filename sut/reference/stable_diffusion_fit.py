"""The reference of training Stable Diffusion's image encoder: the VAE's of diffusers towards latents, by their mean squared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from diffusers import AutoencoderKL

from sut.contract import Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining


def _loss(vae: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """`image` [batch, side, side, 3], `label` [batch, side / 8, side / 8, 4]. diffusers has channels first."""
    latents = vae.encode(batch["image"].permute(0, 3, 1, 2)).latent_dist.mean * vae.config.scaling_factor
    return torch.nn.functional.mse_loss(latents, batch["label"].permute(0, 3, 1, 2))


def load(workload: Workload) -> ReferenceTraining:
    """The checkpoint's VAE, whose encoder alone is trained, with the convolution behind it."""
    library.products_in_float32()
    vae = AutoencoderKL.from_pretrained(workload.checkpoint, subfolder="vae", torch_dtype=torch.float32).to(workload.device)
    vae.requires_grad_(False)
    for part in (vae.encoder, vae.quant_conv):
        part.requires_grad_(True)
    return ReferenceTraining(vae, _loss, workload)
