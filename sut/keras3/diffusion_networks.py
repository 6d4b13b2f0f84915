"""Stable Diffusion of KerasCV as Keras models: one that makes images, and the encoder of images.

KerasCV's own `text_to_image` calls its networks step by step, and copies the latents to the host
and back between compiled programs. Here the same steps are in the `call` of one model, so that a
backend can compile all of them as one program.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import ops

from sut.contract import Config

_PACKAGES = (
    "keras_cv",
    "keras_cv.src",
    "keras_cv.src.models",
    "keras_cv.src.models.stable_diffusion",
)
_BACKEND = "keras_cv.src.backend"


def _place() -> None:
    """Make KerasCV's modules of Stable Diffusion importable on Keras 3 without TensorFlow.

    Its packages are replaced by empty ones, in which its modules are found. The `__init__`
    files of its own packages import TensorFlow and every other model. KerasCV would use TensorFlow
    to choose between Keras 2 and 3; here it gets the installed Keras.
    """
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
    backend = ModuleType(_BACKEND)
    backend.__dict__.update(keras=keras, ops=keras.ops)
    sys.modules[_BACKEND] = backend


_place()

from keras_cv.src.models.stable_diffusion import (  # noqa: E402
    decoder,
    diffusion_model,
    text_encoder,
)
from keras_cv.src.models.stable_diffusion import image_encoder as vae_encoder  # noqa: E402
from keras_cv.src.models.stable_diffusion.attention_block import AttentionBlock  # noqa: E402
from keras_cv.src.models.stable_diffusion.padded_conv2d import PaddedConv2D  # noqa: E402
from keras_cv.src.models.stable_diffusion.resnet_block import ResnetBlock  # noqa: E402

_PUBLISHED = {
    "unet_channels": [320, 640, 1280, 1280],
    "unet_heads": 8,
    "vae_channels": [128, 256, 512, 512],
}
_PUBLISHED_TEXT = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
_SCALING = 0.18215  # scale of the latents, as in KerasCV's decoder


class TextToImage(keras.Model):
    """Prompts and noise → images, as `StableDiffusion.generate_image` computes them.

    The latents with the prompt and without it are one batch of the UNet, as in diffusers. KerasCV
    itself runs the UNet twice a step.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.text_encoder = _text_encoder(config)
        # KerasCV has a `DiffusionModel` of the published sizes. Others are built from its blocks.
        side = config["image_size"]
        length = config["max_position_embeddings"]
        if _is(config, {**_PUBLISHED, **_PUBLISHED_TEXT}):
            network = diffusion_model.DiffusionModel(side, side, length, download_weights=False)
        else:
            channels = config["unet_channels"]
            heads = config["unet_heads"]
            network = _smaller_unet(channels, heads, side // 8, length, config["hidden_size"])
        for layer in network.layers:
            if isinstance(layer, diffusion_model.SpatialTransformer):
                layer.norm.epsilon = 1e-6  # as in the original and diffusers; KerasCV has 1e-5
        self.unet = network
        self.image_decoder = _decoder(config)
        self.tables = _schedule(config)
        self.steps = config["denoising_steps"]
        self.guidance = config["guidance_scale"]
        self.built = True  # its networks are built

    def call(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return `image` uint8 [batch, side, side, 3], and the `latents` after each quarter of the
        steps, float32 [batch, 4, side / 8, side / 8, 4].
        """
        ids = ops.concatenate([inputs["negative_ids"], inputs["input_ids"]], axis=0)
        positions = ops.expand_dims(ops.arange(ids.shape[1], dtype="int32"), 0)
        context = self.text_encoder([ids, positions])
        tables = {name: ops.convert_to_tensor(table) for name, table in self.tables.items()}
        quarters = tables.pop("quarters")

        def step(number: Any, state: Any) -> Any:
            latents, kept = state
            now = {name: ops.take(table, number, axis=0) for name, table in tables.items()}
            zeros = ops.cast(ops.zeros_like(context[:, 0, :1]), "float32")
            time = zeros + now["embedding"]
            twice = ops.concatenate([latents, latents], axis=0)
            predicted = ops.cast(self.unet([twice, time, context]), "float32")
            without, with_prompt = ops.split(predicted, 2, axis=0)
            noise = without + self.guidance * (with_prompt - without)
            image = (latents - now["noise"] * noise) / now["image"]
            latents = now["next_noise"] * noise + now["next_image"] * image
            here = ops.reshape(ops.equal(quarters, number + 1), (-1, 1, 1, 1, 1))
            return latents, ops.where(here, ops.expand_dims(latents, 0), kept)

        noise = ops.cast(inputs["noise"], "float32")
        latents, kept = ops.fori_loop(0, self.steps, step, (noise, ops.stack([noise] * 4)))
        pixels = (ops.cast(self.image_decoder(latents), "float32") + 1) / 2 * 255
        whole = ops.floor(pixels + 0.5)  # rounds to the nearest
        return {
            "image": ops.cast(ops.clip(whole, 0, 255), "uint8"),
            "latents": ops.moveaxis(kept, 0, 1),
        }


def _schedule(config: Config) -> dict[str, np.ndarray]:
    """Return the tables of the denoising steps, float32 with a row for each step, and `quarters`.

    `embedding`: the embedding of the step's timestep. `noise` and `image`: their shares in the
    latents before the step. `next_noise` and `next_image`: these shares after the step. `quarters`,
    int32 [4]: the number of steps done after each quarter.
    """
    train_steps = config["train_steps"]
    roots = np.linspace(config["beta_start"] ** 0.5, config["beta_end"] ** 0.5, train_steps)
    betas = roots**2
    images = np.cumprod(1 - betas)
    steps = config["denoising_steps"]
    timesteps = np.linspace(train_steps - 1, 0, steps).round().astype(int)
    now = images[timesteps]
    after = np.append(images[timesteps[1:]], 1.0)
    half = config["unet_channels"][0] // 2
    frequencies = np.exp(-math.log(10000) * np.arange(half) / half)
    angles = timesteps[:, None] * frequencies
    tables = {
        "embedding": np.concatenate([np.cos(angles), np.sin(angles)], axis=1),
        "noise": np.sqrt(1 - now),
        "image": np.sqrt(now),
        "next_noise": np.sqrt(1 - after),
        "next_image": np.sqrt(after),
    }
    quarters = np.array([-(-steps * quarter // 4) for quarter in (1, 2, 3, 4)], np.int32)
    of_steps = {name: table.astype(np.float32) for name, table in tables.items()}
    return {"quarters": quarters, **of_steps}


def _text_encoder(config: Config) -> Any:
    length = config["max_position_embeddings"]
    width = config["hidden_size"]
    if _is(config, _PUBLISHED_TEXT):
        return text_encoder.TextEncoder(
            length, vocab_size=config["vocab_size"], download_weights=False
        )
    heads = config["num_attention_heads"]
    gelu = text_encoder.quick_gelu
    ids = keras.layers.Input((length,), dtype="int32")
    positions = keras.layers.Input((length,), dtype="int32")
    embedding = text_encoder.CLIPEmbedding(config["vocab_size"], width, length)
    x = embedding([ids, positions])
    for _ in range(config["num_hidden_layers"]):
        x = text_encoder.CLIPEncoderLayer(width, heads, activation=gelu)(x)
    x = keras.layers.LayerNormalization(epsilon=1e-5)(x)
    return keras.Model([ids, positions], x)


def _smaller_unet(channels: list[int], heads: int, side: int, length: int, width: int) -> Any:
    latents = keras.layers.Input((side, side, 4))
    time = keras.layers.Input((channels[0],))
    context = keras.layers.Input((length, width))
    t = keras.layers.Dense(4 * channels[0])(time)
    t = keras.layers.Activation("swish")(t)
    t = keras.layers.Dense(4 * channels[0])(t)

    def block(x: Any, out: int, attends: bool) -> Any:
        x = diffusion_model.ResBlock(out)([x, t])
        if not attends:
            return x
        return diffusion_model.SpatialTransformer(heads, out // heads)([x, context])

    x = PaddedConv2D(channels[0], 3, padding=1)(latents)
    skips = [x]
    last = len(channels) - 1
    for level, out in enumerate(channels):
        for _ in range(2):
            x = block(x, out, attends=level < last)
            skips.append(x)
        if level < last:
            x = PaddedConv2D(out, 3, strides=2, padding=1)(x)
            skips.append(x)
    x = block(x, channels[-1], attends=True)
    x = block(x, channels[-1], attends=False)
    for level, out in enumerate(reversed(channels)):
        for _ in range(3):
            x = keras.layers.Concatenate()([x, skips.pop()])
            x = block(x, out, attends=level > 0)
        if level < last:
            x = diffusion_model.Upsample(out)(x)
    x = keras.layers.GroupNormalization(epsilon=1e-5)(x)
    x = keras.layers.Activation("swish")(x)
    x = PaddedConv2D(4, 3, padding=1)(x)
    return keras.Model([latents, time, context], x)


def _decoder(config: Config) -> Any:
    """Return KerasCV's `Decoder`. For other sizes, build it from KerasCV's layers. Its epsilon is
    1e-6, as in the original and diffusers; KerasCV has 1e-5.
    """
    side = config["image_size"]
    if _is(config, _PUBLISHED):
        return _with_epsilon(decoder.Decoder(side, side, download_weights=False))
    channels = config["vae_channels"][::-1]
    first = channels[0]
    layers = [
        keras.layers.Input((side // 8, side // 8, 4)),
        keras.layers.Rescaling(1 / _SCALING),
        PaddedConv2D(4, 1),
        PaddedConv2D(first, 3, padding=1),
        ResnetBlock(first),
        AttentionBlock(first),
        ResnetBlock(first),
    ]
    for level, out in enumerate(channels):
        layers += [ResnetBlock(out) for _ in range(3)]
        if level < len(channels) - 1:
            layers += [keras.layers.UpSampling2D(2), PaddedConv2D(out, 3, padding=1)]
    layers += [
        keras.layers.GroupNormalization(epsilon=1e-6),
        keras.layers.Activation("swish"),
        PaddedConv2D(3, 3, padding=1),
    ]
    return _with_epsilon(keras.Sequential(layers))


def image_encoder(config: Config) -> Any:
    """Return KerasCV's `ImageEncoder`. For other sizes, build it from KerasCV's layers. It has the
    decoder's epsilon, and maps images from -1 to 1 [batch, side, side, 3] to scaled means of
    latents [batch, side / 8, side / 8, 4].
    """
    if _is(config, _PUBLISHED):
        return _with_epsilon(vae_encoder.ImageEncoder(download_weights=False))
    side = config["image_size"]
    channels = config["vae_channels"]
    layers = [keras.layers.Input((side, side, 3)), PaddedConv2D(channels[0], 3, padding=1)]
    for level, out in enumerate(channels):
        layers += [ResnetBlock(out) for _ in range(2)]
        if level < len(channels) - 1:
            layers.append(PaddedConv2D(out, 3, padding=((0, 1), (0, 1)), strides=2))
    last = channels[-1]
    layers += [
        ResnetBlock(last),
        AttentionBlock(last),
        ResnetBlock(last),
        keras.layers.GroupNormalization(epsilon=1e-6),
        keras.layers.Activation("swish"),
        PaddedConv2D(8, 3, padding=1),
        PaddedConv2D(8, 1),
        keras.layers.Lambda(lambda x: x[..., :4] * _SCALING),
    ]
    return _with_epsilon(keras.Sequential(layers))


def _with_epsilon(network: Any) -> Any:
    """Return the network with the original's epsilon in the group norms of the VAE."""
    for layer in network.layers:
        inner = [getattr(layer, name, None) for name in ("norm", "norm1", "norm2")]
        for norm in (layer, *inner):
            if isinstance(norm, keras.layers.GroupNormalization):
                norm.epsilon = 1e-6
    return network


def _is(config: Config, published: Config) -> bool:
    return all(config[key] == value for key, value in published.items())


def _exact_gelu(self: Any, inputs: Any) -> Any:
    """Replace `GEGLU.call`, whose GELU is the tanh form. The original's and diffusers' is exact."""
    x = self.dense(inputs)
    gate = keras.activations.gelu(x[..., self.output_dim :])
    return x[..., : self.output_dim] * gate


diffusion_model.GEGLU.call = _exact_gelu
