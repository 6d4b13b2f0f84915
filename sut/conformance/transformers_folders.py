"""Makes tiny seeded Hugging Face folders by Transformers, and computes each one by it:
`python -m sut.conformance.transformers_folders JOB`.

JOB is a JSON file with `folders.toml` of the harness and the types of models. For each variant that
the configuration of a type allows, a folder below `out` gets the model's own files, `inputs.npz`
and `answers.npz` (see `_answers`). `rows.json` lists the folders, and says why some were not made.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto import modeling_auto

from formats.writing import write_json
from sut.evidence import causes

_Config = dict[str, Any]
PLAIN = "plain"
"""The variant of a type with the defaults of its configuration, but for its size."""
ANSWERS = "answers.npz"
_SEED = 65
_ROWS = 2
_WHOLE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model")
"""Ends of the names of classes whose own outputs are compared. Those of others are another head's.
"""
_IDS = ("input_ids", "decoder_input_ids")
_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


def main(path: Path) -> None:
    """Make the folders that the job at this path lists."""
    job = json.loads(path.read_text(encoding="utf-8"))
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    rows: list[dict[str, str]] = []
    for kind in job["types"]:
        for name, fields in _variants(kind, job, rows):
            folder = f"{kind}--{name}".replace(" ", "-").replace("/", "-")
            row = {"type": kind, "variant": name, "folder": folder, "reason": ""}
            rows.append(row)
            if (Path(job["out"]) / folder / ANSWERS).exists():
                continue  # from before an interruption
            try:
                _make(kind, name, fields, Path(job["out"]) / folder, job)
            except Exception as e:  # noqa: BLE001  whatever Transformers raises for a configuration
                row["reason"] = f"Transformers {transformers.__version__}: {causes.line(e)}"
                if name == PLAIN:
                    break  # its variants would be refused for the same reason
    write_json(Path(job["out"]) / "rows.json", {"rows": rows, "version": transformers.__version__})


def _variants(
    kind: str, job: Mapping[str, Any], rows: list[dict[str, str]]
) -> Iterator[tuple[str, _Config]]:
    """Yield (name, fields of the configuration) of each variant that a type allows, each once."""
    try:
        default = transformers.CONFIG_MAPPING[kind]().to_dict()
    except Exception as e:  # noqa: BLE001  no such type, or one whose defaults are no model
        reason = f"Transformers {transformers.__version__}: {causes.line(e)}"
        rows.append({"type": kind, "variant": PLAIN, "folder": "", "reason": reason})
        return
    own = job["type"].get(kind, {})
    plain = _tiny(default, job["tiny"])
    for key, value in own.get("set", {}).items():
        _set(plain, default, key, value)
    seen = [_whole(kind, plain)]
    yield PLAIN, plain
    yield job["unrounded"], plain
    if "class" in own:
        yield job["bare"], plain
    for variant in (*job["variant"], *own.get("variant", ())):
        fields = copy.deepcopy(plain)
        allowed = [_set(fields, default, key, value) for key, value in variant["set"].items()]
        whole = _whole(kind, fields)
        if all(allowed) and whole not in seen:
            seen.append(whole)
            yield variant["name"], fields


def _whole(kind: str, fields: _Config) -> _Config:
    """The configuration with its defaults. If Transformers refuses the fields, these alone."""
    try:
        whole: _Config = transformers.CONFIG_MAPPING[kind](**copy.deepcopy(fields)).to_dict()
    except Exception:  # noqa: BLE001  whatever Transformers raises
        return fields
    return whole


def _tiny(default: Mapping[str, Any], tiny: Mapping[str, Any]) -> _Config:
    """The small numbers of those fields that a configuration has, also of those within it."""
    fields = {key: value for key, value in tiny.items() if key in default}
    for key, value in default.items():
        if isinstance(value, dict) and "model_type" in value:
            fields[key] = _tiny(value, tiny)
    return copy.deepcopy(fields)


def _set(fields: _Config, default: Mapping[str, Any], key: str, value: Any) -> bool:
    """Set a field, whose name has dots for those within others. Return whether there is such a
    field: in the configuration, or in that of its text.
    """
    first, *rest = key.split(".")
    if first not in default:
        inner = next((each for each in ("text_config", "decoder") if each in default), None)
        if inner is None or not isinstance(default[inner], dict):
            return False
        return _set(fields.setdefault(inner, {}), default[inner], key, value)
    if not rest:
        fields[first] = value
        return True
    within = default[first]
    if not isinstance(within, dict):
        return False
    layered = any(isinstance(each, dict) for each in within.values())
    if layered and rest[0] not in within:
        return False
    of_layers = copy.deepcopy(within) if "model_type" not in within else {}
    place = fields.setdefault(first, of_layers)
    for name in rest[:-1]:
        if name not in place and name not in within:
            return False
        place = place.setdefault(name, {})
    place[rest[-1]] = value
    return True


def _make(kind: str, name: str, fields: _Config, folder: Path, job: Mapping[str, Any]) -> None:
    """Write the folder of a configuration, its inputs and its answers."""
    config = transformers.CONFIG_MAPPING[kind](**copy.deepcopy(fields))
    config._attn_implementation = "eager"
    model = _class(kind, config, job, name == job["bare"])(config).eval()
    generator = torch.Generator().manual_seed(_SEED)
    for key, weight in model.state_dict().items():
        if weight.dtype.is_floating_point and weight.ndim:
            weight.copy_(_drawn(key, weight, generator, name == job["unrounded"]))
    model.save_pretrained(folder)
    inputs = _inputs(model, job["length"])
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    whole = folder / f"whole-{ANSWERS}"
    np.savez(whole, allow_pickle=False, **_answers(model, inputs))
    whole.rename(folder / ANSWERS)


def _class(kind: str, config: Any, job: Mapping[str, Any], bare: bool) -> Any:
    """Transformers' class: that of the data, or one that generates if the model is no encoder, or
    one without a head.
    """
    known = config.to_dict()
    tables = [modeling_auto.MODEL_MAPPING_NAMES]
    if "is_decoder" not in known and not bare:
        tables.insert(0, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
        if any(isinstance(value, dict) and "model_type" in value for value in known.values()):
            tables.insert(0, modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    named = None if bare else job["type"].get(kind, {}).get("class")
    names = [named, *(table.get(kind) for table in tables)]
    return getattr(transformers, next(filter(None, names)))


def _drawn(name: str, weight: Any, generator: Any, unrounded: bool) -> Any:
    """Random values of a tensor, so large that an error of a layer is seen in the answers. A vector
    varies around its first values: 1 of most norms, 0 of biases. All are float16 numbers, unless
    `unrounded`.
    """
    drawn = torch.randn(weight.shape, generator=generator)
    if weight.ndim == 1:
        values = weight + 0.2 * drawn
    elif "embed" in name and weight.ndim == 2:
        values = drawn
    else:
        values = 1.3 * drawn / weight[0].numel() ** 0.5
    return values if unrounded else values.half().float()


def _inputs(model: Any, length: int) -> dict[str, np.ndarray]:
    """Random inputs. The second row of tokens ends in padding."""
    generator = np.random.default_rng(_SEED)
    config = model.config.get_text_config()
    inputs: dict[str, np.ndarray] = {}
    if model.main_input_name == "pixel_values":
        side = model.config.image_size
        shape = (_ROWS, model.config.num_channels, side, side)
        return {"pixel_values": generator.standard_normal(shape, np.float32)}
    names = _IDS if model.config.is_encoder_decoder else _IDS[:1]
    for name in names:
        low, high = 5, config.vocab_size
        inputs[name] = generator.integers(low, high, (_ROWS, length))
        mask = np.ones((_ROWS, length), np.int64)
        mask[1, -(length // 10) :] = 0  # fewer than a window, or rows attend to nothing
        inputs[_MASKS[name]] = mask
    if getattr(config, "type_vocab_size", 0) > 1:
        halves = np.arange(length) >= length // 2
        inputs["token_type_ids"] = np.broadcast_to(halves, (_ROWS, length)).astype(np.int64)
    return inputs


def _answers(model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The answers of the model in float32: `output`, its logits or last hidden states, `pooled` if
    it has a pooler, and for each layer of its lists `layer|name of the list|number`. `output64` is
    its output in float64; a model that fails in it has none.
    """
    layers: dict[str, np.ndarray] = {}
    hooks = []
    for name, modules in model.named_modules():
        if isinstance(modules, torch.nn.ModuleList) and len(modules) > 1:
            for number, module in enumerate(modules):
                keep = _keeper(layers, f"layer|{name}|{number}")
                hooks.append(module.register_forward_hook(keep))
    found = _called(model, inputs, torch.float32)
    for hook in hooks:
        hook.remove()
    try:
        exact = _called(model.double(), inputs, torch.float64)["output"]
    except (RuntimeError, TypeError):
        return found | layers
    return found | layers | {"output64": exact}


def _keeper(layers: dict[str, np.ndarray], key: str) -> Any:
    def keep(_module: Any, _given: Any, made: Any) -> None:
        first = made[0] if isinstance(made, tuple | list) else made
        if isinstance(first, torch.Tensor) and first.dtype.is_floating_point:
            layers.setdefault(key, first.numpy().copy())

    return keep


def _called(model: Any, inputs: Mapping[str, np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    """`output` and `pooled` of one call."""
    given = {name: torch.from_numpy(array) for name, array in inputs.items()}
    given = {k: each.to(dtype) if each.is_floating_point() else each for k, each in given.items()}
    whole = type(model).__name__.endswith(_WHOLE)
    made = (model if whole else model.base_model)(**given, return_dict=True)
    found = {}
    for key, names in {
        "output": ("logits", "last_hidden_state"),
        "pooled": ("pooler_output",),
    }.items():
        values = [made[name] for name in names if made.get(name) is not None]
        if values:
            found[key] = values[0].numpy()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
