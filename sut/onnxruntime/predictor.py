"""Models that answer in one run of a session. PyTorch exports them in the first batch, by
`sut.onnxruntime.export`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

from sut import converted_models
from sut.contract import Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence
from sut.onnxruntime import runtime
from sut.registry import QUANTIZE

_EXPORT = "sut.onnxruntime.export"
MODEL = "model.onnx"


class Predictor:
    """A model that PyTorch exports. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # `run` returns the answers

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        """`any_size`: whether one export takes batches of any size and length."""
        runtime.configure(workload)
        self.workload = workload
        self.architecture = architecture
        self.any_size = any_size
        # (model, its shape, if each has a graph of its own) → its session
        self.sessions: dict[tuple[str, str], onnxruntime.InferenceSession] = {}

    def prepare(self, inputs: Batch) -> Batch:
        """Return ids and masks as int64, as PyTorch's models take them."""
        return {
            name: values.astype(np.int64) if values.dtype == np.int32 else values
            for name, values in inputs.items()
        }

    def predict(self, batch: Batch) -> Batch:
        """Return the model's outputs by name."""
        return self.run(self.architecture, batch)

    def run(self, model: str, batch: Batch) -> Batch:
        """Return the outputs of a model of `sut.onnxruntime.export`, by name. It is converted and
        loaded for the first batch.
        """
        shape = "" if self.any_size else _shape(batch)
        if (model, shape) not in self.sessions:
            self.sessions[model, shape] = self._load(model, shape, batch)
        session = self.sessions[model, shape]
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(None, batch), strict=True))

    def _load(self, model: str, shape: str, batch: Batch) -> onnxruntime.InferenceSession:
        quantized = self.workload.options.get(QUANTIZE, "")
        name = "-".join(filter(None, (model, quantized, shape)))
        shapes = {each: [str(array.dtype), array.shape] for each, array in batch.items()}

        arguments = (model, shapes, self.any_size)
        with converted_models.folder(self.workload, name, _EXPORT, *arguments) as folder:
            return runtime.session(folder / MODEL, self.workload)

    def to_host(self, outputs: Batch) -> Batch:
        """Return the answers. Of hidden states it is every seventh channel."""
        answers = dict(outputs)
        if "hidden" in answers:
            hidden = answers["hidden"]
            answers["hidden"] = hidden[:, ::7] if hidden.ndim == 4 else hidden[..., ::7]
        return {name: np.ascontiguousarray(each) for name, each in answers.items()}

    def synchronise(self) -> None:
        """Do nothing: the processor is done on return."""

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`. Weights count once if several graphs have them."""
        paths = {model: each._model_path for (model, _), each in self.sessions.items()}
        held = Counter[str]()
        for path in paths.values():
            held += runtime.held(path)
        return backend_evidence.evidence(
            runtime,
            self.workload,
            "InferenceSession.run",
            partial(runtime.watch, self.workload, len(self.sessions), call),
            held=held,
            computed=set(),
            detail={},
        )


def _shape(batch: Batch) -> str:
    sizes: list[Any] = [side for values in batch.values() for side in values.shape]
    return "x".join(map(str, sizes))
