"""Reads the configuration of a folder with Llama's layout: decides whether `causal_lm` computes the
model, from the names of the tensors and from the values of config.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from sut.checkpoint import weights_files
from sut.contract import Config, Unsupported, Workload

_LAYER = (
    r"input_layernorm\.weight",
    r"post_attention_layernorm\.weight",
    r"self_attn\.[qkvo]_proj\.(weight|bias)",
    r"self_attn\.[qk]_norm\.weight",
    r"mlp\.(gate|up|down)_proj\.(weight|bias)",
)
_READ = re.compile(
    rf"model\.embed_tokens\.weight|model\.norm\.weight|lm_head\.weight"
    rf"|model\.layers\.\d+\.({'|'.join(_LAYER)})"
)
"""The names of the tensors that are read."""
_NEEDED = (
    "input_layernorm",
    "post_attention_layernorm",
    *(f"self_attn.{part}_proj" for part in "qkvo"),
    *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
)
_IGNORED = (".rotary_emb.inv_freq",)
_ONLY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("final_logit_softcapping", "attn_logit_softcapping", "clip_qkv"), (None,)),
    **dict.fromkeys(
        (
            "attention_multiplier",
            "residual_multiplier",
            "embedding_multiplier",
            "logits_scaling",
            "partial_rotary_factor",
        ),
        (None, 1, 1.0),
    ),
    "use_bidirectional_attention": (None, False),
}
"""Value of config.json that changes what is computed → the values that change nothing."""
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
    `rope_scaling` are those of the older spelling.

    Raises Unsupported with the first thing that `causal_lm` lacks.
    """
    config = dict(workload.config["model"])
    _check_tensors(workload, config["num_hidden_layers"])
    for key, values in _ONLY.items():
        if config.get(key) not in values:
            raise _lacks(f"{key} {config[key]}")
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
        "head_dim": size,
        "num_key_value_heads": key_heads,
        "tie_word_embeddings": _is_tied(workload, config),
        "window": _window(config),
        "activation": _activation(config),
    }


def _check_tensors(workload: Workload, layers: int) -> None:
    names = set(weights_files.names(workload.checkpoint))
    foreign = sorted(n for n in names if not _READ.fullmatch(n) and not n.endswith(_IGNORED))
    if foreign:
        raise _lacks(f"the tensor {foreign[0]}")
    needed = [f"model.layers.{n}.{part}.weight" for n in range(layers) for part in _NEEDED]
    missing = [name for name in needed if name not in names]
    if missing:
        raise _lacks(f"a model without {missing[0]}")


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
    kind = rope.get("rope_type", rope.get("type", "default"))
    if rope.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise _lacks("rotary positions on a part of each head")
    if not isinstance(theta, int | float):
        raise _lacks("a model without one rope_theta in config.json")
    if kind not in ("default", "llama3"):
        raise _lacks(f"scaled rotary positions ({kind}; it has llama3)")
    return {"rope_theta": theta, "rope_scaling": rope if kind == "llama3" else {}}


def _lacks(what: str) -> Unsupported:
    return Unsupported(
        f"native JAX, which computes Llama's layout, lacks {what}: take native-torch"
    )
