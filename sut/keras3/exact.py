"""Preserves values that KerasHub's readers of Hugging Face folders lose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras_hub.src.utils.transformers.safetensor_utils import SafetensorLoader
from safetensors import SafetensorError

from sut.checkpoint import weights_files


class _Whole(np.ndarray):
    """An array that does not convert itself to float16."""

    def astype(self, dtype: Any, *rest: Any, **named: Any) -> np.ndarray:
        if np.dtype(dtype) == np.float16:
            return self
        return super().astype(dtype, *rest, **named)


@contextmanager
def tensors(names_read: set[str] | None = None, may_lack: tuple[str, ...] = ()) -> Iterator[None]:
    """A context in which KerasHub loads each weight as it is stored. KerasHub 0.32's Mistral
    converter calls `.astype(np.float16)` on each, on every backend. That changes logits by 2e-3 to
    6e-3 of their deviation if the weights are not float16 numbers. The context also finds names
    without a head's prefix, which the converters of DistilBERT and RoBERTa expect.

    Args:
        names_read: receives the names of the tensors that are read.
        may_lack: ends of the names of tensors that the folder may lack. Their variables keep their
            first values.
    """
    own_tensor = SafetensorLoader.get_tensor
    own_key = SafetensorLoader.get_prefixed_key
    own_port = SafetensorLoader.port_weight

    def prefixed(self: SafetensorLoader, key: str, names: Any) -> str:
        body = key.partition(".")[2]
        known = names.keys()  # `names` is not a dict
        found = body if body in known and key not in known else str(own_key(self, key, names))
        if names_read is not None:
            names_read.add(found)
        return found

    def port(
        self: SafetensorLoader, keras_variable: Any, hf_weight_key: str, *rest: Any, **named: Any
    ) -> None:
        try:
            own_port(self, keras_variable, hf_weight_key, *rest, **named)
        except (KeyError, SafetensorError):
            if not hf_weight_key.endswith(may_lack):
                raise

    SafetensorLoader.port_weight = port
    SafetensorLoader.get_tensor = lambda self, key: own_tensor(self, key).view(_Whole)
    SafetensorLoader.get_prefixed_key = prefixed
    try:
        yield
    finally:
        SafetensorLoader.get_tensor = own_tensor
        SafetensorLoader.get_prefixed_key = own_key
        SafetensorLoader.port_weight = own_port


def gelu(model: Any) -> None:
    """Set the exact GELU, which BERT's configuration calls "gelu". KerasHub builds its BERT only
    with the tanh form, which changes logits by 7e-4.
    """
    for layer in getattr(model, "backbone", model)._flatten_layers():
        if hasattr(layer, "_feedforward_intermediate_dense"):
            # This function is exact unless `approximate` is passed.
            layer._feedforward_intermediate_dense.activation = keras.activations.gelu


def epsilon(model: Any, value: float) -> None:
    """Set the epsilon of config.json in every norm. KerasHub 0.32's Llama converter leaves it at
    1e-6 (for 1e-5, logits change by 0.2).
    """
    for layer in getattr(model, "backbone", model)._flatten_layers():
        if hasattr(layer, "epsilon"):
            layer.epsilon = value


def token_types(backbone: Any, checkpoint: Path) -> None:
    """Add the embedding of RoBERTa's only token type to each position. KerasHub has no such tensor,
    and a checkpoint's values may differ from zero.
    """
    end = "embeddings.token_type_embeddings.weight"
    names = [name for name in weights_files.names(checkpoint) if name.endswith(end)]
    if names and hasattr(backbone, "embeddings"):
        positions = backbone.embeddings.position_embedding.position_embeddings
        only_type = weights_files.tensor(checkpoint, names[0])[0]
        positions.assign_add(keras.ops.cast(only_type, positions.dtype))
