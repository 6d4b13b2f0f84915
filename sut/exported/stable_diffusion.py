"""Stable Diffusion of diffusers. Its text encoder, its UNet and the decoder of its VAE are
programs. The arithmetic around them is written out, as diffusers' DPM-Solver of order 1 computes
it.
"""

from __future__ import annotations

import numpy as np

from sut.contract import Batch, Workload
from sut.exported.predictor import Predictor

_QUARTERS = (1, 2, 3, 4)


class StableDiffusion(Predictor):
    """Three programs. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        super().__init__(workload, architecture, any_size=any_size)
        config = workload.config["model"]
        self.guidance = np.float32(config["guidance_scale"])
        self.steps = config["denoising_steps"]
        last = config["train_steps"] - 1
        self.timesteps = np.linspace(last, 0, self.steps).round().astype(np.int64)
        first, final = np.sqrt([config["beta_start"], config["beta_end"]]).tolist()
        betas = np.linspace(first, final, config["train_steps"], dtype=np.float32) ** 2
        kept = np.cumprod(1 - betas, dtype=np.float32)[self.timesteps]
        # The share of the image and that of the noise at each step, and at the end.
        self.image = np.append(np.sqrt(kept), np.float32(1))
        self.noise = np.append(np.sqrt(1 - kept), np.float32(0))
        # With fewer than four steps, some occur twice.
        self.quarters = [-(-self.steps * quarter // 4) for quarter in _QUARTERS]

    def prepare(self, inputs: Batch) -> Batch:
        """Return the ids as int64, and the noise with its channels first."""
        ids = {name: inputs[name].astype(np.int64) for name in ("input_ids", "negative_ids")}
        noise = np.ascontiguousarray(inputs["noise"].transpose(0, 3, 1, 2))
        return {**ids, "noise": noise}

    def predict(self, batch: Batch) -> Batch:
        """Return images uint8 [batch, side, side, 3], and latents float32 [batch, 4, side / 8, side
        / 8, 4] after each quarter of the steps.
        """
        # Both kinds of prompts are one batch, as the latents with and without prompt are.
        ids = np.concatenate([batch["negative_ids"], batch["input_ids"]])
        encoded = self.run(f"{self.architecture}.text_encoder", {"input_ids": ids})["hidden"]
        latents = batch["noise"]
        after = {}
        for step in range(self.steps):
            latents = self._denoised(latents, encoded, step)
            after[step + 1] = latents
        image = self.run(f"{self.architecture}.decoder", {"latents": latents})["image"]
        quarters = np.stack([after[step] for step in self.quarters], axis=1)
        return {"image": image, "latents": quarters.transpose(0, 1, 3, 4, 2)}

    def _denoised(self, latents: np.ndarray, encoded: np.ndarray, step: int) -> np.ndarray:
        """The latents after a step, float32 [batch, 4, rows, columns]."""
        twice = np.concatenate([latents, latents])
        inputs = {
            "sample": twice,
            "timestep": np.full(len(twice), self.timesteps[step]),
            "encoder_hidden_states": encoded,
        }
        noise = self.run(f"{self.architecture}.unet", inputs)["noise"]
        negative, positive = np.split(noise, 2)
        guided = negative + self.guidance * (positive - negative)
        image = (latents - self.noise[step] * guided) / self.image[step]
        following: np.ndarray = self.image[step + 1] * image + self.noise[step + 1] * guided
        return following
