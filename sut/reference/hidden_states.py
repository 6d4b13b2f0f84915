"""The reference of models without a head. Its methods are those of `sut.contract.Inference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Evidence, Workload
from sut.reference import library


class Reference:
    """Transformers' model without a head."""

    in_flight, streams_tokens = 1, False

    def __init__(self, workload: Workload):
        self.model, self.device = library.load_model(workload), workload.device

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are."""
        return inputs

    def predict(self, batch: Batch, on_first_token: Any = None) -> torch.Tensor:
        """→ the last hidden states [batch, length, channels]."""
        with torch.no_grad():
            hidden: torch.Tensor = self.model(**{name: torch.from_numpy(array).long().to(self.device) for name, array in batch.items()})[0]
        return hidden

    def to_host(self, outputs: torch.Tensor) -> Batch:
        """Every seventh channel of every token, float32: all would be hundreds of megabytes in an accuracy log."""
        return {"hidden": np.ascontiguousarray(outputs.cpu().numpy()[:, :, ::7])}

    def synchronise(self) -> None:
        """Nothing: no time is taken."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `library.evidence`."""
        call()
        return library.evidence(self.model)


def load(workload: Workload) -> Reference:
    """The checkpoint's model."""
    return Reference(workload)
