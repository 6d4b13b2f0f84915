"""The model of a GGUF file, with everything that the file states, or a refusal by name.

Transformers reads a GGUF file, but leaves out keys and tensors that it does not know, and takes the
defaults of its own configuration for them. So its configuration is completed here, and each key and
each tensor of the file is looked for in the model.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import GGUF_CONFIG_MAPPING
from transformers.integrations.gguf import GGUF_CONFIG_ARCHS, get_gguf_config, read_gguf_metadata
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from sut.conversion import Lost, rotary

_OTHER_NAMES = {
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
"""Keys of llama.cpp that Transformers' table lacks → attributes of configurations."""
_SHOWN_BY_SHAPES = (
    "context_length",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
)
"""Keys that change no answer, or that a tensor of another shape would contradict."""
_LARGEST_GEMMA_LAYERS = (46, 62)
"""Layers of Gemma 2 27B and Gemma 3 27B, by which llama.cpp knows them (src/llama-model.cpp)."""
_USUAL = {"attention.causal": True, "tensor_data_layout": "Meta AI original pth"}
"""Keys → the value that says nothing new of a language model."""
_Keys = Mapping[str, Any]
"""Keys of a file, with their values."""
_NAMED = 3
"""How many tensors a sentence names."""


class _Asked(UserDict[str, Any]):
    """Metadata that remember which keys were read."""

    def __init__(self, values: _Keys) -> None:
        super().__init__(values)
        self.keys_read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.keys_read.add(key)
        return super().__getitem__(key)


