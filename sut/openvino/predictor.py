"""Models that answer in one run of a compiled program. OpenVINO converts them from PyTorch in the
first batch, by `sut.openvino.convert`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sut.contract import Batch, Call, Workload
from sut.exported import predictor
from sut.openvino import runtime

MODEL = "model.xml"


class Predictor(predictor.Predictor):
    """A model that OpenVINO converts. Its methods are those of `sut.contract.Inference`."""

    backend = runtime
    converter = "sut.openvino.convert"
    measured = "CompiledModel.__call__"

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        """See `sut.exported.predictor.Predictor`."""
        super().__init__(workload, architecture, any_size=any_size)
        self.in_flight = runtime.streams(workload)

    def opened(self, folder: Path) -> runtime.Program:
        """Return a compiled program."""
        return runtime.Program(folder / MODEL, self.workload)

    def watch(self, call: Call) -> dict[str, Any]:
        """See `runtime.watch`."""
        return runtime.watch(list(self.programs.values()), call)

    def predict(self, batch: Batch) -> Any:
        """Return the model's outputs by name, or with several streams a run that has begun."""
        if self.in_flight == 1:
            return super().predict(batch)
        return self.program(self.architecture, batch).start(batch)

    def to_host(self, outputs: Any) -> Batch:
        """Return the answers, once they are there."""
        return super().to_host(outputs.wait() if isinstance(outputs, runtime.Begun) else outputs)
