"""Read config.json of a user's own folder, and complete it for libraries that do not know
Transformers' defaults and its names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from formats.workload import Config
from harness.errors import Refused
from harness.inputs import architectures, models, user_folder
from harness.inputs.models import Model
from harness.inputs.user_folder import Document

# Keys without a meaning for the weights, which could change the behaviour of one library.
_DROPPED = (
    "auto_map",
    "_name_or_path",
    "transformers_version",
    "torch_dtype",
    "attn_implementation",
    "_attn_implementation",
)
_MOST_LABELS = 1 << 20


def read(path: Path, model: Model) -> tuple[Document, list[str]]:
    """Return (the configuration for the SUTs, notes). Raises UsageError with one sentence if it
    does not fit.
    """
    config = load(path)
    if "quantization_config" in config:
        raise Refused(
            "config.json has a quantization_config, and quantised weights are not supported: give"
            " the weights from which they were made"
        )
    complete = _complete(model, config)
    notes = []
    if "auto_map" in config:
        notes.append("config.json names code of its own (auto_map), which is not run")
    dtypes = [config.get(key) for key in ("dtype", "torch_dtype")]
    named = [str(dtype).removeprefix("torch.") for dtype in dtypes if dtype]
    complete["dtype"] = named[0] if named else None
    if len(set(named)) > 1:
        notes.append(
            f"config.json says dtype {named[0]} and torch_dtype {named[1]}: the first counts, as in"
            " Transformers"
        )
    like = model.like
    if like and models.of_type(model.name) != models.load(like):
        follow = (
            f"those of {like}, by precision, depth and width"
            if architectures.of(model).limits is None
            else "the precision, the number of layers with weights and the spread of the"
            " reference's answers"
        )
        notes.append(
            f"the distance of honest SUTs from the reference was not measured for {model.name}:"
            f" the limits of accuracy follow from {follow}"
        )
    if not like:
        complete["architectures"] = [model.native_class]
    return {key: value for key, value in complete.items() if key not in _DROPPED}, notes


def _complete(model: Model, config: Config) -> Document:
    """The folder's configuration, with the numbers that the harness and KerasHub read under their
    names. Raises UsageError if one of them is no whole number.

    The libraries know the other defaults. Only Transformers knows that of `id2label`, which
    Transformers 5 does not store for two classes without names.
    """
    complete = dict(config)
    if rules := model.user_weights:
        complete = {**rules.defaults, **_older_rope(config), **rules.always}
    for name, other in model.also_called.items():
        if other in complete:
            complete[name] = complete[other]
    for name in model.numbers:
        if not _is_count(complete.get(name)):
            value = json.dumps(complete[name]) if name in complete else "no"
            raise Refused(
                f"config.json has {value} {name}, and the harness needs a whole number from 1 on:"
                " write it there"
            )
    if not model.like:
        # Fill in the sizes of heads that Transformers derives from other keys.
        sizes = model.sizes["full"].config
        if "head_dim" in sizes and complete.get("head_dim") is None:
            complete["head_dim"] = complete["hidden_size"] // complete["num_attention_heads"]
        if "num_key_value_heads" in sizes and complete.get("num_key_value_heads") is None:
            complete["num_key_value_heads"] = complete["num_attention_heads"]
    if model.like or "num_labels" in model.sizes["full"].config:
        labels = complete.get("id2label")
        if not labels or not isinstance(labels, dict):
            stated: Any = complete.get("num_labels")
            count = min(stated, _MOST_LABELS) if _is_count(stated) else 2
            labels = {str(n): f"LABEL_{n}" for n in range(count)}
        complete |= {"id2label": labels, "num_labels": len(labels)}
    return complete | {other: complete[name] for name, other in model.also_called.items()}


def _older_rope(config: Config) -> Document:
    """Convert today's `rope_parameters` to `rope_theta` and, if positions are scaled,
    `rope_scaling`, which all libraries read.
    """
    rest = dict(config)
    older = rest.pop("rope_scaling", None) or {}
    rope = {**older, **(rest.pop("rope_parameters", None) or {})}
    older_kind = rope.pop("type", "default")
    kind = rope.pop("rope_type", older_kind)
    theta = rope.pop("rope_theta", None)
    if theta is not None:
        rest["rope_theta"] = theta
    if kind != "default" or rope:
        rest["rope_scaling"] = {"rope_type": kind, **rope}
    return rest


def load(path: Path, name: str = "config.json") -> Document:
    """The content of a folder's config.json, or of another JSON file in it. Raises UsageError."""
    file = path / name
    if not file.is_file():
        raise Refused(f"there is no {name} in it; give the folder that save_pretrained wrote")
    try:
        document = user_folder.read_json(file)
    except (OSError, ValueError) as e:
        raise Refused(f"{name} cannot be read ({e}): download or save it again") from None
    if not isinstance(document, dict):
        raise Refused(f"{name} is not a JSON object: give the folder that save_pretrained wrote")
    return document


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
