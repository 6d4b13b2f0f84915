"""Loads a language model by KerasHub's own converter, of any type that has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError

from sut.contract import Unsupported, Workload
from sut.keras3 import runtime


def load_model(workload: Workload) -> Any:
    """Return the language model that KerasHub's converter makes of a folder.

    Raises Unsupported, in KerasHub's words if it has no converter or if the converter fails. A
    converter ignores values of config.json that its model lacks. This function detects tensors that
    were not read, scaled rotary positions, and another scale of the queries. The accuracy test
    detects others.
    """
    try:
        model = runtime.load_model(workload)
    except (AttributeError, KeyError, TypeError, ValueError, SafetensorError) as e:
        words = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise Unsupported(f"KerasHub does not load this {workload.model}: {words}") from None
    backbone = model.backbone
    name = type(backbone).__name__
    stored = workload.config["parameters"]
    read = backbone.count_params()
    if read != stored:
        raise Unsupported(
            f"KerasHub's {name} has {read} parameters, and the folder has {stored}: take"
            " native-torch"
        )
    _check_scale(name, workload.config["model"])
    values = [value for value in backbone.get_config().values() if isinstance(value, float)]
    for scaling in _scalings(workload.config["model"]):
        if scaling.get("factor") not in values:
            scaled = scaling.get("rope_type", scaling.get("type"))
            raise Unsupported(
                f"KerasHub's converter does not read how rotary positions are scaled ({scaled}):"
                " take native-torch"
            )
    return model


def _check_scale(name: str, config: Mapping[str, Any]) -> None:
    """Raises Unsupported if queries are scaled by a number that KerasHub's Gemma 3 does not use: it
    uses head_dim if config.json says so, and else hidden_size / num_attention_heads.
    """
    scalar = config.get("query_pre_attn_scalar")
    width = config["hidden_size"] // config.get("num_attention_heads", 1)
    if scalar is not None and scalar not in (config.get("head_dim"), width):
        raise Unsupported(
            f"KerasHub's {name} does not scale queries by query_pre_attn_scalar {scalar}: take"
            " native-torch"
        )


def _scalings(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return each way in which config.json scales rotary positions. A model with windows may have
    one for each type of layer.
    """
    ways = [config.get(key) or {} for key in ("rope_scaling", "rope_parameters")]
    ways += [way for outer in ways for way in outer.values() if isinstance(way, dict)]
    return [way for way in ways if way.get("rope_type", way.get("type")) not in (None, "default")]
