"""Read config.json of a user's own folder: check that the model's SUTs support it, and write out
every default of Transformers.
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
_ROPE = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""Way of scaling rotary positions → the keys that it needs. None of these ways depends on the
length of a prompt.
"""


def read(path: Path, model: Model) -> tuple[Document, list[str]]:
    """Return (the configuration for the SUTs, notes). Raises UsageError with one sentence if it
    does not fit.
    """
    config = load(path)
    if not model.like:
        _check_kind(model, config)
    if "quantization_config" in config:
        raise Refused(
            "config.json has a quantization_config, and quantised weights are not supported: give"
            " the weights from which they were made"
        )
    config = _of_unlisted(model, config) if model.like else _complete(model, config)
    notes = []
    if "auto_map" in config:
        notes.append("config.json names code of its own (auto_map), which is not run")
    dtypes = [config.get(key) for key in ("dtype", "torch_dtype")]
    named = [str(dtype).removeprefix("torch.") for dtype in dtypes if dtype]
    config["dtype"] = named[0] if named else None
    if len(set(named)) > 1:
        notes.append(
            f"config.json says dtype {named[0]} and torch_dtype {named[1]}: the first counts, as in"
            " Transformers"
        )
    kept = {key: value for key, value in config.items() if key not in _DROPPED}
    if model.like:
        if models.of_type(model.name) != model.like:
            notes.append(_of_limits(model))
        return kept, notes
    kept |= {other: kept[name] for name, other in model.also_called.items()}
    return {**kept, "architectures": [model.native_class]}, notes


def _of_limits(model: Model) -> str:
    """The note that the limits of accuracy were not measured for an unlisted model."""
    if architectures.of(model).limits:
        return (
            "the distance of honest SUTs from the reference was not measured for"
            f" {model.name}: the limits of accuracy follow from the precision, the number of"
            " layers with weights and the spread of the reference's answers"
        )
    return (
        f"the distance of honest SUTs from the reference was not measured for {model.name}:"
        f" the limits of accuracy follow from those of {model.like}, by precision, depth and"
        " width"
    )


def _complete(model: Model, config: Config) -> Document:
    """The configuration of a listed model, with every default written out."""
    complete = {
        **model.user_weights.defaults,
        **_rope(model, config),
        **model.user_weights.always,
    }
    named = {name: other for name, other in model.also_called.items() if other in complete}
    complete |= {name: complete[other] for name, other in named.items()}
    _derive(complete, model)
    _check_dimensions(model, complete)
    for key, accepted in model.user_weights.only.items():
        value = complete.get(key)
        if value is not None and value not in accepted:
            there = " or ".join(map(json.dumps, accepted))
            raise Refused(
                f"config.json says {key} {json.dumps(value)}, and {model.name} here is computed"
                f" with {there} only: not every SUT has another"
            )
    return complete


def _of_unlisted(model: Model, config: Config) -> Document:
    """The configuration of an unlisted model as it is, with the numbers that the harness and
    KerasHub read under their names. The libraries know the defaults. Only Transformers knows that
    of `id2label`, which Transformers 5 does not store for two classes without names.
    """
    complete = {**config, **{name: config[other] for name, other in model.also_called.items()}}
    if not complete.get("id2label"):
        classes = range(config.get("num_labels", 2))
        complete["id2label"] = {str(each): f"LABEL_{each}" for each in classes}
    for name in model.user_weights.numbers:
        if not _whole(complete.get(name)):
            value = json.dumps(complete[name]) if name in complete else "no"
            raise Refused(
                f"config.json has {value} {name}, and the harness needs a whole number from 1 on:"
                " write it there"
            )
    return complete


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


def _check_kind(model: Model, config: Config) -> None:
    kind = config.get("model_type")
    expected_kind = model.config["model_type"]
    if kind != expected_kind:
        other = models.of_type(kind)
        advice = f"--model {other}" if other else "leave --model out, and the folder decides"
        raise Refused(
            f"config.json says model_type {kind}, and --model {model.name} is {expected_kind}:"
            f" {advice}"
        )
    named = config.get("architectures")
    needed = model.native_class
    if named and needed not in named and not model.user_weights.any_head:
        raise Refused(
            f"contains {', '.join(map(str, named))}, and {model.name} here is {needed}: train the"
            f" missing head first. {needed}.from_pretrained(DIR).save_pretrained(NEW) adds a random"
            " head, which is only good for measuring speed"
        )


def _rope(model: Model, config: Config) -> Document:
    """Convert today's `rope_parameters` and the older spelling to `rope_theta` and, if positions
    are scaled, `rope_scaling`.
    """
    rest = dict(config)
    older = rest.pop("rope_scaling", None) or {}
    present = rest.pop("rope_parameters", None) or {}
    rope = {**older, **present}
    older_kind = rope.pop("type", "default")
    kind = rope.pop("rope_type", older_kind)
    theta = rope.pop("rope_theta", None)
    if theta is not None:
        rest["rope_theta"] = theta
    if kind == "default" and not rope:
        return rest
    if kind not in model.user_weights.rope:
        ways = " or ".join(model.user_weights.rope)
        supported = f"scaled as {ways}" if ways else "not scaled"
        raise Refused(
            f"config.json scales its rotary positions ({kind}), and those of {model.name} here are"
            f" {supported}"
        )
    missing = [key for key in _ROPE[kind] if not isinstance(rope.get(key), int | float)]
    if missing:
        raise Refused(
            f"config.json scales its rotary positions ({kind}) and gives no number for {missing[0]}"
        )
    return {**rest, "rope_scaling": {"rope_type": kind, **rope}}


def _derive(config: Document, model: Model) -> None:
    """Fill in null or missing dimensions that Transformers derives from other keys.

    `id2label` decides `num_labels` even if config.json has both. Without both, `num_labels` is 2.
    """
    if "num_labels" in model.dimensions:
        names = config.get("id2label")
        stated = config.get("num_labels", 2)
        config["num_labels"] = len(names) if isinstance(names, dict) else stated
    lacks_head_dim = "head_dim" in model.dimensions and config.get("head_dim") is None
    if lacks_head_dim and _whole(config.get("num_attention_heads")):
        config["head_dim"] = config.get("hidden_size", 0) // config["num_attention_heads"]
    if "num_key_value_heads" in model.dimensions and config.get("num_key_value_heads") is None:
        config["num_key_value_heads"] = config.get("num_attention_heads")


def _check_dimensions(model: Model, config: Config) -> None:
    needed = model.dimensions | {"num_attention_heads", "max_position_embeddings"}
    for key in sorted(needed & model.sizes["full"].config.keys()):
        if not _whole(config.get(key)):
            value = json.dumps(config[key]) if key in config else "no"
            raise Refused(
                f"config.json has {value} {key}, and {model.name} needs a whole number from 1 on"
            )
    heads = config["num_attention_heads"]
    divisors = [("num_key_value_heads", config.get("num_key_value_heads", 1), heads)]
    if "head_dim" not in model.dimensions:
        divisors.append(("num_attention_heads", heads, config["hidden_size"]))
    for key, number, whole in divisors:
        if whole % number:
            raise Refused(f"config.json says {key} {number}, which does not divide {whole}")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
