"""Models that answer in one run of a compiled program. OpenVINO converts them from PyTorch in the
first batch, by `sut.openvino.convert`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from sut import converted_models
from sut.contract import Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence
from sut.exported import predictor
from sut.openvino import runtime

_CONVERT = "sut.openvino.convert"
MODEL = "model.xml"


class Predictor(predictor.Predictor):
    """A model that OpenVINO converts. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        """See `sut.exported.predictor.Predictor`."""
        runtime.configure(workload)
        super().__init__(workload, architecture, any_size=any_size)
        self.in_flight = runtime.streams(workload)

    def load(self, name: str, model: str, shapes: dict[str, Any]) -> runtime.Program:
        """Convert a model, unless it is in the cache, and compile it."""
        arguments = (model, shapes, self.any_size)
        with converted_models.folder(self.workload, name, _CONVERT, *arguments) as folder:
            return runtime.Program(folder / MODEL, self.workload)

    def predict(self, batch: Batch) -> Any:
        """Return the model's outputs by name, or with several streams a run that has begun."""
        if self.in_flight == 1:
            return super().predict(batch)
        return self.program(self.architecture, batch).start(batch)

    def to_host(self, outputs: Any) -> Batch:
        """Return the answers, once they are there."""
        return super().to_host(outputs.wait() if isinstance(outputs, runtime.Begun) else outputs)

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`. Weights count once if several programs have them."""
        held = Counter[str]()
        for each in {model: each for (model, _), each in self.programs.items()}.values():
            held += each.held
        return backend_evidence.evidence(
            runtime,
            self.workload,
            "CompiledModel.__call__",
            partial(runtime.watch, list(self.programs.values()), call),
            held=held,
            computed={each.computes for each in self.programs.values()},
            detail={},
        )
