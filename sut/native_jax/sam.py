"""Segment Anything (Kirillov et al. 2023) in plain JAX. The measured call is one compiled program,
`segment`, for each shape.

It computes the same as Meta's library `segment_anything`, up to the masks of low resolution.
"""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sut.checkpoint import weights_files
from sut.contract import AsGiven, Batch, Call, Config, Evidence, Workload
from sut.evidence import jax_programs
from sut.native_jax import runtime
from sut.native_jax.layers import attend, convolution, dense, norm
from sut.native_jax.runtime import DeviceBatch, Weights
from sut.native_jax.training import JaxTraining, squared_error

_Outputs = tuple[jax.Array, jax.Array]
"""Logits of masks, and scores."""
FREQUENCIES = "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"
_TABLE = re.compile(r"pos_embed|rel_pos_[hw]|(_embed|_embeddings\.\d|_tokens?)\.weight")
_MEAN = np.array((0.485, 0.456, 0.406), np.float32)
_DEVIATION = np.array((0.229, 0.224, 0.225), np.float32)
_EPSILON = 1e-6
_DECODER_EPSILON = 1e-5  # PyTorch's default
_DECODER_LAYERS = 2

gelu = partial(jax.nn.gelu, approximate=False)


def split(x: jax.Array, size: int) -> jax.Array:
    """Cut a square into windows: x [batch, grid, grid, channels] → [batch × windows, size, size,
    channels]. Zeros fill the last windows.
    """
    batch, grid, _, channels = x.shape
    across = -(-grid // size)
    margin = (0, across * size - grid)
    padded = jnp.pad(x, ((0, 0), margin, margin, (0, 0)))
    windows = padded.reshape(batch, across, size, across, size, channels).swapaxes(2, 3)
    return windows.reshape(-1, size, size, channels)


def join(windows: jax.Array, grid: int) -> jax.Array:
    """Undo `split`: windows [batch × windows, size, size, channels] → [batch, grid, grid,
    channels].
    """
    _, size, _, channels = windows.shape
    across = -(-grid // size)
    rows = windows.reshape(-1, across, across, size, size, channels).swapaxes(2, 3)
    whole = rows.reshape(-1, across * size, across * size, channels)
    return whole[:, :grid, :grid]


def attention(weights: Weights, layer: str, x: jax.Array, heads: int, size: int) -> jax.Array:
    """Attention within windows, with decomposed relative positions (Li et al. 2022, MViTv2).

    Args:
        x: [batch, grid, grid, hidden]; the result has the same shape.
        size: a window's side; it may be the grid's.
    """
    joint = dense(weights, f"{layer}.qkv", split(x, size))
    windows = len(joint)
    tokens = size * size
    # Each has the shape [windows, heads, tokens, head].
    query, key, value = jnp.moveaxis(joint.reshape(windows, tokens, 3, heads, -1), (2, 3), (0, 2))
    distance = np.arange(size)[:, None] - np.arange(size) + size - 1
    # [size of the queries, size of the keys, head].
    rows = weights[f"{layer}.rel_pos_h"][distance]
    columns = weights[f"{layer}.rel_pos_w"][distance]
    square = query.reshape(windows, heads, size, size, -1)
    down = jnp.einsum("wnyxd,yid->wnyxi", square, rows)
    across = jnp.einsum("wnyxd,xjd->wnyxj", square, columns)
    scaled = query * query.shape[-1] ** -0.5
    scores = (scaled @ key.swapaxes(-1, -2)).astype(jnp.float32)
    scores = scores.reshape(windows, heads, size, size, size, size)
    scores = scores + down[..., None] + across[..., None, :]
    scores = scores.reshape(windows, heads, tokens, tokens)
    shares = jax.nn.softmax(scores).astype(x.dtype)
    mixed = (shares @ value).swapaxes(1, 2).reshape(windows, size, size, -1)
    projected = dense(weights, f"{layer}.proj", mixed)
    return join(projected, x.shape[1])


def encode(config: Config, weights: Weights, image: jax.Array) -> jax.Array:
    """image: float32 [batch, side, side, 3] from 0 to 1 → features [batch, grid, grid, channels]
    (`ImageEncoderViT`).
    """
    positions = weights["image_encoder.pos_embed"]
    pixels = ((image - _MEAN) / _DEVIATION).astype(positions.dtype)
    patch = config["patch_size"]
    x = convolution(weights, "image_encoder.patch_embed.proj", pixels, stride=patch) + positions
    for number in range(config["num_hidden_layers"]):
        layer = f"image_encoder.blocks.{number}"
        is_global = number in config["global_attn_indexes"]
        size = config["image_embedding_size" if is_global else "window_size"]
        inner = norm(weights, f"{layer}.norm1", x, _EPSILON)
        x += attention(weights, f"{layer}.attn", inner, config["num_attention_heads"], size)
        inner = norm(weights, f"{layer}.norm2", x, _EPSILON)
        inner = gelu(dense(weights, f"{layer}.mlp.lin1", inner))
        x += dense(weights, f"{layer}.mlp.lin2", inner)
    x = convolution(weights, "image_encoder.neck.0", x)
    x = norm(weights, "image_encoder.neck.1", x, _EPSILON)
    x = convolution(weights, "image_encoder.neck.2", x, padding=1)
    return norm(weights, "image_encoder.neck.3", x, _EPSILON)


def encoded_positions(frequencies: jax.Array, at: jax.Array) -> jax.Array:
    """at: float32 [..., 2], x and y from 0 to 1 → sines and cosines, float32 [..., channels]
    (`PositionEmbeddingRandom`).

    The sum is not computed as a product of matrices, because tf32 would round that.
    """
    angles = 2 * np.pi * ((2 * at - 1)[..., None] * frequencies).sum(-2)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def prompts(weights: Weights, frequencies: jax.Array, batch: DeviceBatch) -> jax.Array:
    """Points and corners of boxes → float32 [batch, prompts, channels] (`PromptEncoder`).

    If there is no box, a padding point with label -1 follows the points.
    """
    side = batch["image"].shape[1]
    points = batch["points"]
    labels = batch["labels"]
    boxes = batch.get("boxes")
    background, inside, *corners = [
        weights[f"prompt_encoder.point_embeddings.{kind}.weight"] for kind in range(4)
    ]
    encoded = []
    if points.shape[1]:
        if boxes is None:
            points = jnp.pad(points, ((0, 0), (0, 1), (0, 0)))
            labels = jnp.pad(labels, ((0, 0), (0, 1)), constant_values=-1)
        at = encoded_positions(frequencies, (points + 0.5) / side)
        kind = labels[..., None]
        known = at + jnp.where(kind == 0, background, 0) + jnp.where(kind == 1, inside, 0)
        padding = weights["prompt_encoder.not_a_point_embed.weight"]
        encoded.append(jnp.where(kind == -1, padding, known))
    if boxes is not None:
        at = encoded_positions(frequencies, (boxes[:, 0] + 0.5) / side)
        encoded.append(at + jnp.concatenate(corners))
    return jnp.concatenate(encoded, axis=1)


def attention_between(
    weights: Weights, layer: str, query: jax.Array, key: jax.Array, value: jax.Array, heads: int
) -> jax.Array:
    """query [batch, queries, channels], key and value [batch, keys, channels] → [batch, queries,
    channels] (`transformer.Attention`).
    """
    q = dense(weights, f"{layer}.q_proj", query)
    k = dense(weights, f"{layer}.k_proj", key)
    v = dense(weights, f"{layer}.v_proj", value)
    return dense(weights, f"{layer}.out_proj", attend(q, k, v, heads))


def two_way(
    config: Config, weights: Weights, tokens: jax.Array, image: jax.Array, at: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Let tokens and image attend to each other (`TwoWayTransformer`). Return (tokens, image) in
    their shapes.

    Args:
        tokens: [batch, tokens, channels]; they are also their own positions.
        image: [batch, grid × grid, channels].
        at: [grid × grid, channels], the image's positions.
    """
    attended = partial(attention_between, weights, heads=config["decoder_attention_heads"])
    normed = partial(norm, weights, epsilon=_DECODER_EPSILON)
    x = tokens
    for number in range(_DECODER_LAYERS):
        layer = f"mask_decoder.transformer.layers.{number}"
        query = x + tokens
        if number:
            x = x + attended(f"{layer}.self_attn", query, query, x)
        else:
            x = attended(f"{layer}.self_attn", x, x, x)
        x = normed(f"{layer}.norm1", x)
        mixed = attended(f"{layer}.cross_attn_token_to_image", x + tokens, image + at, image)
        x = normed(f"{layer}.norm2", x + mixed)
        inner = jax.nn.relu(dense(weights, f"{layer}.mlp.lin1", x))
        x = normed(f"{layer}.norm3", x + dense(weights, f"{layer}.mlp.lin2", inner))
        mixed = attended(f"{layer}.cross_attn_image_to_token", image + at, x + tokens, x)
        image = normed(f"{layer}.norm4", image + mixed)
    name = "mask_decoder.transformer.final_attn_token_to_image"
    mixed = attended(name, x + tokens, image + at, image)
    return normed("mask_decoder.transformer.norm_final_attn", x + mixed), image


def enlarge(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Transposed convolution of 2 × 2 with stride 2: x [batch, height, width, in] → [batch, 2 ×
    height, 2 × width, out].
    """
    batch, height, width, _ = x.shape
    made = jnp.einsum("bhwi,yxoi->bhywxo", x, weights[f"{name}.weight"])
    return made.reshape(batch, 2 * height, 2 * width, -1) + weights[f"{name}.bias"]


def network(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Three layers with ReLU between them: x [batch, channels] → [batch, out]
    (`mask_decoder.MLP`).
    """
    x = jax.nn.relu(dense(weights, f"{name}.layers.0", x))
    x = jax.nn.relu(dense(weights, f"{name}.layers.1", x))
    return dense(weights, f"{name}.layers.2", x)


def decode(
    config: Config, weights: Weights, encoded: jax.Array, at: jax.Array, prompted: jax.Array
) -> _Outputs:
    """Return (mask logits [batch, 3, 4 × grid, 4 × grid], scores [batch, 3]), float32
    (`MaskDecoder`).

    The first mask is left out. Meta's library uses it only for single answers.

    Args:
        encoded: [batch, grid, grid, channels].
        at: [grid, grid, channels], the positions of `encoded`.
        prompted: [batch, prompts, channels].
    """
    batch, grid, _, channels = encoded.shape
    score_token = weights["mask_decoder.iou_token.weight"]
    own = jnp.concatenate([score_token, weights["mask_decoder.mask_tokens.weight"]])
    tokens = jnp.concatenate([jnp.broadcast_to(own, (batch, *own.shape)), prompted], axis=1)
    image = encoded + weights["prompt_encoder.no_mask_embed.weight"]
    image = image.reshape(batch, grid * grid, channels)
    tokens, image = two_way(config, weights, tokens, image, at.reshape(grid * grid, channels))
    large = enlarge(weights, "mask_decoder.output_upscaling.0", image.reshape(encoded.shape))
    large = gelu(norm(weights, "mask_decoder.output_upscaling.1", large, _EPSILON))
    large = gelu(enlarge(weights, "mask_decoder.output_upscaling.3", large))
    masks = range(1, config["mask_tokens"])
    of_masks = [
        network(weights, f"mask_decoder.output_hypernetworks_mlps.{n}", tokens[:, 1 + n])
        for n in masks
    ]
    factors = jnp.stack(of_masks, axis=1)
    scores = network(weights, "mask_decoder.iou_prediction_head", tokens[:, 0])[:, 1:]
    logits = jnp.einsum("bmc,bhwc->bmhw", factors, large)
    return logits.astype(jnp.float32), scores.astype(jnp.float32)


class JaxSam(AsGiven):
    """Segment Anything. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, weights: Weights, frequencies: jax.Array, workload: Workload):
        self.weights = weights
        self.frequencies = frequencies
        self.workload = workload
        self.in_flight = workload.in_flight
        config = workload.config["model"]

        def segment(weights: Weights, frequencies: jax.Array, batch: DeviceBatch) -> _Outputs:
            encoded = encode(config, weights, batch["image"])
            grid = config["image_embedding_size"]
            middle = (jnp.arange(grid) + 0.5) / grid
            places = jnp.stack(jnp.meshgrid(middle, middle), axis=-1)
            at = encoded_positions(frequencies, places)
            prompted = prompts(weights, frequencies, batch)
            at = at.astype(encoded.dtype)
            prompted = prompted.astype(encoded.dtype)
            return decode(config, weights, encoded, at, prompted)

        self.program = jax.jit(segment)

    def predict(self, batch: Batch) -> _Outputs:
        """Return (mask logits, scores), see `decode`, on their way to the host."""
        logits, scores = self.program(self.weights, self.frequencies, batch)
        logits.copy_to_host_async()
        scores.copy_to_host_async()
        return logits, scores

    def to_host(self, outputs: _Outputs) -> Batch:
        """Return the masks as bits, every seventh of their logits in either direction, and the
        scores, once they have arrived.
        """
        logits, scores = [np.ascontiguousarray(output) for output in outputs]
        return {
            "mask": logits > 0,
            "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
            "score": scores,
        }

    def synchronise(self) -> None:
        """Wait for the device."""
        jax_programs.synchronise()

    def evidence(self, call: Call) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.weights, self.workload, "segment", call)


def load_weights(workload: Workload, begins: tuple[str, ...] = ("",)) -> dict[str, jax.Array]:
    """See `runtime.load_weights`. Returns all tensors except `FREQUENCIES`, which are float32 in
    every precision.
    """
    ends = (".weight", ".bias", ".pos_embed", ".rel_pos_h", ".rel_pos_w")
    return runtime.load_weights(
        workload, begins, ends, lambda name: _TABLE.search(name) is not None
    )


def load(workload: Workload) -> JaxSam:
    """The checkpoint's model."""
    weights = load_weights(workload)
    frequencies = np.asarray(weights_files.tensor(workload.checkpoint, FREQUENCIES), np.float32)
    return JaxSam(weights, jax.device_put(frequencies), workload)


def load_training(workload: Workload) -> JaxTraining:
    """The checkpoint's image encoder, to train towards features; see `training`."""
    config = workload.config["model"]

    def loss(trained: Weights, _: Weights, batch: DeviceBatch) -> jax.Array:
        """`image` [batch, side, side, 3], `label` [batch, grid, grid, channels]."""
        return squared_error(encode(config, trained, batch["image"]), batch["label"])

    return JaxTraining(loss, load_weights(workload, begins=("image_encoder.",)), workload)
