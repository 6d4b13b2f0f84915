"""The rotary positions of a GGUF file, as `rope_parameters` of Transformers' configuration.

The keys, and the meaning of those that are absent, are llama.cpp's (src/llama-model.cpp and
src/llama-context.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

_ALWAYS = "rope_freqs.weight"
_LONG = "rope_factors_long.weight"
_SHORT = "rope_factors_short.weight"
TENSORS = (_ALWAYS, _LONG, _SHORT)
"""Tensors by which the frequencies are divided: those of all texts, of long and of short ones."""
_ROTATED = "rope.dimension_count"
_TYPE = "rope.scaling.type"
_FACTOR = "rope.scaling.factor"
_ATTENTION = "rope.scaling.attn_factor"
_ORIGINAL = "rope.scaling.original_context_length"
_YARN = {"rope.scaling.yarn_beta_fast": "beta_fast", "rope.scaling.yarn_beta_slow": "beta_slow"}
_KEPT = ("partial_rotary_factor", "truncate", "mrope_section", "mrope_interleaved")
"""Parameters that are no scaling."""
_SAYS_NOTHING: dict[str, tuple[Any, ...]] = {
    _TYPE: ("none", "linear", "longrope"),
    _FACTOR: (0, 1),
    _ATTENTION: (1,),
    "rope.scaling.yarn_ext_factor": (-1, 1),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,),
    "rope.scaling.finetuned": (False, True),
}
"""Keys → values with which positions are not scaled by them."""
_Parameters = dict[str, Any]
"""The positions of a configuration, or a part of them."""
_SHORTEST_POWER = 5  # of two, for the length of the texts on which a model was trained first


def head_size(config: Any) -> int:
    """Return the size of a head of attention."""
    stated = getattr(config, "head_dim", None)
    return int(stated or config.hidden_size // config.num_attention_heads)


def complete(config: Any, rope: Mapping[str, Any], factors: Mapping[str, list[float]]) -> list[str]:
    """Write the positions of a file into the configuration. Return the keys and tensors that have
    no place in it.

    Args:
        config: Transformers' configuration, which is changed.
        rope: the keys of the file that begin with `rope.`, without the name of the architecture.
        factors: the values of those tensors of the file that are in TENSORS.
    """
    left = {**rope, **factors}
    whole = getattr(config, "rope_parameters", None)
    if whole is None:
        return [*left]
    # Of layers of two kinds, only those without a window are scaled.
    old = whole.get("full_attention", whole)
    new = {name: old[name] for name in _KEPT if name in old}
    new["rope_type"] = "default"
    new["rope_theta"] = left.pop("rope.freq_base", old["rope_theta"])
    size = head_size(config)
    rotated = left.get(_ROTATED)
    if rotated and "partial_rotary_factor" in new:
        new["partial_rotary_factor"] = left.pop(_ROTATED) / size
    elif rotated == size:
        del left[_ROTATED]
    original = left.pop(_ORIGINAL, config.max_position_embeddings)
    new |= _scaling(config, new["rope_theta"], original, left)
    if "original_max_position_embeddings" in config.to_dict():
        # Phi 3's own attribute, which Transformers writes over that of its positions.
        config.original_max_position_embeddings = original
    if old is not whole:
        window = whole["sliding_attention"]
        window["rope_theta"] = left.pop("rope.freq_base_swa", window["rope_theta"])
        new = {**whole, "full_attention": new}
    config.rope_parameters = new
    return sorted(key for key in left if left[key] not in _SAYS_NOTHING.get(key, ()))


def _scaling(config: Any, theta: float, original: int, left: dict[str, Any]) -> _Parameters:
    """Return the parameters of scaled positions, and remove from `left` what they say. Empty:
    positions are not scaled.
    """
    if _LONG in left and _SHORT in left:
        return _longrope(left.pop(_LONG), left.pop(_SHORT), original, left.pop(_ATTENTION, 1.0))
    if _ALWAYS in left:
        return _divided(config, theta, left.pop(_ALWAYS))
    kind = left.get(_TYPE, "linear")
    if kind not in ("none", "linear", "yarn"):
        return {}
    factor = left.pop(_FACTOR, None) or 1.0
    if kind == "yarn":
        yarn = {
            "rope_type": left.pop(_TYPE),
            "factor": factor,
            "original_max_position_embeddings": original,
        }
        yarn |= {name: left.pop(key) for key, name in _YARN.items() if key in left}
        attention = left.pop(_ATTENTION, 1)
        # Without an own factor, Transformers and llama.cpp compute the same one.
        if attention != 1:
            yarn["attention_factor"] = attention * (0.1 * math.log(factor) + 1)
        return yarn
    if kind == "none" or factor == 1:
        return {}
    return {"rope_type": "linear", "factor": factor}


def _divided(config: Any, theta: float, factors: list[float]) -> _Parameters:
    """Return parameters with which Transformers divides the frequencies by these factors: those of
    Llama 3.1 if they give them, because most frameworks know only these.
    """
    size = 2 * len(factors)
    plain = theta ** -(torch.arange(0, size, 2) / size)
    longest = config.max_position_embeddings
    for power in range(_SHORTEST_POWER, (longest - 1).bit_length()):
        llama3 = {
            "rope_type": "llama3",
            "factor": round(max(factors), 3),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 2**power,
        }
        asked = LlamaConfig(
            head_dim=size,
            max_position_embeddings=longest,
            rope_parameters={**llama3, "rope_theta": theta},
        )
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](asked, "cpu")
        if torch.allclose(plain / scaled, torch.tensor(factors), rtol=1e-4):
            return llama3
    return _longrope(factors, factors, longest, 1.0)


def _longrope(
    long: list[float], short: list[float], original: int, attention: float
) -> _Parameters:
    return {
        "rope_type": "longrope",
        "long_factor": long,
        "short_factor": short,
        "original_max_position_embeddings": original,
        "attention_factor": attention,
    }
