"""What the SUTs of Keras 2 and Keras 3 report of a model that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sut.contract import Batch, Call, Evidence, Workload


class KerasModel:
    """A compiled model of Keras.

    Args:
        runtime: `sut.keras2.runtime` or `sut.keras3.runtime`.
        method: the model's method that is measured.
        versions: versions of the model's libraries, by name, for the evidence.
    """

    def __init__(self, model: Any, workload: Workload, runtime: Any, method: str, **versions: str):
        self.model = model
        self.workload = workload
        self.runtime = runtime
        self.method = method
        self.versions = versions

    def synchronise(self) -> None:
        """Wait for the device."""
        self.runtime.synchronise(self.model)

    def evidence(self, call: Call) -> Evidence:
        """See `evidence` of the runtime."""
        evidence: Evidence = self.runtime.evidence(
            self.model, self.workload, self.method, call, **self.versions
        )
        return evidence


class KerasPredictor(KerasModel):
    """A Keras model that answers by `predict_on_batch`; Keras' `predict` would build a data
    pipeline at each call (8 ms). Its attributes and methods are those of `sut.contract.Inference`.
    """

    in_flight = 1  # predict_on_batch copies to the host

    def __init__(
        self,
        model: Any,
        workload: Workload,
        runtime: Any,
        *,
        prepare: Callable[[Batch], Batch],
        to_host: Callable[[Any], Batch],
        **versions: str,
    ):
        """Compile the model.

        Args:
            runtime: `sut.keras2.runtime` or `sut.keras3.runtime`; its PREDICTS names the function
                that `predict_on_batch` calls.
            prepare: the inputs → the model's inputs.
            to_host: the model's outputs, already on the host → the answers.
            versions: versions of libraries, by name, for the evidence.
        """
        compiled = runtime.compile_to_predict(model, workload)
        super().__init__(compiled, workload, runtime, runtime.PREDICTS, **versions)
        self.prepare = prepare
        self.to_host = to_host

    def predict(self, batch: Batch) -> Any:
        """Return the model's outputs, already on the host."""
        return self.model.predict_on_batch(batch)
