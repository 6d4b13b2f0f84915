"""Models that answer in one run of a session. PyTorch exports them in the first batch, by
`sut.onnxruntime.export`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import onnxruntime

from sut import converted_models
from sut.contract import Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence
from sut.exported import predictor
from sut.onnxruntime import runtime

_EXPORT = "sut.onnxruntime.export"
MODEL = "model.onnx"


class _Program:
    """A session that takes and returns arrays by name."""

    def __init__(self, session: onnxruntime.InferenceSession):
        self.session = session
        self.names = [each.name for each in session.get_outputs()]

    def __call__(self, batch: Batch) -> Batch:
        return dict(zip(self.names, self.session.run(None, batch), strict=True))


class Predictor(predictor.Predictor):
    """A model that PyTorch exports. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        """See `sut.exported.predictor.Predictor`."""
        runtime.configure(workload)
        super().__init__(workload, architecture, any_size=any_size)

    def load(self, name: str, model: str, shapes: dict[str, Any]) -> _Program:
        """Export a model, unless it is in the cache, and load it."""
        arguments = (model, shapes, self.any_size)
        with converted_models.folder(self.workload, name, _EXPORT, *arguments) as folder:
            return _Program(runtime.session(folder / MODEL, self.workload))

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`. Weights count once if several graphs have them."""
        paths = {model: each.session._model_path for (model, _), each in self.programs.items()}
        held = Counter[str]()
        for path in paths.values():
            held += runtime.held(path)
        return backend_evidence.evidence(
            runtime,
            self.workload,
            "InferenceSession.run",
            partial(runtime.watch, self.workload, len(self.programs), call),
            held=held,
            computed=set(),
            detail={},
        )
