"""Stable Diffusion of diffusers. The measured call runs the text encoder on the prompts, and the
`__call__` of the pipeline on its output.
"""

from __future__ import annotations

from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from sut.contract import Batch, Call, Evidence, Workload
from sut.native_torch import compiled, execution, tuning
from sut.native_torch.training import TorchTraining

_QUARTERS = (1, 2, 3, 4)


class TorchStableDiffusion(execution.OnDevice):
    """A `StableDiffusionPipeline`. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # the scheduler looks at every timestep on the host

    def __init__(self, pipeline: Any, workload: Workload):
        self.pipeline = pipeline
        self.workload = workload
        self.config = workload.config["model"]
        self.steps = self.config["denoising_steps"]
        # KerasCV's timesteps are evenly spaced, from the last one to 0.
        timesteps = np.linspace(self.config["train_steps"] - 1, 0, self.steps).round()
        self.timesteps = timesteps.astype(int).tolist()
        # With fewer than four steps, some occur twice.
        self.quarters = [-(-self.steps * quarter // 4) for quarter in _QUARTERS]
        self.guidance = self.config["guidance_scale"]

    def prepare(self, inputs: Batch) -> Batch:
        """Return the ids as int64, which torch's embedding takes without another copy, and the
        noise with its channels first.
        """
        ids = {name: inputs[name].astype(np.int64) for name in ("input_ids", "negative_ids")}
        return {**ids, "noise": inputs["noise"].transpose(0, 3, 1, 2)}

    def predict(self, batch: Batch) -> tuple[execution.OnItsWay, execution.OnItsWay]:
        """Return (images uint8 [batch, side, side, 3], latents float32 [batch, 4, side / 8, side /
        8, 4]), on their way to the host.
        """
        arrays = execution.on_device(batch, self.workload)
        after: dict[int, torch.Tensor] = {}

        def keep(
            pipeline: Any, step: int, timestep: Any, tensors: dict[str, torch.Tensor]
        ) -> dict[str, torch.Tensor]:
            if step + 1 in self.quarters:
                after[step + 1] = tensors["latents"]
            return {}

        with torch.no_grad():
            # Both kinds of prompts are one batch, as the latents with and without prompt are.
            ids = torch.cat([arrays["negative_ids"], arrays["input_ids"]])
            encoded = self.pipeline.text_encoder(ids).last_hidden_state
            negative, positive = encoded.chunk(2)
            images = self.pipeline(
                prompt_embeds=positive,
                negative_prompt_embeds=negative,
                latents=arrays["noise"].to(self.pipeline.unet.dtype),
                timesteps=self.timesteps,
                guidance_scale=self.guidance,
                callback_on_step_end=keep,
                output_type="pt",
            ).images
            pixels = (images.float().permute(0, 2, 3, 1) * 255).round().to(torch.uint8)
            of_quarters = torch.stack([after[step] for step in self.quarters], dim=1)
            latents = of_quarters.permute(0, 1, 3, 4, 2).float()
        return execution.OnItsWay(pixels), execution.OnItsWay(latents)

    def to_host(self, outputs: tuple[execution.OnItsWay, execution.OnItsWay]) -> Batch:
        """Return images, and latents after each quarter of the steps, once they have arrived."""
        image, latents = [output.wait().contiguous().numpy() for output in outputs]
        return {"image": image, "latents": latents}

    def evidence(self, call: Call) -> Evidence:
        """See `execution.evidence`. A forward pass is one of the text encoder, of the UNet or of
        the VAE's decoder.
        """
        parts = torch.nn.ModuleList(_parts(self.pipeline))
        return execution.evidence(
            parts,
            self.workload,
            "StableDiffusionPipeline.__call__",
            call,
            diffusers=diffusers.__version__,
        )


def _parts(pipeline: Any) -> list[torch.nn.Module]:
    """Return the networks that the measured call enters. Each network is compiled separately; the
    pipeline's arithmetic around them is not compiled.
    """
    return [pipeline.text_encoder, pipeline.unet, pipeline.vae.decoder]


def load(workload: Workload) -> TorchStableDiffusion:
    """The checkpoint's pipeline, in the workload's precision and execution."""
    execution.configure(workload)
    folder = workload.checkpoint
    dtype = torch.bfloat16 if workload.precision == "bfloat16" else torch.float32
    vae = diffusers.AutoencoderKL.from_pretrained(
        folder, subfolder="vae", torch_dtype=dtype, local_files_only=True
    )
    text_encoder = transformers.CLIPTextModel.from_pretrained(
        folder / "text_encoder", dtype=dtype, local_files_only=True
    )
    unet = diffusers.UNet2DConditionModel.from_pretrained(
        folder, subfolder="unet", torch_dtype=dtype, local_files_only=True
    )
    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=None,
        unet=unet,
        scheduler=scheduler(workload.config["model"]),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).to(workload.device)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.unet = tuning.adapted(pipeline.unet, workload)
    pipeline.vae = tuning.adapted(pipeline.vae, workload)
    if workload.execution == "compile":
        for part in _parts(pipeline):
            compiled.compile_forward(part, workload.settings)
    return TorchStableDiffusion(pipeline, workload)


def scheduler(config: Any) -> Any:
    """Return DDIM without noise. diffusers' DDIM class takes no timesteps. Its DPM-Solver takes
    them, and is the same at order 1.
    """
    return diffusers.DPMSolverMultistepScheduler(
        num_train_timesteps=config["train_steps"],
        beta_start=config["beta_start"],
        beta_end=config["beta_end"],
        beta_schedule="scaled_linear",
        solver_order=1,
        final_sigmas_type="zero",
    )


class Encoder(torch.nn.Module):
    """The VAE's encoder, with the convolution after it."""

    def __init__(self, vae: diffusers.AutoencoderKL):
        super().__init__()
        self.encoder = vae.encoder
        self.quant_conv = vae.quant_conv
        self.scaling = vae.config.scaling_factor

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, side, side] from -1 to 1 → means of latents, scaled [batch, 4, side /
        8, side / 8].
        """
        encoded = self.encoder(images.to(self.quant_conv.weight.dtype))
        mean, _ = self.quant_conv(encoded).chunk(2, dim=1)
        latents: torch.Tensor = mean * self.scaling
        return latents


def load_training(workload: Workload) -> TorchTraining:
    """The checkpoint's image encoder, in the workload's precision and execution, to train towards
    latents; see `training`.
    """
    execution.configure(workload)
    dtype = torch.bfloat16 if workload.precision == "bfloat16" else torch.float32
    vae = diffusers.AutoencoderKL.from_pretrained(
        workload.checkpoint, subfolder="vae", torch_dtype=dtype, local_files_only=True
    )
    return TorchTraining(Encoder(vae), workload, diffusers=diffusers.__version__)
