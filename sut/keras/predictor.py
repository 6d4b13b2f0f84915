"""A model of Keras 2 or Keras 3 that answers by `predict_on_batch`. Keras' `predict` would build a
data pipeline at each call (8 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sut.contract import Batch, Workload
from sut.keras.model import KerasModel


class KerasPredictor(KerasModel):
    """A Keras model, compiled to predict. Its attributes and methods are those of
    `sut.contract.Inference`.
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
