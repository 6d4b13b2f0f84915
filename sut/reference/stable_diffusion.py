"""The reference for Stable Diffusion. Its methods are those of `sut.contract.Inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DPMSolverMultistepScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextModel

from sut.contract import Batch, Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining
from sut.reference.untimed import Untimed


class Reference(Untimed):
    """diffusers' own pipeline, in float32."""

    def __init__(self, workload: Workload):
        library.products_in_float32()
        self.device = workload.device
        self.config = workload.config["model"]
        folder = workload.checkpoint
        dtype = torch.float32
        scheduler = DPMSolverMultistepScheduler(
            num_train_timesteps=self.config["train_steps"],
            beta_start=self.config["beta_start"],
            beta_end=self.config["beta_end"],
            beta_schedule="scaled_linear",
            solver_order=1,  # which is DDIM without noise
            final_sigmas_type="zero",
        )
        pipeline = StableDiffusionPipeline(
            vae=AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=dtype),
            text_encoder=CLIPTextModel.from_pretrained(
                folder / "text_encoder", dtype=dtype, attn_implementation="eager"
            ),
            tokenizer=None,
            unet=UNet2DConditionModel.from_pretrained(folder, subfolder="unet", torch_dtype=dtype),
            scheduler=scheduler,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        self.pipeline = pipeline.to(workload.device)
        self.pipeline.set_progress_bar_config(disable=True)

    def predict(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return images [batch, side, side, 3] from 0 to 1, and the latents after each step [steps,
        batch, 4, side / 8, side / 8].
        """
        after_each_step = []

        def keep(
            pipeline: Any, step: int, timestep: Any, tensors: dict[str, torch.Tensor]
        ) -> dict[str, torch.Tensor]:
            after_each_step.append(tensors["latents"].cpu().numpy())
            return tensors

        steps = self.config["denoising_steps"]
        last = self.config["train_steps"] - 1
        timesteps = [round(step * last / (steps - 1)) for step in reversed(range(steps))]
        noise = torch.from_numpy(batch["noise"]).permute(0, 3, 1, 2).to(self.device)
        with torch.no_grad():
            images = self.pipeline(
                prompt_embeds=self._encoded(batch["input_ids"]),
                negative_prompt_embeds=self._encoded(batch["negative_ids"]),
                latents=noise,
                timesteps=timesteps,
                guidance_scale=self.config["guidance_scale"],
                callback_on_step_end=keep,
                output_type="np",
            ).images
        return images, np.stack(after_each_step)

    def _encoded(self, ids: np.ndarray) -> torch.Tensor:
        on_device = torch.from_numpy(ids).long().to(self.device)
        return self.pipeline.text_encoder(on_device).last_hidden_state

    def to_host(self, outputs: tuple[np.ndarray, np.ndarray]) -> Batch:
        """Return the images in 8 bits, computed as in diffusers' `numpy_to_pil`, and the latents
        after each quarter of the steps.
        """
        images, latents = outputs
        quarters = [-(-len(latents) * quarter // 4) - 1 for quarter in (1, 2, 3, 4)]
        return {
            "image": (images * 255).round().astype(np.uint8),
            "latents": np.ascontiguousarray(latents[quarters].transpose(1, 0, 3, 4, 2)),
        }


def load(workload: Workload) -> Reference:
    """The checkpoint's pipeline."""
    return Reference(workload)


def _loss(vae: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss for `image` [batch, side, side, 3] and `label` [batch, side / 8, side / 8,
    4]. diffusers has channels first.
    """
    means = vae.encode(batch["image"].permute(0, 3, 1, 2)).latent_dist.mean
    latents = means * vae.config.scaling_factor
    return torch.nn.functional.mse_loss(latents, batch["label"].permute(0, 3, 1, 2))


def load_training(workload: Workload) -> ReferenceTraining:
    """Return the checkpoint's VAE. Only its encoder and the convolution after it are trained,
    towards latents.
    """
    library.products_in_float32()
    vae = AutoencoderKL.from_pretrained(
        workload.checkpoint, subfolder="vae", torch_dtype=torch.float32
    ).to(workload.device)
    vae.requires_grad_(False)
    for part in (vae.encoder, vae.quant_conv):
        part.requires_grad_(True)
    return ReferenceTraining(vae, _loss, workload)
