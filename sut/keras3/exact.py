"""What KerasHub's readers of Hugging Face folders lose, kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras_hub.src.utils.transformers.safetensor_utils import SafetensorLoader


class _Whole(np.ndarray):
    """Stays what it is where float16 is asked for."""

    def astype(self, dtype: Any, *rest: Any, **named: Any) -> np.ndarray:
        return self if np.dtype(dtype) == np.float16 else super().astype(dtype, *rest, **named)


@contextmanager
def tensors() -> Iterator[None]:
    """Within it, a weight reaches its variable as it is stored: KerasHub 0.32's Mistral converter calls `.astype(np.float16)` on each, on
    every backend, which moves logits by 2e-3 to 6e-3 of their deviation where the weights are no float16 numbers."""
    own = SafetensorLoader.get_tensor
    SafetensorLoader.get_tensor = lambda self, key: own(self, key).view(_Whole)
    try:
        yield
    finally:
        SafetensorLoader.get_tensor = own


def gelu(model: Any) -> None:
    """The exact GELU that BERT's configuration calls "gelu" (logits move by 7e-4): KerasHub builds its BERT with the tanh form only."""
    for layer in model.backbone.transformer_layers:
        layer._feedforward_intermediate_dense.activation = keras.activations.gelu  # exact unless told `approximate`


def epsilon(model: Any, value: float) -> None:
    """The epsilon of config.json in every norm: KerasHub 0.32's Llama converter leaves it at 1e-6 (logits move by 0.2 for 1e-5)."""
    for layer in model.backbone._flatten_layers():
        if hasattr(layer, "epsilon"):
            layer.epsilon = value
