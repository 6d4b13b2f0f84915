"""Reads the configuration of a folder with Llama's layout: decides from config.json whether
`causal_lm` computes the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from sut.checkpoint import weights_files
from sut.contract import Config, Unsupported, Workload

_TYPES = (
    "ernie4_5",
    "gemma",
    "granite",
    "helium",
    "internlm3",
    "iquestcoder",
    "llama",
    "ministral",
    "ministral3",
    "mistral",
    "qwen2",
    "qwen3",
    "seed_oss",
    "smollm3",
)
"""The types of Transformers whose equations `causal_lm` has. Names of tensors do not show them."""
_INTERLEAVED = ("ernie4_5", "helium")
"""Types that pair neighbouring dimensions of a head in rotary positions."""
_FACTORS = (
    "embedding_multiplier",
    "attention_multiplier",
    "residual_multiplier",
    "logits_scaling",
)
_NEUTRAL = {"partial_rotary_factor": 1, "llama_4_scaling_beta": 0}
"""Key of rotary positions that is not read → its value that changes nothing."""
_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "silu": jax.nn.silu,
    "gelu_pytorch_tanh": partial(jax.nn.gelu, approximate=True),
}
_WITH_WINDOW = ("mistral",)
_WITHOUT_WINDOW = ("gemma", "llama")
"""Types whose layers have one window, or none, whatever else config.json says."""


def read(workload: Workload) -> dict[str, Any]:
    """Return the configuration with every value that `causal_lm` reads.

    `window` is that of every layer, or None. `activation` is a function. `rope_theta` and
    `rope_scaling` are those of the older spelling. `is_interleaved`: whether rotary positions pair
    neighbouring dimensions. The factors of `_FACTORS` are those of every type.

    Raises Unsupported with the first thing that `causal_lm` lacks.
    """
    config = dict(workload.config["model"])
    if config["model_type"] not in _TYPES:
        raise _lacks(f"the type {config['model_type']}")
    if config.get("use_bidirectional_attention"):
        raise _lacks("attention to later tokens (use_bidirectional_attention)")
    if not all(config.get("no_rope_layers") or ()):
        raise _lacks("layers without rotary positions")
    for key in ("rms_norm_eps", "num_attention_heads"):
        if config.get(key) is None:
            raise _lacks(f"a model without {key} in config.json")
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    key_heads = config.get("num_key_value_heads") or heads
    return {
        **config,
        **_rope(config),
        **_factors(config, size),
        "is_interleaved": config["model_type"] in _INTERLEAVED,
        "head_dim": size,
        "num_key_value_heads": key_heads,
        "tie_word_embeddings": _is_tied(workload, config),
        "window": _window(config),
        "activation": _activation(config),
    }


def _factors(config: Config, size: int) -> dict[str, float]:
    """Return the factors of embeddings, scores, residuals and logits. Granite stores its own; 1 is
    their default in Transformers.
    """
    factors = dict.fromkeys(_FACTORS, 1.0)
    if config["model_type"] == "granite":
        return factors | {key: config[key] for key in _FACTORS if key in config}
    factors["attention_multiplier"] = size**-0.5
    if config["model_type"] == "gemma":
        factors["embedding_multiplier"] = config["hidden_size"] ** 0.5
    return factors


def _is_tied(workload: Workload, config: Config) -> bool:
    has_head = "lm_head.weight" in weights_files.names(workload.checkpoint)
    return bool(config.get("tie_word_embeddings", not has_head))


def _activation(config: Config) -> Callable[[jax.Array], jax.Array]:
    if config["model_type"] == "gemma":
        return _ACTIVATIONS["gelu_pytorch_tanh"]  # its first folders call it "gelu"
    name = config.get("hidden_act") or config.get("hidden_activation")
    if name not in _ACTIVATIONS:
        raise _lacks(f"the activation {name}")
    return _ACTIVATIONS[name]


def _window(config: Config) -> int | None:
    """Return the window of all layers. Raises Unsupported if only some layers have one."""
    window = config.get("sliding_window")
    if config["model_type"] in _WITHOUT_WINDOW:
        return None
    kinds = set(config.get("layer_types") or ())
    if config["model_type"] in _WITH_WINDOW or kinds == {"sliding_attention"}:
        return window
    if not window or kinds == {"full_attention"} or config.get("use_sliding_window") is False:
        return None
    raise _lacks(f"a sliding window of {window} in some layers")


def _rope(config: Config) -> dict[str, Any]:
    """Return `rope_theta` and `rope_scaling`, which is empty if positions are not scaled."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    theta = rope.pop("rope_theta", config.get("rope_theta"))
    older_kind = rope.pop("type", "default")
    kind = rope.pop("rope_type", older_kind)
    if not isinstance(theta, int | float):
        raise _lacks("a model without one rope_theta in config.json")
    if kind not in ("default", "llama3"):
        raise _lacks(f"scaled rotary positions ({kind}; it has llama3)")
    rope.setdefault("partial_rotary_factor", config.get("partial_rotary_factor"))
    for key, value in rope.items():
        if key not in _ROPE and value not in (None, _NEUTRAL.get(key)):
            raise _lacks(f"{key} {value} of rotary positions")
    return {"rope_theta": theta, "rope_scaling": rope if kind == "llama3" else {}}


def _lacks(what: str) -> Unsupported:
    return Unsupported(
        f"native JAX, which computes Llama's layout, lacks {what}: take native-torch"
    )
