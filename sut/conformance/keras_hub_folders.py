"""Computes Hugging Face folders by KerasHub on the backend of this process:
`python -m sut.conformance.keras_hub_folders JOB`.

JOB is a JSON file. With `types` it names a file to which the types of models with a converter are
written, as KerasHub's own loader has them; no framework is imported. With `folders` it names those
to be computed: for each one, `out` gets an .npz with `output`, `pooled` if there is one, and for
each call of a layer `layer|number|name|class`, or a .txt with the words of a refusal.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from formats.writing import write_json
from sut.evidence import causes

_LOADER = "src/utils/transformers/preset_loader.py"
_GIVEN = {
    "token_ids": "input_ids",
    "padding_mask": "attention_mask",
    "segment_ids": "token_type_ids",
    "encoder_token_ids": "input_ids",
    "encoder_padding_mask": "attention_mask",
    "decoder_token_ids": "decoder_input_ids",
    "decoder_padding_mask": "decoder_attention_mask",
    "images": "pixel_values",
    "pixel_values": "pixel_values",
}
"""KerasHub's name of an input → that of Transformers."""
_OUTPUTS = {
    "output": ("sequence_output", "decoder_sequence_output"),
    "pooled": ("pooled_output",),
}


def main(path: Path) -> None:
    """Do what the job at this path says."""
    job = json.loads(path.read_text(encoding="utf-8"))
    if "types" in job:
        write_json(Path(job["types"]), {"types": _types()})
        return
    for folder in job["folders"]:
        kind = Path(folder).name.partition("--")[0]
        made, refusal, plain = (
            Path(job["out"]) / name
            for name in (
                f"{Path(folder).name}.npz",
                f"{Path(folder).name}.txt",
                f"{kind}--plain.txt",
            )
        )
        # Those from before this process was started again, and those of a type that is refused.
        if any(each.exists() for each in (made, refusal, plain)):
            continue
        refusal.write_text("the process ended in it", encoding="utf-8")
        try:
            found = _computed(Path(folder))
        except Exception as e:  # noqa: BLE001  whatever KerasHub or its backend raises
            refusal.write_text(causes.words(e), encoding="utf-8")
            continue
        np.savez(made, allow_pickle=False, **found)
        refusal.unlink()


def _types() -> list[str]:
    """The types of models that the loader of KerasHub compares `model_type` with."""
    package = importlib.util.find_spec("keras_hub")
    assert package and package.origin
    tree = ast.parse((Path(package.origin).parent / _LOADER).read_text(encoding="utf-8"))
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        left = node.left if isinstance(node, ast.Compare) else None
        if isinstance(left, ast.Name) and left.id == "model_type":
            for each in ast.walk(node):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    names[each.value] = None
    return sorted(names)


def _computed(folder: Path) -> dict[str, np.ndarray]:
    """The answers of KerasHub's model of a folder, and those of its layers, computed eagerly."""
    keras = importlib.import_module("keras")
    hub = importlib.import_module("keras_hub")
    architectures = json.loads((folder / "config.json").read_text("utf-8"))["architectures"]
    generates = any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)
    generates |= any(name.endswith("ForConditionalGeneration") for name in architectures)
    if generates:
        kind = hub.models.CausalLM
        model = kind.from_preset(str(folder), preprocessor=None, dtype="float32")
    else:
        model = hub.models.Backbone.from_preset(str(folder), dtype="float32")
    with np.load(folder / "inputs.npz") as arrays:
        given = _given(model, dict(arrays))
    layers: dict[str, np.ndarray] = {}
    own = keras.Layer.__call__

    def call(layer: Any, *rest: Any, **named: Any) -> Any:
        made = own(layer, *rest, **named)
        first = made[0] if isinstance(made, tuple | list) and made else made
        if keras.ops.is_tensor(first) and "float" in keras.backend.standardize_dtype(first.dtype):
            key = f"layer|{len(layers)}|{layer.name}|{type(layer).__name__}"
            layers[key] = keras.ops.convert_to_numpy(first)
        return made

    keras.Layer.__call__ = call
    try:
        made = model(given, training=False)
    finally:
        keras.Layer.__call__ = own
    found = {}
    for key, names in _OUTPUTS.items():
        if isinstance(made, dict):
            values = [made[name] for name in names if name in made]
        else:
            values = [made] if key == "output" else []
        if values:
            found[key] = keras.ops.convert_to_numpy(values[0])
    return found | layers


def _given(model: Any, inputs: Mapping[str, np.ndarray]) -> Any:
    """The inputs under KerasHub's names. Raises ValueError if there is none for a name."""
    names = model.input if isinstance(model.input, dict) else {"images": model.input}
    lacking = sorted(name for name in names if _GIVEN.get(name) not in inputs)
    if lacking:
        raise ValueError(f"this command makes no input {', '.join(lacking)} of KerasHub's model")
    given = {name: inputs[_GIVEN[name]] for name in names}
    for name, array in given.items():
        if array.ndim == 4:
            given[name] = np.moveaxis(array, 1, -1)
    return given if isinstance(model.input, dict) else given["images"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
