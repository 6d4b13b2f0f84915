"""The settings that an engine reports in addition to the OpenAI protocol: vLLM at `/metrics`, and
llama.cpp at `/props`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from sut.endpoint.client import Client
from sut.endpoint.replies import EndpointError, document

_VLLM = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OF_VLLM = ("enable_prefix_caching", "cache_dtype", "block_size", "num_gpu_blocks")
_LONGEST = 40


def of(client: Client, origin: str) -> dict[str, str]:
    """Return name → value of the settings that change a figure, as far as the engine reports them.

    `enable_prefix_caching`: whether it keeps what it has computed of earlier prompts.
    `cache_dtype`: that of keys and values; `auto` is that of the model. `num_gpu_blocks`: how many
    blocks of `block_size` tokens its cache has, also on a processor. `total_slots`: the requests
    that it computes at a time. `n_ctx`: the tokens of a slot.
    """
    found: dict[str, str] = {}
    with suppress(EndpointError):
        info = _VLLM.search(client.text(f"{origin}/metrics"))
        labels = dict(_LABEL.findall(info[1])) if info else {}
        found |= {name: labels[name] for name in _OF_VLLM if name in labels}
    with suppress(EndpointError):
        found |= _of_llama_cpp(document(client.text(f"{origin}/props").encode()))
    return {name: value[:_LONGEST] for name, value in found.items()}


def _of_llama_cpp(properties: Any) -> dict[str, str]:
    found = {"total_slots": properties.get("total_slots")}
    generation = properties.get("default_generation_settings")
    if isinstance(generation, dict):
        found["n_ctx"] = generation.get("n_ctx")
    return {name: str(value) for name, value in found.items() if type(value) is int}
