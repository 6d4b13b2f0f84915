"""Makes tiny seeded Hugging Face folders by Transformers, and computes each one by it.

The job has `folders.toml` of the harness and the types of models. There is a folder for each
variant that the configuration of a type allows. It gets the model's own files, `inputs.npz` and
`answers.npz` (see `_answers`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto import modeling_auto

from sut.conformance import cases
from sut.conformance.cases import Arrays, Case, Wanted

_Config = dict[str, Any]
_Job = Mapping[str, Any]
_Variant = Mapping[str, Any]
"""A `variant` of folders.toml."""
_PLAIN = "plain"
_SEED = 65
_ROWS = 2
_TEXTS = ("text_config", "decoder")
"""Fields that are the configuration of a model's text."""
_WHOLE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model")
"""Ends of the names of classes whose own outputs are compared. Those of others are another head's.
"""
_OUTPUTS = {"logits": "output", "last_hidden_state": "output", "pooler_output": "pooled"}
"""Transformers' name of an output → the name of the answer. The first one counts."""
_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


def main(job: _Job, out: Path) -> None:
    """Make the folders."""
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    cases.make(out, f"Transformers {transformers.__version__}", _wanted(job, out))


def _wanted(job: _Job, out: Path) -> Wanted:
    """Yield each case and the function that fills its folder. After the plain folder of a type was
    refused, its variants are left out, because the reason would be the same.
    """
    for kind in job["types"]:
        for variant, fields in _variants(kind, job):
            name = variant["name"]
            folder = out / f"{kind}--{name.replace(' ', '-')}"
            case = Case(name=f"{kind}, {name}", folder=folder)
            yield case, partial(_fill, kind, fields, variant, job)
            if name == _PLAIN and not folder.exists():
                break


def _variants(kind: str, job: _Job) -> Iterator[tuple[_Variant, _Config]]:
    """Yield the variants that a type allows, each with the fields of its configuration. Of those
    with the same model only the first one counts.
    """
    own = job["type"].get(kind, {})
    default = _whole(kind, {})
    plain = _tiny(default, job["tiny"])
    for key, value in own.get("set", {}).items():
        _set(plain, default, key, value)
    models = []
    for variant in job["variant"]:
        fields = copy.deepcopy(plain)
        allowed = [_set(fields, default, key, value) for key, value in variant["set"].items()]
        model = {**variant, "name": "", "set": _whole(kind, fields)}
        has_head = "class" in own or not variant.get("headless")
        if all(allowed) and has_head and model not in models:
            models.append(model)
            yield variant, fields


def _whole(kind: str, fields: _Config) -> _Config:
    """The configuration with its defaults. If Transformers refuses the fields, only these."""
    try:
        whole: _Config = _configuration(kind, fields).to_dict()
    except Exception:  # noqa: BLE001  whatever Transformers raises
        return fields
    return whole


def _configuration(kind: str, fields: _Config) -> Any:
    return transformers.CONFIG_MAPPING[kind](**copy.deepcopy(fields))


def _tiny(default: _Config, tiny: Mapping[str, Any]) -> _Config:
    """The small numbers of those fields that a configuration has, also of those within it."""
    fields = {key: value for key, value in tiny.items() if key in default}
    for key, value in default.items():
        if isinstance(value, dict) and "model_type" in value:
            fields[key] = _tiny(value, tiny)
    return fields


def _set(fields: _Config, default: _Config, key: str, value: Any) -> bool:
    """Set a field, whose name has dots for those within others. Return whether there is such a
    field: in the configuration, or in that of its text.

    A configuration, and the parameters of several kinds of layers, have only their own fields.
    Other parameters may get new ones.
    """
    first, _, rest = key.partition(".")
    is_closed = "model_type" in default or any(isinstance(e, dict) for e in default.values())
    if is_closed and first not in default:
        first = next((each for each in _TEXTS if each in default), "")
        rest = key
    if not rest:
        fields[first] = value
        return True
    within = default.get(first)
    if not isinstance(within, dict):
        return False
    place = fields.setdefault(first, {} if "model_type" in within else copy.deepcopy(within))
    return _set(place, within, rest, value)


