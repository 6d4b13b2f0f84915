"""Trains the image encoder of diffusers' Stable Diffusion towards latents, by their mean squared error; see `training`."""

from __future__ import annotations

import diffusers
import torch

from sut.contract import Workload
from sut.native_torch import execution
from sut.native_torch.training import TorchTraining


class Encoder(torch.nn.Module):
    """The VAE's encoder, with the convolution behind it."""

    def __init__(self, vae: diffusers.AutoencoderKL):
        super().__init__()
        self.encoder, self.quant_conv, self.scaling = vae.encoder, vae.quant_conv, vae.config.scaling_factor

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, side, side] from -1 to 1 → means of latents, scaled [batch, 4, side / 8, side / 8]."""
        mean, _ = self.quant_conv(self.encoder(images.to(self.quant_conv.weight.dtype))).chunk(2, dim=1)
        latents: torch.Tensor = mean * self.scaling
        return latents


def load(workload: Workload) -> TorchTraining:
    """The checkpoint's encoder, in the workload's precision and execution, to be trained."""
    execution.configure(workload)
    dtype = torch.bfloat16 if workload.precision == "bfloat16" else torch.float32
    vae = diffusers.AutoencoderKL.from_pretrained(workload.checkpoint, subfolder="vae", torch_dtype=dtype, local_files_only=True)
    return TorchTraining(Encoder(vae), workload, diffusers=diffusers.__version__)
