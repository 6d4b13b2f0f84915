"""Backbones of KerasHub with the head of a folder that answers questions by a span. Their answers
are logits [batch, length, 2] of its start and its end.
"""

from __future__ import annotations

import keras

from sut.checkpoint import weights_files
from sut.contract import Unsupported, Workload
from sut.keras.bert import to_host
from sut.keras.model import KerasPredictor
from sut.keras3 import converted, runtime
from sut.keras3.hidden_states import prepare, with_segments

_HEAD = "qa_outputs"


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's backbone and head. Raises Unsupported if it has another head."""
    backbone = converted.load_encoder(workload)
    hidden = backbone.output
    if isinstance(hidden, dict):
        hidden = hidden["sequence_output"]
    head = keras.layers.Dense(2, dtype=workload.dtype, name=_HEAD)
    model = keras.Model(backbone.input, head(hidden))
    names = [f"{_HEAD}.weight", f"{_HEAD}.bias"]
    if not set(names) <= set(weights_files.names(workload.checkpoint)):
        raise Unsupported(f"the folder has no {_HEAD}, the head of a span: take native-torch-eager")
    weight, bias = (weights_files.tensor(workload.checkpoint, name) for name in names)
    head.set_weights([weight.T, bias])
    inputs = with_segments if "segment_ids" in backbone.input else prepare
    return KerasPredictor(model, workload, runtime, prepare=inputs, to_host=to_host)