def _fill(kind: str, fields: _Config, variant: _Variant, job: _Job, folder: Path) -> None:
    """Write the model's files, its inputs and its answers."""
    configuration = _configuration(kind, fields)
    configuration._attn_implementation = "eager"
    own = job["type"].get(kind, {})
    name = _class(kind, configuration.to_dict(), variant, own)
    model = getattr(transformers, name)(configuration).eval()
    generator = torch.Generator().manual_seed(_SEED)
    for key, weight in model.state_dict().items():
        if weight.dtype.is_floating_point and weight.ndim:
            drawn = _drawn(key, weight, generator)
            weight.copy_(drawn if variant.get("unrounded") else drawn.half())
    model.save_pretrained(folder)
    inputs = _inputs(model, job["length"])
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(folder / "answers.npz", allow_pickle=False, **_answers(model, inputs))


def _class(kind: str, known: _Config, variant: _Variant, own: Mapping[str, Any]) -> Any:
    """The name of Transformers' class: that of the data, or one that generates if the model is no
    encoder, or one without a head.
    """
    tables = [modeling_auto.MODEL_MAPPING_NAMES]
    if not variant.get("headless"):
        if "class" in own:
            return own["class"]
        if "is_decoder" not in known:
            tables.insert(0, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
            if any(isinstance(value, dict) and "model_type" in value for value in known.values()):
                tables.insert(0, modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    return next(table[kind] for table in tables if kind in table)


def _drawn(name: str, weight: Any, generator: Any) -> Any:
    """Random values of a tensor, so large that an error of a layer is seen in the answers. A vector
    varies around its first values: 1 of most norms, 0 of biases.
    """
    drawn = torch.randn(weight.shape, generator=generator)
    if weight.ndim == 1:
        return weight + 0.2 * drawn
    if "embed" in name and weight.ndim == 2:
        return drawn
    return 1.3 * drawn / weight[0].numel() ** 0.5


def _inputs(model: Any, length: int) -> dict[str, np.ndarray]:
    """Random inputs. The second row of tokens ends in padding."""
    generator = np.random.default_rng(_SEED)
    if model.main_input_name == "pixel_values":
        side = model.config.image_size
        shape = (_ROWS, model.config.num_channels, side, side)
        return {"pixel_values": generator.standard_normal(shape, np.float32)}
    config = model.config.get_text_config()
    inputs = {}
    for name, mask in _MASKS.items():
        if name == "input_ids" or model.config.is_encoder_decoder:
            inputs[name] = generator.integers(5, config.vocab_size, (_ROWS, length))
            inputs[mask] = np.ones((_ROWS, length), np.int64)
            inputs[mask][1, -(length // 10) :] = 0  # fewer than a window, or rows attend to nothing
    if getattr(config, "type_vocab_size", 0) > 1:
        halves = np.arange(length) >= length // 2
        inputs["token_type_ids"] = np.broadcast_to(halves, (_ROWS, length)).astype(np.int64)
    return inputs


def _answers(model: Any, inputs: Arrays) -> Arrays:
    """The answers of the model in float32: `output`, its logits or last hidden states, `pooled` if
    it has a pooler, and for each layer of its lists `layer|number|name of the list`. `output64` is
    its output in float64; a model that fails in it has none. `mask` is 1 for a token of the output
    and 0 for padding.
    """
    answers: dict[str, np.ndarray] = {}
    for name, modules in model.named_modules():
        if isinstance(modules, torch.nn.ModuleList) and len(modules) > 1:
            for number, module in enumerate(modules):
                keep = partial(_keep, answers, f"layer|{number}|{name}")
                module.register_forward_hook(keep)
    answers |= _called(model, inputs)
    for mask in _MASKS.values():
        if mask in inputs:
            answers["mask"] = inputs[mask]
    with suppress(RuntimeError, TypeError):
        answers["output64"] = _called(model.double(), inputs)["output"]
    return answers


def _keep(answers: dict[str, np.ndarray], key: str, _module: Any, _given: Any, made: Any) -> None:
    """Keep the first output of the first call of a module."""
    first = made[0] if isinstance(made, tuple | list) else made
    if isinstance(first, torch.Tensor) and first.dtype.is_floating_point:
        answers.setdefault(key, first.numpy().copy())


def _called(model: Any, inputs: Arrays) -> dict[str, np.ndarray]:
    """`output` and `pooled` of one call, in the dtype of the model."""
    given = {name: torch.from_numpy(array) for name, array in inputs.items()}
    if "pixel_values" in given:
        given["pixel_values"] = given["pixel_values"].to(model.dtype)
    whole = type(model).__name__.endswith(_WHOLE)
    made = (model if whole else model.base_model)(**given, return_dict=True)
    found: dict[str, np.ndarray] = {}
    for name, key in _OUTPUTS.items():
        if made.get(name) is not None:
            found.setdefault(key, made[name].numpy())
    return found
