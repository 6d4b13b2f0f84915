"""Computes Hugging Face folders by KerasHub on the backend of this process.

The job has the `folders` of the cases (`transformers_folders`). The answers of a case are `output`,
`pooled` if there is one, and for each call of a layer `layer|number|class`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from sut.conformance import cases
from sut.conformance.cases import Arrays

_GENERATING = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of the names of Transformers' classes that generate."""
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
    "sequence_output": "output",
    "decoder_sequence_output": "output",
    "pooled_output": "pooled",
}
"""KerasHub's name of an output → the name of the answer. The first one counts."""


def main(job: Mapping[str, Any], out: Path) -> None:
    """Compute the cases."""
    cases.compute(_tried(job["folders"], out), out, _answers)


def _tried(folders: list[str], out: Path) -> Iterator[Path]:
    """Yield the folders. After the plain one of a type was refused, its others are left out."""
    for folder in map(Path, folders):
        kind = folder.name.partition("--")[0]
        if not (out / f"{kind}--plain.txt").exists():
            yield folder


def _answers(folder: Path) -> Arrays:
    """The answers of KerasHub's model of a folder, and those of its layers, computed eagerly."""
    architectures = json.loads((folder / "config.json").read_text("utf-8"))["architectures"]
    if any(name.endswith(_GENERATING) for name in architectures):
        kind = keras_hub.models.CausalLM
        model = kind.from_preset(str(folder), preprocessor=None, dtype="float32")
    else:
        model = keras_hub.models.Backbone.from_preset(str(folder), dtype="float32")
    given = _given(model, cases.arrays(folder / "inputs.npz"))
    layers: dict[str, np.ndarray] = {}
    own = keras.Layer.__call__

    def call(layer: Any, *rest: Any, **named: Any) -> Any:
        made = own(layer, *rest, **named)
        first = made[0] if isinstance(made, tuple | list) and made else made
        if keras.ops.is_tensor(first) and "float" in keras.backend.standardize_dtype(first.dtype):
            key = f"layer|{len(layers)}|{type(layer).__name__}"
            layers[key] = keras.ops.convert_to_numpy(first)
        return made

    keras.Layer.__call__ = call
    try:
        outputs = model(given, training=False)
    finally:
        keras.Layer.__call__ = own
    if not isinstance(outputs, dict):
        outputs = {"sequence_output": outputs}
    answers: dict[str, np.ndarray] = {}
    for name, key in _OUTPUTS.items():
        if name in outputs:
            answers.setdefault(key, keras.ops.convert_to_numpy(outputs[name]))
    return answers | layers


def _given(model: Any, inputs: Arrays) -> Any:
    """The inputs under KerasHub's names, channels last. Raises ValueError if there is none for a
    name.
    """
    is_picture = not isinstance(model.input, dict)
    names = ["images"] if is_picture else [*model.input]
    lacking = sorted(name for name in names if _GIVEN.get(name) not in inputs)
    if lacking:
        raise ValueError(f"this command makes no input {', '.join(lacking)} of KerasHub's model")
    given = {name: inputs[_GIVEN[name]] for name in names}
    for name, array in given.items():
        if array.ndim == 4:
            given[name] = np.moveaxis(array, 1, -1)
    return given["images"] if is_picture else given