def load(source: Path, tensors: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return Transformers' model in float32, and sentences about tensors without a place in it.

    `tensors` are those of `gguf.GGUFReader`, by name. Raises Lost if a key or a tensor of the file
    would not arrive.
    """
    metadata, _ = read_gguf_metadata(str(source))
    parts = metadata.get("split.count", 1)
    if parts > 1:
        raise Lost(f"is one of {parts} parts: merge them with llama-gguf-split")
    factors = {name: tensors[name].data.tolist() for name in rotary.TENSORS if name in tensors}
    config = _configuration(source, metadata, tuple(tensors), factors)
    names = tensors.keys() - factors.keys()
    config = _with_places(config, metadata["general.architecture"], names)
    model, loading = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        config=config,
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
    )
    sizes = {name: int(tensors[name].n_elements) for name in tensors if name in names}
    return model, _check_tensors(model, sizes, loading["missing_keys"])


def _configuration(
    source: Path,
    metadata: _Keys,
    tensors: tuple[str, ...],
    factors: Mapping[str, list[float]],
) -> Any:
    """Return the configuration with each key of the file. Raises Lost with the keys that have no
    place in it.
    """
    config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    stated = _unread(metadata, tensors)
    rope = {key: stated.pop(key) for key in [*stated] if key.startswith("rope.")}
    places = _places_of_keys(config, stated)
    for key, attribute in places.items():
        setattr(config, attribute, stated[key])
    _set_scale(config)
    lost = rotary.complete(config, rope, factors)
    lost += [key for key in stated if key not in places and not _says_nothing(config, key, stated)]
    read_again = type(config).from_dict(config.to_dict())
    lost += [key for key, name in places.items() if getattr(read_again, name) != stated[key]]
    if getattr(read_again, "rope_parameters", None) != getattr(config, "rope_parameters", None):
        lost += rope
    if lost:
        architecture = metadata["general.architecture"]
        values = {**stated, **rope}
        words = []
        for key in lost:
            words.append(f"{architecture}.{key} = {values[key]}" if key in values else key)
        raise Lost(
            f"Transformers has no place for {', '.join(words)}: the folder would be another model"
        )
    return read_again


def _unread(metadata: _Keys, tensors: tuple[str, ...]) -> dict[str, Any]:
    """Return the keys of the architecture, without its name, except those that Transformers reads
    by a function instead of its table.
    """
    architecture = metadata["general.architecture"]
    asked = _Asked(metadata)
    if architecture in GGUF_CONFIG_ARCHS:
        get_gguf_config(asked, tensors)
    return {
        key.removeprefix(f"{architecture}."): value
        for key, value in metadata.items()
        if key.startswith(f"{architecture}.") and key not in asked.keys_read
    }


def _places_of_keys(config: Any, stated: _Keys) -> dict[str, str]:
    """Return the attribute of the configuration for each key that has one."""
    read = GGUF_CONFIG_MAPPING.get(config.model_type.removesuffix("_text"), {})
    attributes = config.to_dict()
    places = {}
    for key in stated:
        names = [_OTHER_NAMES.get(key), key.rpartition(".")[2]]
        if key.endswith("_epsilon"):
            names += [name for name in attributes if "eps" in name]
        place = read.get(key) or next((name for name in names if name in attributes), None)
        if place:
            places[key] = place
    return places


def _says_nothing(config: Any, key: str, stated: _Keys) -> bool:
    """Return whether a key without a place leaves the model as it is."""
    if key in _OTHER_NAMES and stated[key] == rotary.head_size(config):
        return True
    return key in _SHOWN_BY_SHAPES or stated[key] == _USUAL.get(key, 0)


def _set_scale(config: Any) -> None:
    """Set Gemma's scale of attention, which no file states, as llama.cpp computes it. The default
    of the configuration is that of one model.
    """
    if "query_pre_attn_scalar" not in config.to_dict():
        return
    config.query_pre_attn_scalar = rotary.head_size(config)
    if config.num_hidden_layers in _LARGEST_GEMMA_LAYERS:
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads


def _with_places(config: Any, architecture: str, names: set[str]) -> Any:
    """Return the configuration with which each tensor has a place in the model. Raises Lost with
    the tensors that never have one.

    Each switch that is off, such as `attention_bias`, is tried.
    """
    if architecture in GGUF_CONFIG_ARCHS:
        return config
    lost = names - _places_of_tensors(config, architecture)
    for switch, value in config.to_dict().items():
        if lost and value is False:
            switched = type(config).from_dict({**config.to_dict(), switch: True})
            remaining = names - _places_of_tensors(switched, architecture)
            if remaining < lost:
                config = switched
                lost = remaining
    if lost:
        raise Lost(
            f"Transformers' {config.model_type} has no place for the tensors"
            f" {', '.join(sorted(lost)[:_NAMED])} ({len(lost)} in all): the folder would be"
            " another model"
        )
    return config


def _places_of_tensors(config: Any, architecture: str) -> set[str]:
    """Return the names in a GGUF file for which Transformers' model has a place."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config.to_dict())
    names = set(get_gguf_hf_weights_map(model, processor))
    # The names of stacked experts lack the ending.
    return names | {f"{name}.weight" for name in names}


def _check_tensors(model: Any, sizes: Mapping[str, int], missing: Iterable[str]) -> list[str]:
    """Raises Lost if the model's values are not those of the file, except biases of zeros and
    blocks after its last layer, which are named.
    """
    values = model.state_dict()
    drawn = sorted(n for n in missing if not n.endswith(".bias") or values[n].any())
    if drawn:
        raise Lost(f"lacks {', '.join(drawn[:_NAMED])} of the model ({len(drawn)} in all)")
    layers = model.config.num_hidden_layers
    blocks = [name for name in sizes if name.startswith("blk.")]
    after = [name for name in blocks if int(name.split(".")[1]) >= layers]
    placed = {values[name].data_ptr(): values[name].numel() for name in values.keys() - missing}
    stated = sum(size for name, size in sizes.items() if name not in after)
    if sum(placed.values()) != stated:
        raise Lost(
            f"has {stated:,} values in its tensors, and Transformers takes over"
            f" {sum(placed.values()):,}: the folder would be another model"
        )
    return [f"left out: {', '.join(after)}, which predict several tokens at once"] if after else []
