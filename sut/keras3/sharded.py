"""Splits the weights of a KerasHub model on several devices of this process, by Keras' own
`ModelParallel`.
"""

from __future__ import annotations

from typing import Any

import keras
import keras_hub

from formats.cell import SHARDS
from sut.contract import Unsupported, Workload

_MODEL, _BATCH = "model", "batch"
# The head of a model that does not tie it to its embedding: [hidden, vocabulary]. KerasHub's maps
# leave it out, so every device would have all of it.
_HEAD = "token_embedding/reverse_embeddings"


def distribute(workload: Workload, backbone: Any) -> None:
    """Let Keras split the variables that are created after this call, if the workload has shards.

    `backbone`: KerasHub's class. Its own map says which axis of a weight is split. Mistral has no
    map, and Llama's is used: the layers, names and shapes of both are the same.
    """
    count = workload.options.get(SHARDS)
    if count is None:
        return
    devices = keras.distribution.list_devices()
    if len(devices) < count:
        raise Unsupported(
            f"--sut-option {SHARDS}={count}: {workload.backend} finds only {len(devices)} devices"
        )
    mesh = keras.distribution.DeviceMesh((1, count), (_BATCH, _MODEL), devices[:count])
    named = backbone if hasattr(backbone, "get_layout_map") else keras_hub.models.LlamaBackbone
    layout = named.get_layout_map(mesh, _MODEL, _BATCH)
    layout[_HEAD] = (_BATCH, _MODEL)
    parallel = keras.distribution.ModelParallel(layout_map=layout, batch_dim_name=_BATCH)
    keras.distribution.set_distribution(parallel)
