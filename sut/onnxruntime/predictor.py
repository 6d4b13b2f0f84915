"""Models that answer in one run of a session. PyTorch exports them in the first batch, by
`sut.onnxruntime.export`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnxruntime

from sut.contract import Batch, Call
from sut.exported import predictor
from sut.onnxruntime import runtime

MODEL = "model.onnx"


class _Program:
    """A session that takes and returns arrays by name."""

    computes = ()

    def __init__(self, session: onnxruntime.InferenceSession):
        self.session = session
        self.names = [each.name for each in session.get_outputs()]

    def __call__(self, batch: Batch) -> Batch:
        return dict(zip(self.names, self.session.run(None, batch), strict=True))

    @property
    def held(self) -> Counter[str]:
        """See `runtime.held`."""
        return runtime.held(self.session._model_path)


class Predictor(predictor.Predictor):
    """A model that PyTorch exports. Its methods are those of `sut.contract.Inference`."""

    backend = runtime
    converter = "sut.onnxruntime.export"
    measured = "InferenceSession.run"

    def opened(self, folder: Path) -> _Program:
        """Return a session."""
        return _Program(runtime.session(folder / MODEL, self.workload))

    def watch(self, call: Call) -> dict[str, Any]:
        """See `runtime.watch`."""
        return runtime.watch(self.workload, len(self.programs), call)
