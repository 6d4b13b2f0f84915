"""The model of a GGUF file, with everything that the file states, or a refusal by name.

Transformers reads a GGUF file, but leaves out keys and tensors that it does not know, and takes the
defaults of its own configuration for them. So each key and each tensor of the file is looked for in
the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import GGUF_CONFIG_MAPPING
from transformers.integrations.gguf import GGUF_CONFIG_ARCHS, read_gguf_metadata
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from sut.conversion import Lost

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
_SAYS_NOTHING: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "tensor_data_layout": ("Meta AI original pth",),
    "rope.scaling.type": ("none", "linear"),
    "rope.scaling.factor": (1,),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.yarn_ext_factor": (-1, 1),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.finetuned": (True,),
}
"""Keys → values that say nothing new of a language model. The same is true of 0 for each key."""
_Keys = Mapping[str, Any]
"""Keys of a file, with their values."""
_NAMED = 3
"""How many tensors a sentence names."""


def load(source: Path, tensors: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return Transformers' model in float32, and sentences about tensors without a place in it.

    `tensors` are those of `gguf.GGUFReader`, by name. Raises Lost if a key or a tensor of the file
    would not arrive.
    """
    metadata, _ = read_gguf_metadata(str(source))
    parts = metadata.get("split.count", 1)
    if parts > 1:
        raise Lost(f"is one of {parts} parts: merge them with llama-gguf-split")
    config = _configuration(source, metadata)
    model, loading = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        config=config,
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
    )
    _check_places(model, metadata["general.architecture"], tensors)
    sizes = {name: int(tensor.n_elements) for name, tensor in tensors.items()}
    return model, _check_tensors(model, sizes, loading["missing_keys"])


def _configuration(source: Path, metadata: _Keys) -> Any:
    """Return the configuration with each key of the file. Raises Lost with the keys that have no
    place in it.

    Transformers has a function for each of the newest architectures, which takes over all that a
    file states.
    """
    config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    architecture = metadata["general.architecture"]
    if architecture in GGUF_CONFIG_ARCHS:
        return config
    stated = {}
    for key, value in metadata.items():
        if key.startswith(f"{architecture}."):
            stated[key.removeprefix(f"{architecture}.")] = value
    places = _places_of_keys(config, [key for key in stated if not key.startswith("rope.")])
    for key, attribute in places.items():
        setattr(config, attribute, stated[key])
    _set_scale(config)
    of_positions = _set_positions(config, stated)
    read_again = type(config).from_dict(config.to_dict())
    lost = [key for key, name in places.items() if getattr(read_again, name) != stated[key]]
    for key, value in stated.items():
        if key not in places and key not in of_positions and not _says_nothing(config, key, value):
            lost.append(key)
    if lost:
        words = [f"{architecture}.{key} = {stated[key]}" for key in lost]
        raise Lost(
            f"Transformers has no place for {', '.join(words)}: the folder would be another model."
            " Give the folder from which the file was made"
        )
    return read_again


def _places_of_keys(config: Any, keys: Iterable[str]) -> dict[str, str]:
    """Return the attribute of the configuration for each key that has one."""
    read = GGUF_CONFIG_MAPPING.get(config.model_type.removesuffix("_text"), {})
    attributes = config.to_dict()
    places = {}
    for key in keys:
        names = [_OTHER_NAMES.get(key), key.rpartition(".")[2]]
        if key.endswith("_epsilon"):
            names += [name for name in attributes if "eps" in name]
        place = read.get(key) or next((name for name in names if name in attributes), None)
        if place:
            places[key] = place
    return places


def _says_nothing(config: Any, key: str, value: Any) -> bool:
    """Return whether a key without a place leaves the model as it is."""
    if key in _OTHER_NAMES and value == _head_size(config):
        return True
    return key in _SHOWN_BY_SHAPES or value == 0 or value in _SAYS_NOTHING.get(key, ())


def _head_size(config: Any) -> int:
    stated = getattr(config, "head_dim", None)
    return int(stated or config.hidden_size // config.num_attention_heads)


def _set_scale(config: Any) -> None:
    """Set Gemma's scale of attention, which no file states, as llama.cpp computes it. The default
    of the configuration is that of one model.
    """
    if "query_pre_attn_scalar" not in config.to_dict():
        return
    config.query_pre_attn_scalar = _head_size(config)
    if config.num_hidden_layers in _LARGEST_GEMMA_LAYERS:
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads


def _set_positions(config: Any, stated: _Keys) -> set[str]:
    """Set the bases of rotary positions. Return the keys of positions that the model has."""
    whole = getattr(config, "rope_parameters", None) or {}
    # Of layers of two kinds, each has its own positions.
    usual = whole.get("full_attention", whole)
    found = set()
    of_base = {"rope.freq_base": usual, "rope.freq_base_swa": whole.get("sliding_attention")}
    for key, parameters in of_base.items():
        if key in stated and parameters:
            parameters["rope_theta"] = stated[key]
            found.add(key)
    rotated = _head_size(config) * (usual.get("partial_rotary_factor") or 1)
    if stated.get("rope.dimension_count") == rotated:
        found.add("rope.dimension_count")
    return found


def _check_places(model: Any, architecture: str, names: Iterable[str]) -> None:
    """Raises Lost with the tensors for which Transformers' model has no place, such as factors of
    rotary positions and biases that its configuration switches off.
    """
    if architecture in GGUF_CONFIG_ARCHS:
        return
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(model.config.to_dict())
    places = set(get_gguf_hf_weights_map(model, processor))
    # The names of stacked experts lack the ending.
    lost = [name for name in names if not {name, name.removesuffix(".weight")} & places]
    if lost:
        raise Lost(
            f"Transformers' {model.config.model_type} has no place for the tensors"
            f" {', '.join(sorted(lost)[:_NAMED])} ({len(lost)} in all): the folder would be another"
            " model"
        )


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
