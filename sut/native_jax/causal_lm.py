"""Gemma (Gemma Team 2024), Llama (Touvron et al. 2023), Mistral (Jiang et al. 2023) and others
of Llama's layout in plain JAX, which generate greedily.

Products may have biases, as in Qwen 2, and heads of queries and keys may have norms, as in Qwen 3.

The measured call is one compiled program, `generate`, for each shape. It reads the prompt, then
generates one token at a time in a loop. The cache of keys and values is inside the program, so that
no buffer has to be donated from call to call. If tokens are streamed, there are two programs:
`prefill` for the first token, and `following` for each later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sut import adapters, padding
from sut.contract import Batch, Config, Workload
from sut.native_jax import causal_lm_layout, runtime
from sut.native_jax.runtime import DeviceBatch, Weights
from sut.native_jax.training import JaxTraining, cross_entropy
from sut.streaming import one_ahead

Cache = list[tuple[jax.Array, jax.Array]]
"""Keys and values of each layer, each [batch, heads of keys, columns, size of a head]."""


def is_gemma(config: Config) -> bool:
    """Return whether the model is a Gemma, which differs from Llama's layout in norms, embedding
    and activation (Transformers' `modeling_gemma.py`).
    """
    return bool(config["model_type"] == "gemma")


@jax.named_scope("rms_norm")
def rms_norm(config: Config, weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Root mean square normalisation, computed in float32. Gemma's factors are 1 + its weights."""
    weight = weights[f"{name}.weight"]
    wide = x.astype(jnp.float32)
    mean_square = (wide**2).mean(-1, keepdims=True)
    wide = wide * lax.rsqrt(mean_square + config["rms_norm_eps"])
    if is_gemma(config):
        return (wide * (1 + weight.astype(jnp.float32))).astype(x.dtype)
    return weight * wide.astype(x.dtype)


def adapted(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """x [..., in] → [..., out]. If there are LoRA's factors `a` [in, rank] and `b` [rank, out],
    their product with x is added.

    The factors are float32. In a bfloat16 cell, JAX on a GPU would multiply them in TF32 by
    default. PyTorch's peft does not.
    """
    made = x @ weights[f"{name}.weight"]
    if f"{name}.bias" in weights:
        made = made + weights[f"{name}.bias"]
    if f"{name}.a" not in weights:
        return made
    a = weights[f"{name}.a"]
    b = weights[f"{name}.b"]
    precision = None if made.dtype == a.dtype else lax.Precision.HIGHEST
    inner = jnp.matmul(x.astype(a.dtype), a, precision=precision)
    added = jnp.matmul(inner, b, precision=precision)
    return made + added.astype(made.dtype)


def frequencies(config: Config) -> np.ndarray:
    """Return the radians a position, one for each pair of a head's dimensions, float32.

    Llama 3.1 divides low frequencies by its factor, leaves high frequencies unchanged, and
    interpolates in between.
    """
    exponents = -np.arange(0, config["head_dim"], 2) / config["head_dim"]
    turns = config["rope_theta"] ** exponents
    scaling = config.get("rope_scaling")
    if scaling:
        rounds = scaling["original_max_position_embeddings"] * turns / (2 * np.pi)
        low = scaling["low_freq_factor"]
        high = scaling["high_freq_factor"]
        share = np.clip((rounds - low) / (high - low), 0, 1)
        turns = turns * (share + (1 - share) / scaling["factor"])
    return turns.astype(np.float32)


def rotate(config: Config, x: jax.Array, angles: jax.Array) -> jax.Array:
    """Apply rotary positions. The first half of a head's dimensions is paired with the second, or
    each even one with the next, which then becomes one of the second half: queries and keys change
    alike, so that their products stay. x is [batch, heads, new, size], and angles are half as wide.
    """
    wide = x.astype(jnp.float32)
    first, second = jnp.split(wide, 2, axis=-1)
    if config["is_interleaved"]:
        first = wide[..., 0::2]
        second = wide[..., 1::2]
    cosine = jnp.cos(angles)
    sine = jnp.sin(angles)
    rotated = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def visible(columns: jax.Array, begin: jax.Array, length: int, window: int | None) -> jax.Array:
    """Return which columns of the cache each new token looks at, bool [batch, new, length]. They
    are the row's own columns, up to the token itself, within the window.
    """
    each = jnp.arange(length)
    own = columns[:, None]
    mask = (each >= begin[:, None, None]) & (each <= own)
    return mask & (each > own - window) if window else mask


def attend(
    query: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array, scale: float
) -> jax.Array:
    """query [batch, heads, new, size] → [batch, new, heads × size]. Neighbouring heads share one
    head of keys and values. The scores are multiplied by `scale`.
    """
    batch, heads, new, size = query.shape
    grouped = query.reshape(batch, keys.shape[1], -1, new, size)
    products = jnp.einsum("bkgnd,bktd->bkgnt", grouped, keys).astype(jnp.float32)
    scores = products * scale
    scores = jnp.where(mask[:, None, None], scores, jnp.finfo(jnp.float32).min)
    shares = jax.nn.softmax(scores).astype(query.dtype)
    mixed = jnp.einsum("bkgnt,bktd->bkgnd", shares, values).reshape(batch, heads, new, size)
    return mixed.swapaxes(1, 2).reshape(batch, new, -1)


def empty_cache(config: Config, batch: int, length: int, dtype: Any) -> Cache:
    """Return a cache of `length` columns."""
    shape = (batch, config["num_key_value_heads"], length, config["head_dim"])
    zeros = jnp.zeros(shape, dtype)
    return [(zeros, zeros)] * config["num_hidden_layers"]


def forward(
    config: Config, weights: Weights, ids: jax.Array, cache: Cache, at: Any, begin: jax.Array
) -> tuple[jax.Array, Cache]:
    """Run one pass over new tokens. Return (their last hidden states [batch, new, hidden], the
    cache with their keys and values).

    Args:
        ids: int32 [batch, new], in the columns from `at` on.
        begin: int32 [batch], the first column of each row. All columns before it are padding.
    """
    normed = partial(rms_norm, config, weights)
    product = partial(adapted, weights)
    columns = at + jnp.arange(ids.shape[1])
    angles = (columns - begin[:, None])[:, None, :, None] * frequencies(config)
    mask = visible(columns, begin, cache[0][0].shape[2], config["window"])
    x = weights["model.embed_tokens.weight"][ids]
    x = x * jnp.asarray(config["embedding_multiplier"], x.dtype)
    residual = config["residual_multiplier"]
    updated = []
    for number, (keys, values) in enumerate(cache):
        layer = f"model.layers.{number}"
        inner = normed(f"{layer}.input_layernorm", x)
        by_head = (*ids.shape, -1, config["head_dim"])
        query = product(f"{layer}.self_attn.q_proj", inner).reshape(by_head).swapaxes(1, 2)
        key = product(f"{layer}.self_attn.k_proj", inner).reshape(by_head).swapaxes(1, 2)
        if f"{layer}.self_attn.q_norm.weight" in weights:
            query = normed(f"{layer}.self_attn.q_norm", query)
            key = normed(f"{layer}.self_attn.k_norm", key)
        value = product(f"{layer}.self_attn.v_proj", inner).reshape(by_head).swapaxes(1, 2)
        keys = lax.dynamic_update_slice_in_dim(keys, rotate(config, key, angles), at, axis=2)
        values = lax.dynamic_update_slice_in_dim(values, value, at, axis=2)
        updated.append((keys, values))
        query = rotate(config, query, angles)
        mixed = attend(query, keys, values, mask, config["attention_multiplier"])
        x = x + residual * product(f"{layer}.self_attn.o_proj", mixed)
        inner = normed(f"{layer}.post_attention_layernorm", x)
        gate = product(f"{layer}.mlp.gate_proj", inner)
        up = product(f"{layer}.mlp.up_proj", inner)
        x = x + residual * product(f"{layer}.mlp.down_proj", config["activation"](gate) * up)
    return normed("model.norm", x), updated


def rate(config: Config, weights: Weights, hidden: jax.Array) -> jax.Array:
    """Hidden states [..., hidden] → logits [..., vocabulary]; a model without its own head uses its
    embedding.
    """
    head = weights.get("lm_head.weight")
    if head is None:
        head = weights["model.embed_tokens.weight"].T
    return hidden @ head / config["logits_scaling"]


def following(
    config: Config, weights: Weights, ids: jax.Array, cache: Cache, at: Any, begin: jax.Array
) -> tuple[jax.Array, Cache]:
    """Return (the token after `ids` of each row, int32 [batch, 1], the cache with their keys and
    values). The arguments are those of `forward`.
    """
    hidden, cache = forward(config, weights, ids, cache, at, begin)
    return rate(config, weights, hidden[:, -1:]).argmax(-1).astype(jnp.int32), cache


def greedy(
    config: Config,
    weights: Weights,
    ids: jax.Array,
    begin: jax.Array,
    new: int,
    ends: tuple[int, ...],
) -> jax.Array:
    """Prompts [batch, prompt], padded on the left up to column `begin` → new tokens, int32 [batch,
    new].

    If `ends` names tokens, the loop ends when every row has one of them.
    """
    batch, prompt = ids.shape

    def extend(
        count: Any, ids: jax.Array, at: Any, tokens: jax.Array, ended: jax.Array, cache: Cache
    ) -> Any:
        """Generate the next token, which gets the number `count`."""
        token, cache = following(config, weights, ids, cache, at, begin)
        tokens = lax.dynamic_update_slice_in_dim(tokens, token, count, axis=1)
        is_end = jnp.isin(token, jnp.array(ends, jnp.int32))
        return count + 1, token, tokens, ended | is_end, cache

    def unfinished(state: Any) -> jax.Array:
        count, _, _, ended, _ = state
        return (count < new) & ~ended.all()

    def step(state: Any) -> Any:
        count, token, tokens, ended, cache = state
        return extend(count, token, prompt + count - 1, tokens, ended, cache)

    cache = empty_cache(config, batch, prompt + new, weights["model.embed_tokens.weight"].dtype)
    no_tokens = jnp.zeros((batch, new), jnp.int32)
    none_ended = jnp.zeros((batch, 1), bool)
    state = extend(0, ids, 0, no_tokens, none_ended, cache)
    return lax.while_loop(unfinished, step, state)[2]


def prefill(
    config: Config, weights: Weights, ids: jax.Array, begin: jax.Array, new: int
) -> tuple[jax.Array, Cache]:
    """Prompts [batch, prompt], padded on the left up to column `begin` → (first token of each row,
    int32 [batch, 1], cache with columns for `new` tokens).
    """
    batch, prompt = ids.shape
    cache = empty_cache(config, batch, prompt + new, weights["model.embed_tokens.weight"].dtype)
    return following(config, weights, ids, cache, 0, begin)


def teacher_forced(config: Config, weights: Weights, ids: jax.Array) -> jax.Array:
    """ids int32 [batch, length] → logits of each next token, float32 [batch, length,
    vocabulary].
    """
    rows, length = ids.shape
    cache = empty_cache(config, rows, length, weights["model.embed_tokens.weight"].dtype)
    hidden, _ = forward(config, weights, ids, cache, 0, jnp.zeros(rows, jnp.int32))
    return rate(config, weights, hidden).astype(jnp.float32)


class JaxCausalLM(runtime.JaxModel):
    """A language model of Llama's layout, or Gemma. Its methods are those of
    `sut.contract.Inference`.
    """

    def __init__(self, weights: Weights, config: Config, workload: Workload):
        super().__init__(weights, workload, "generate")
        self.end_tokens = tuple(workload.config.get("end_tokens", ()))
        ends = self.end_tokens

        def generate(weights: Weights, ids: jax.Array, begin: jax.Array, new: int) -> jax.Array:
            return greedy(config, weights, ids, begin, new, ends)

        self.program = jax.jit(generate, static_argnames="new")
        # Each step of a stream writes into the cache that it gets.
        self.prefill = jax.jit(partial(prefill, config), static_argnames="new")
        self.following = jax.jit(partial(following, config), donate_argnames="cache")
        self.forward_pass = jax.jit(partial(teacher_forced, config))

    def predict(self, batch: Batch) -> tuple[jax.Array, np.ndarray]:
        """Return (new tokens [batch, new] on their way to the host, how many each row requests).

        Prompts are padded on the left, so that all rows go on at the same column.
        """
        ids, begin, new = self._arranged(batch)
        tokens = self.program(self.weights, ids, begin, new=new)
        tokens.copy_to_host_async()
        return tokens, batch["max_new_tokens"]

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Run `prefill`, which generates the first token, and `following` for each later one."""
        for tokens in one_ahead(self._tokens(batch)):
            if not on_step(np.asarray(tokens)[:, 0]):
                return

    def _tokens(self, batch: Batch) -> Iterator[jax.Array]:
        """Yield the next token of each row, int32 [batch, 1], on the device."""
        ids, begin, new = self._arranged(batch)
        prompt = ids.shape[1]
        begin = jax.device_put(begin)
        tokens, cache = self.prefill(self.weights, ids, begin, new=new)
        yield tokens
        most = int(batch["max_new_tokens"].max())
        for at in range(prompt, prompt + most - 1):
            tokens, cache = self.following(self.weights, tokens, cache, at, begin)
            yield tokens

    def _arranged(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, int]:
        """Return (ids [batch, prompt], padded on the left, the first column of each row, new
        tokens), all int32.
        """
        prompt, new = padding.shape(batch, self.workload.config)
        lengths = batch["prompt_length"].astype(np.int32)
        ids, _ = padding.left_align(batch["input_ids"][:, :prompt], lengths)
        return ids, prompt - lengths, new

    def to_host(self, outputs: tuple[jax.Array, np.ndarray]) -> Batch:
        """Return the new tokens, and how many of each row are its answer."""
        on_device, requested = outputs
        tokens = np.ascontiguousarray(on_device)
        return {"tokens": tokens, "n_tokens": padding.produced(tokens, requested, self.end_tokens)}

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the same forward pass, compiled as a separate program."""
        return np.asarray(self.forward_pass(self.weights, tokens))


def load(workload: Workload) -> JaxCausalLM:
    """The checkpoint's model. Raises Unsupported as `causal_lm_layout.read` does."""
    config = causal_lm_layout.read(workload)
    return JaxCausalLM(load_weights(config, workload), config, workload)


def load_weights(config: Config, workload: Workload) -> Weights:
    """See `runtime.load_weights`."""
    weights = runtime.load_weights(workload)
    if config["tie_word_embeddings"]:
        weights.pop("lm_head.weight", None)  # some folders contain the embedding twice
    return weights


def factors(workload: Workload) -> dict[str, jax.Array]:
    """Return the trained factors, float32: `a` [in, rank] and `b` [rank, out] of the products of
    query and value in each layer.

    They are peft's factors, transposed like all weights of dense layers here.
    """
    config = workload.config["model"]
    lora = workload.config["lora"]
    trained = {}
    for number in range(config["num_hidden_layers"]):
        for name in adapters.LAYERS:
            product = f"model.layers.{number}.self_attn.{name}"
            _, shape_of_b = adapters.shapes(config, lora, name)
            trained[f"{product}.a"] = jnp.asarray(adapters.first(config, lora, number, name).T)
            trained[f"{product}.b"] = jnp.zeros(shape_of_b[::-1])
    return trained


def load_training(workload: Workload) -> JaxTraining:
    """Return the checkpoint's frozen model with LoRA's factors, which are trained; see `training`.

    Raises Unsupported as `causal_lm_layout.read` does.
    """
    config = causal_lm_layout.read(workload)
    lora = workload.config["lora"]
    scale = lora["alpha"] / lora["rank"]

    def loss(trained: dict[str, jax.Array], frozen: Weights, batch: DeviceBatch) -> jax.Array:
        """Inputs are padded on the right, where labels are -100. No token looks at later tokens, so
        no mask is needed.
        """
        scaled = {
            name: scale * values if name.endswith(".a") else values
            for name, values in trained.items()
        }
        answers = teacher_forced(config, {**frozen, **scaled}, batch["input_ids"])
        return cross_entropy(answers, batch["label"])

    frozen = load_weights(config, workload)
    return JaxTraining(loss, factors(workload), workload, frozen)
