"""Models of pictures of KerasHub, with a head that classifies or without a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Unsupported, Workload
from sut.keras.bert import to_host as logits
from sut.keras.model import KerasPredictor
from sut.keras3 import converted, resnet, runtime
from sut.keras3.hidden_states import to_host as hidden

_WITHOUT_CONVERTER = {"resnet": resnet.load}
"""`model_type` → our own loader, if KerasHub has the model and no converter from Transformers."""


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier, or its backbone."""
    model = load_model(workload)
    name = model.inputs[0].name

    def prepare(inputs: Batch) -> Batch:
        """Return the pictures with their channels last."""
        return {name: np.ascontiguousarray(inputs["pixel_values"].transpose(0, 2, 3, 1))}

    answers = hidden if model is getattr(model, "backbone", model) else logits
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
