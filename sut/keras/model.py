"""What the SUTs of Keras 2 and Keras 3 report of a model that runs."""

from __future__ import annotations

from typing import Any

from sut.contract import Call, Evidence, Workload


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
