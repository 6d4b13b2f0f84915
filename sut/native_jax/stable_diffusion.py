"""Stable Diffusion 1 (Rombach et al. 2022) in plain JAX.

The measured call is one compiled program, `text_to_image`, for each shape. It runs CLIP's text
encoder (Radford et al. 2021), a loop of denoising steps, and the autoencoder's decoder. The UNet is
compiled once, inside the loop.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sut.contract import AsGiven, Batch, Call, Evidence, Workload
from sut.evidence import jax_programs
from sut.native_jax import autoencoder, runtime, unet
from sut.native_jax.diffusion_blocks import load_weights
from sut.native_jax.layers import attend, dense, norm
from sut.native_jax.runtime import DeviceBatch, Weights
from sut.native_jax.training import JaxTraining, squared_error
from sut.native_jax.unet import Config

_Outputs = tuple[jax.Array, jax.Array]
"""Images, and latents."""
_EPSILON_OF_TEXT = 1e-5


def schedule(config: Config) -> dict[str, np.ndarray]:
    """Return tables with a row for each denoising step, float32: `waves` of its time [steps,
    channels], `kept` and `added` [steps].

    The steps are those of DDIM without noise (Song et al. 2020, equation 12 with sigma 0), evenly
    spaced from the last timestep to 0. Each step multiplies the latents by `kept`, and adds `added`
    times the predicted noise. With `a` for the paper's alpha, and `b` for that of the next step,
    kept = sqrt(b / a) and added = sqrt(1 - b) - kept sqrt(1 - a). After the last step there is no
    noise: its `b` is 1.
    """
    train_steps = config["train_steps"]
    roots = np.linspace(config["beta_start"] ** 0.5, config["beta_end"] ** 0.5, train_steps)
    betas = roots**2
    evenly = np.linspace(train_steps - 1, 0, config["denoising_steps"])
    timesteps = evenly.round().astype(int)
    shares = np.append(np.cumprod(1 - betas)[timesteps], 1.0)
    kept = np.sqrt(shares[1:] / shares[:-1])
    added = np.sqrt(1 - shares[1:]) - kept * np.sqrt(1 - shares[:-1])
    half = config["unet_channels"][0] // 2
    angles = timesteps[:, None] * 10000.0 ** (-np.arange(half) / half)
    tables = {
        "waves": np.concatenate([np.cos(angles), np.sin(angles)], axis=1),
        "kept": kept,
        "added": added,
    }
    return {name: table.astype(np.float32) for name, table in tables.items()}


def encode_text(config: Config, weights: Weights, ids: jax.Array) -> jax.Array:
    """Transformers' `CLIPTextModel`: ids int32 [batch, length] → [batch, length, hidden]. No token
    looks at later tokens.
    """
    normed = partial(norm, weights, epsilon=_EPSILON_OF_TEXT)
    product = partial(dense, weights)
    length = ids.shape[1]
    words = weights["text_encoder/embeddings.token_embedding.weight"]
    positions = weights["text_encoder/embeddings.position_embedding.weight"]
    x = words[ids] + positions[:length]
    mask = np.tri(length, dtype=bool)
    for number in range(config["num_hidden_layers"]):
        layer = f"text_encoder/encoder.layers.{number}"
        inner = normed(f"{layer}.layer_norm1", x)
        query = product(f"{layer}.self_attn.q_proj", inner)
        key = product(f"{layer}.self_attn.k_proj", inner)
        value = product(f"{layer}.self_attn.v_proj", inner)
        mixed = attend(query, key, value, config["num_attention_heads"], mask)
        x = x + product(f"{layer}.self_attn.out_proj", mixed)
        inner = product(f"{layer}.mlp.fc1", normed(f"{layer}.layer_norm2", x))
        x = x + product(f"{layer}.mlp.fc2", inner * jax.nn.sigmoid(1.702 * inner))  # CLIP's GELU
    return normed("text_encoder/final_layer_norm", x)


def denoise(config: Config, weights: Weights, noise: jax.Array, context: jax.Array) -> jax.Array:
    """noise float32 [batch, side, side, 4] → the latents after each step, float32 [steps, batch,
    side, side, 4].

    Args:
        context: the encoded prompts, negative prompts first [2 batch, length, hidden]. The UNet
            gets both in one batch.
    """
    tables = schedule(config)
    times = unet.time_embedding(weights, tables["waves"].astype(context.dtype))

    def step(latents: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        time, kept, added = row
        twice = jnp.concatenate([latents, latents]).astype(context.dtype)
        predicted = unet.predict_noise(config, weights, twice, time, context).astype(jnp.float32)
        without, with_prompt = jnp.split(predicted, 2)
        kept_latents = kept * latents
        guided = without + config["guidance_scale"] * (with_prompt - without)
        latents = kept_latents + added * guided
        return latents, latents

    return lax.scan(step, noise, (times, tables["kept"], tables["added"]))[1]


def images_of(
    config: Config, weights: Weights, ids: jax.Array, negative_ids: jax.Array, noise: jax.Array
) -> _Outputs:
    """Return (images uint8 [batch, side, side, 3], latents after each quarter of the steps, float32
    [batch, 4, side / 8, side / 8, 4]).

    Args:
        ids, negative_ids: int32 [batch, length]; the prompts and the negative prompts.
        noise: float32 [batch, side / 8, side / 8, 4].
    """
    context = encode_text(config, weights, jnp.concatenate([negative_ids, ids]))
    after = denoise(config, weights, noise, context)
    pixels = autoencoder.decode(config, weights, after[-1]) * 127.5 + 127.5
    # With fewer than four steps, some occur twice.
    quarters = [-(-len(after) * quarter // 4) - 1 for quarter in (1, 2, 3, 4)]
    images = jnp.clip(jnp.round(pixels), 0, 255).astype(jnp.uint8)
    return images, after[np.array(quarters)].swapaxes(0, 1)


class JaxStableDiffusion(AsGiven):
    """Text encoder, UNet and decoder. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, weights: Weights, workload: Workload):
        self.weights = weights
        self.workload = workload
        self.in_flight = workload.in_flight
        config = workload.config["model"]

        def text_to_image(
            weights: Weights, ids: jax.Array, negative_ids: jax.Array, noise: jax.Array
        ) -> _Outputs:
            return images_of(config, weights, ids, negative_ids, noise)

        self.program = jax.jit(text_to_image)

    def predict(self, batch: Batch) -> _Outputs:
        """Return the outputs of `images_of`, on their way to the host."""
        outputs: _Outputs = self.program(
            self.weights, batch["input_ids"], batch["negative_ids"], batch["noise"]
        )
        for output in outputs:
            output.copy_to_host_async()
        return outputs

    def to_host(self, outputs: _Outputs) -> Batch:
        """Return images in 8 bits, and latents after each quarter of the steps, once they have
        arrived.
        """
        image, latents = outputs
        return {"image": np.ascontiguousarray(image), "latents": np.ascontiguousarray(latents)}

    def synchronise(self) -> None:
        """Wait for the device."""
        jax_programs.synchronise()

    def evidence(self, call: Call) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.weights, self.workload, "text_to_image", call)


def load(workload: Workload) -> JaxStableDiffusion:
    """The checkpoint's networks, without the encoder of images."""
    networks = ("text_encoder/", "unet/", *autoencoder.DECODER)
    return JaxStableDiffusion(load_weights(workload, networks), workload)


def load_training(workload: Workload) -> JaxTraining:
    """Return the checkpoint's image encoder and the convolution after it, to train towards latents;
    see `training`.
    """
    config = workload.config["model"]

    def loss(trained: Weights, _: Weights, batch: DeviceBatch) -> jax.Array:
        return squared_error(autoencoder.encode(config, trained, batch["image"]), batch["label"])

    return JaxTraining(loss, load_weights(workload, autoencoder.ENCODER), workload)
