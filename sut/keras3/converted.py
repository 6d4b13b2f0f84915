"""Loads a model by KerasHub's own converter, of any type that has one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sut.checkpoint import weights_files
from sut.contract import Config, Unsupported, Workload
from sut.keras3 import exact, runtime

_NO_PARAMETERS = ("position_ids", "relative_position_index", ".rotary_emb.inv_freq")
_POOLER = ("pooler.dense.weight", "pooler.dense.bias")
_NOT_OF_HIDDEN_STATES = (*_NO_PARAMETERS, "mask_token", *_POOLER)
"""Ends of the names of tensors on which no hidden state depends."""
_TIED_HEAD = "lm_head.weight"


def load_model(workload: Workload) -> Any:
    """Return the language model that KerasHub's converter makes of a folder.

    Raises Unsupported, in KerasHub's words if it has no converter or if the converter fails. A
    converter ignores values of config.json that its model lacks. This function detects tensors that
    were not read, scaled rotary positions, and another scale of the queries. The accuracy test
    detects others.
    """
    model, stored, read = _tried(workload)
    backbone = model.backbone
    unread = stored - read
    if workload.config["model"].get("tie_word_embeddings"):
        unread.discard(_TIED_HEAD)
    _check_read(model, unread, _NO_PARAMETERS)
    # KerasHub's Gemma 3 scales queries by head_dim if config.json says so, and else by
    # hidden_size / num_attention_heads.
    name = type(backbone).__name__
    config = workload.config["model"]
    scalar = config.get("query_pre_attn_scalar")
    width = config["hidden_size"] // config.get("num_attention_heads", 1)
    if scalar is not None and scalar not in (config.get("head_dim"), width):
        raise Unsupported(
            f"KerasHub's {name} does not scale queries by query_pre_attn_scalar {scalar}: take"
            " native-torch"
        )
    values = [value for value in backbone.get_config().values() if isinstance(value, float)]
    for scaling in _scalings(workload.config["model"]):
        if scaling.get("factor") not in values:
            scaled = scaling.get("rope_type", scaling.get("type"))
            raise Unsupported(
                f"KerasHub's converter does not read how rotary positions are scaled ({scaled}):"
                " take native-torch"
            )
    return model


def check_windows(backbone: Any, workload: Workload) -> str:
    """Return a remark if layers of KerasHub have another sliding window than config.json says, and
    no prompt with its answer is longer than it; else empty. Raises Unsupported if one is longer.

    KerasHub 0.32 reads no window of Qwen 2, and gives one to all layers of Qwen 3.
    """
    wanted = _windows(workload.config["model"])
    own = [_window(block) for block in getattr(backbone, "transformer_layers", ())]
    if not wanted or not own:
        return ""
    different = [pair for pair in zip(wanted, own, strict=True) if pair[0] != pair[1]]
    if not different:
        return ""
    widths = [width for pair in different for width in pair]
    window = min(filter(None, widths))
    lengths = [workload.config[name][-1] for name in ("prompt_buckets", "new_token_buckets")]
    words = (
        f"KerasHub's {type(backbone).__name__} has another sliding window than config.json in"
        f" {len(different)} of {len(own)} layers"
    )
    # The last token of an answer is no input.
    if sum(lengths) - 1 > window:
        raise Unsupported(
            f"{words}, and prompt and answer ({sum(lengths)} tokens) are longer than it ({window}):"
            " take native-torch, or shorter prompts and answers"
        )
    return f"{words}, and no window was reached ({window} tokens)"


def _windows(config: Config) -> Sequence[int | None]:
    """Return the sliding window of each layer; None: it has none. Empty if config.json names
    neither `layer_types` nor `max_window_layers`, so that only Transformers knows it.
    """
    window = config.get("sliding_window")
    if kinds := config.get("layer_types"):
        return [window if kind == "sliding_attention" else None for kind in kinds]
    if "max_window_layers" not in config:
        return []
    if not config.get("use_sliding_window"):
        window = None
    first = config["max_window_layers"]
    return [window if n >= first else None for n in range(config["num_hidden_layers"])]


def _window(block: Any) -> int | None:
    """Return the sliding window that a layer of KerasHub uses; None: it uses none."""
    for layer in block._flatten_layers():
        if not getattr(layer, "use_sliding_window_attention", True):
            return None
        for name in ("sliding_window_size", "sliding_window"):
            if window := getattr(layer, name, None):
                return int(window)
    return None


def load_encoder(workload: Workload, **arguments: Any) -> Any:
    """Return the backbone or the classifier that KerasHub's converter makes of an unlisted model's
    folder, with the folder's epsilon and activation.

    Args:
        arguments: those of KerasHub's `from_preset`.

    Raises Unsupported, in KerasHub's words if it has no converter or if the converter fails, and if
    the converter leaves tensors out. The accuracy test detects values of config.json that it
    ignores.
    """
    may_lack = _POOLER if workload.config["classes"]["keras_hub"] == "Backbone" else ()
    model, stored, read = _tried(workload, may_lack=may_lack, **arguments)
    unread = stored - read
    if hasattr(model, "backbone"):
        _check_read(model, unread, _NO_PARAMETERS)
    else:
        # The beginning that all names share, up to its last dot.
        names = stored & read
        shared = os.path.commonprefix(list(names))
        body = shared[: shared.rfind(".") + 1]
        of_body = {name for name in unread if name.startswith(body)}
        _check_read(model, of_body, _NOT_OF_HIDDEN_STATES)
    config = workload.config["model"]
    epsilon = config.get("layer_norm_eps")
    if epsilon is not None:
        exact.epsilon(model, epsilon)
    if config.get("hidden_act") == "gelu":
        exact.gelu(model)
    return model


def _check_read(model: Any, unread: set[str], may_be_unread: tuple[str, ...]) -> None:
    """Raises Unsupported if a tensor was not read whose name has none of these ends."""
    lost = sorted(name for name in unread if not name.endswith(may_be_unread))
    if lost:
        raise Unsupported(
            f"KerasHub's converter to {type(model).__name__} does not read {len(lost)} tensors of"
            f" the folder, such as {lost[0]}: take native-torch"
        )


def _tried(workload: Workload, **arguments: Any) -> tuple[Any, set[str], set[str]]:
    """Return the model that KerasHub loads, and the names of all tensors and of those that it read.
    Raises Unsupported in its words if it does not load.
    """
    read: set[str] = set()
    try:
        model = runtime.load_model(workload, names_read=read, **arguments)
    except (AttributeError, TypeError, ValueError) as e:
        words = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise Unsupported(f"KerasHub does not load this {workload.model}: {words}") from None
    return model, set(weights_files.names(workload.checkpoint)), read


def _scalings(config: Config) -> list[Mapping[str, Any]]:
    """Return each way in which config.json scales rotary positions. A model with windows may have
    one for each type of layer.
    """
    ways = [config.get(key) or {} for key in ("rope_scaling", "rope_parameters")]
    ways += [way for outer in ways for way in outer.values() if isinstance(way, dict)]
    return [way for way in ways if way.get("rope_type", way.get("type")) not in (None, "default")]
