"""LoRA for every SUT: the adapted layers, the shapes of the factors and their first values. NumPy
only.

LoRA adds `alpha / rank` times a product of two factors to the products of query and value, whose
weights [out, in] are frozen (Hu et al. 2021, section 4). Libraries have two layouts of the factors,
with different numbers of parameters:

- `matrix`: A is [rank, in] and B is [out, rank], as in the paper and in peft.
- `per-head`: A is [heads, in, rank], and all heads share one B, [rank, head_dim], as in KerasHub.
"""

from __future__ import annotations

import math

import numpy as np

from sut.contract import Config
from sut.registry import PER_HEAD

QUERY = "q_proj"
VALUE = "v_proj"
LAYERS = (QUERY, VALUE)
"""Transformers' names of the adapted products."""

_SEED = 20240611


def shapes(config: Config, lora: Config, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (shape of A, shape of B) of one adapted product.

    Args:
        config: the model's configuration in Hugging Face names.
        lora: `rank` and `factors`, which is MATRIX or PER_HEAD.
        name: one of LAYERS.
    """
    heads = config["num_attention_heads" if name == QUERY else "num_key_value_heads"]
    inside = config["hidden_size"]
    size = config["head_dim"]
    rank = lora["rank"]
    if lora["factors"] == PER_HEAD:
        return (heads, inside, rank), (rank, size)
    return (rank, inside), (heads * size, rank)


def parameters(config: Config, lora: Config) -> int:
    """Return the number of parameters that LoRA trains."""
    layer = 0
    for name in LAYERS:
        shape_of_a, shape_of_b = shapes(config, lora, name)
        layer += math.prod(shape_of_a) + math.prod(shape_of_b)
    return int(config["num_hidden_layers"]) * layer


def first(config: Config, lora: Config, layer: int, name: str) -> np.ndarray:
    """Return the first values of A of a layer's product, float32, in the shape of A.

    B begins with zeros, so that nothing is changed before the first step. A is uniform between -1 /
    sqrt(in) and 1 / sqrt(in), as in peft.
    """
    shape, _ = shapes(config, lora, name)
    rng = np.random.default_rng([_SEED, layer, *name.encode()])
    values = rng.uniform(-1, 1, shape)
    return (values / math.sqrt(config["hidden_size"])).astype(np.float32)
