"""The model of a base with an adapter of PEFT merged into its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from safetensors.torch import load_file

from sut.conversion import Lost

_PREFIX = "base_model.model."
"""The beginning of the names in a file of PEFT."""
_ROUNDING = 1e-3
"""How far outputs in float32 may differ after the merge, as a share of the largest value."""
_WITH_LABELS = ("SEQ_CLS", "TOKEN_CLS")
_Tensors = Mapping[str, torch.Tensor]
"""The tensors of an adapter, by name."""


def merge(source: Path, base: Path) -> Any:
    """Return the merged model in the dtype of the base.

    The sums are made in float32. Raises Lost if a tensor of the adapter or of the model would be
    missing, or if the merged model gives other outputs than the base with the adapter.
    """
    stored = load_file(source / "adapter_model.safetensors")
    model, dtype = _base_model(source, base, stored)
    adapted = _adapted(model, source, stored)
    with torch.no_grad():
        expected = _outputs(adapted, model)
        try:
            merged = adapted.merge_and_unload(safe_merge=True)
        except NotImplementedError as e:
            raise Lost(f"cannot be merged: {e}") from e
        outputs = _outputs(merged, model)
    if not torch.allclose(outputs, expected, rtol=0, atol=_ROUNDING * float(expected.abs().max())):
        raise Lost("cannot be merged: the model would give other outputs than its base with it")
    return merged.to(dtype)


def _base_model(source: Path, base: Path, stored: _Tensors) -> tuple[Any, torch.dtype]:
    """Return the base in float32, of the class for which the adapter was trained, and the dtype of
    its folder. Raises Lost if neither folder has a tensor of it.
    """
    adapter = peft.PeftConfig.from_pretrained(str(source))
    if adapter.is_prompt_learning:
        raise Lost(f"{adapter.peft_type.value} changes no weights, so it cannot be merged")
    config = transformers.AutoConfig.from_pretrained(base, local_files_only=True)
    dtype = config.dtype or torch.float32
    labels = _labels(adapter, stored)
    if labels not in (None, config.num_labels):
        config.num_labels = labels
    model, loading = _class(adapter, config).from_pretrained(
        base, config=config, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    missing = sorted(n for n in loading["missing_keys"] if _PREFIX + n not in stored)
    if missing:
        raise Lost(
            f"neither the adapter nor --base {base} has {', '.join(missing)} of a"
            f" {type(model).__name__}"
        )
    return model, dtype


def _class(adapter: Any, config: Any) -> Any:
    """Return Transformers' class for the adapter's `task_type`, or that of the base."""
    if adapter.task_type:
        wanted = peft.auto.MODEL_TYPE_TO_PEFT_MODEL_MAPPING[adapter.task_type]
        ways = peft.auto._BaseAutoPeftModel.__subclasses__()
        return next(way._target_class for way in ways if way._target_peft_class is wanted)
    architectures = config.architectures
    if not architectures:
        raise Lost("has no task_type, and config.json of the base names no architectures")
    if not hasattr(transformers, architectures[0]):
        raise Lost(f"Transformers has no {architectures[0]}, the class of the base")
    return getattr(transformers, architectures[0])


def _labels(adapter: Any, stored: _Tensors) -> int | None:
    """Return the number of classes of a trained head. None: the adapter has no such head."""
    if adapter.task_type not in _WITH_LABELS:
        return None
    modules = [f".{name}." for name in getattr(adapter, "modules_to_save", None) or ()]
    rows = [
        len(tensor)
        for name, tensor in stored.items()
        if tensor.ndim == 2 and any(module in name for module in modules)
    ]
    return min(rows, default=None)


def _adapted(model: Any, source: Path, stored: _Tensors) -> Any:
    """Return the model with the adapter. Raises Lost if they do not fit each other."""
    try:
        adapted = peft.PeftModel.from_pretrained(model, str(source), local_files_only=True)
    except (RuntimeError, ValueError) as e:
        raise Lost(f"does not fit the base: {str(e).strip().splitlines()[-1].strip()}") from e
    strangers = stored.keys() ^ peft.get_peft_model_state_dict(adapted).keys()
    if strangers:
        raise Lost(
            f"does not fit a {type(model).__name__}: {len(strangers)} tensors have no place or are"
            f" missing, as {min(strangers)}"
        )
    return adapted


def _outputs(model: Any, base: Any) -> torch.Tensor:
    """Return the first output for one row of tokens. Zero: the base does not read tokens."""
    if base.main_input_name != "input_ids":
        return torch.zeros(1)
    first: torch.Tensor = model(**{name: rows[:1] for name, rows in base.dummy_inputs.items()})[0]
    return first
