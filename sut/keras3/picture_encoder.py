"""Models of pictures of KerasHub, with a head that classifies or without a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Unsupported, Workload
from sut.keras.predictor import KerasPredictor
from sut.keras3 import converted, resnet, runtime

_WITHOUT_CONVERTER = {"resnet": resnet.load}
"""`model_type` → our own loader, if KerasHub has the model and no converter from Transformers."""


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier, or its backbone."""
    model = load_model(workload)
    name = model.inputs[0].name

    def prepare(inputs: Batch) -> Batch:
        """Return the pictures with their channels last."""
        return {name: np.ascontiguousarray(inputs["pixel_values"].transpose(0, 2, 3, 1))}

    answers = _hidden if model is getattr(model, "backbone", model) else _logits
    return KerasPredictor(model, workload, runtime, prepare=prepare, to_host=answers)


def load_model(workload: Workload) -> Any:
    """The checkpoint's classifier or backbone of KerasHub, for pictures of the workload's shape.
    Raises Unsupported.
    """
    own = _WITHOUT_CONVERTER.get(workload.config["model"]["model_type"])
    if own:
        return own(workload)
    channels, height, width = workload.config["pixel_shape"]
    model = converted.load_encoder(workload)
    shape = (height, width, channels)
    if model.inputs[0].shape[1:] != shape:
        model = converted.load_encoder(workload, image_shape=shape)
    if model.inputs[0].shape[1:] != shape:
        raise Unsupported(
            f"KerasHub's {type(model).__name__} takes pictures of {model.inputs[0].shape[1:]}, and"
            f" the folder makes pictures of {shape}: take native-torch"
        )
    return model


def _logits(outputs: np.ndarray) -> Batch:
    """Return the logits [batch, classes], float32."""
    return {"logits": np.ascontiguousarray(outputs, np.float32)}


def _hidden(outputs: Any) -> Batch:
    """Return every seventh channel of the last hidden states [batch, tokens, channels], or [batch,
    rows, columns, channels] with the channels moved to the second axis, float32.
    """
    hidden = outputs["sequence_output"] if isinstance(outputs, dict) else outputs
    some = hidden[..., ::7]
    if some.ndim == 4:
        some = np.moveaxis(some, -1, 1)
    return {"hidden": np.ascontiguousarray(some, np.float32)}
