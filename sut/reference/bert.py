"""The reference of BERT-like classifiers. Its methods are those of `sut.contract.Inference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sut.contract import Batch, Evidence, Workload
from sut.reference import library


class Reference:
    """Transformers' classifier."""

    in_flight, streams_tokens = 1, False

    def __init__(self, workload: Workload):
        self.model, self.device = library.load_model(workload), workload.device

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are."""
        return inputs

    def predict(self, batch: Batch, on_first_token: Any = None) -> torch.Tensor:
        """→ logits [batch, classes]."""
        with torch.no_grad():
            logits: torch.Tensor = self.model(
                **{name: torch.from_numpy(values).long().to(self.device) for name, values in batch.items()}
            ).logits
        return logits

    def to_host(self, outputs: torch.Tensor) -> Batch:
        """The logits, float32."""
        return {"logits": outputs.cpu().numpy()}

    def synchronise(self) -> None:
        """Nothing: no time is taken."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `library.evidence`."""
        call()
        return library.evidence(self.model)


def load(workload: Workload) -> Reference:
    """The checkpoint's classifier."""
    return Reference(workload)
