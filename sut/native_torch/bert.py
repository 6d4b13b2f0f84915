"""BERT-like classifiers of Transformers. The measured call is the model's own `__call__`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Evidence, Workload
from sut.native_torch import execution


class Classifier:
    streams_tokens = False

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload
        self.in_flight = 2 if workload.device == "cuda" else 1  # CUDA kernels are queued, those of the CPU are done on return

    def prepare(self, inputs: Batch) -> Batch:
        """int64, which torch's embedding and mask kernels take without another copy."""
        return {k: inputs[k].astype(np.int64) for k in ("input_ids", "attention_mask")}

    def predict(self, batch: Batch, on_first_token: Any = None) -> torch.Tensor:
        arrays = {k: torch.from_numpy(v).to(self.workload.device) for k, v in batch.items()}
        with torch.no_grad():
            return self.model(**arrays).logits

    def to_host(self, outputs: torch.Tensor) -> Batch:
        return {"logits": outputs.float().cpu().contiguous().numpy()}

    def synchronise(self) -> None:
        execution.synchronise(self.workload)

    def evidence(self) -> Evidence:
        one = torch.ones((1, 8), dtype=torch.int64, device=self.workload.device)
        return execution.evidence(
            self.model, self.workload, f"{type(self.model).__name__}.__call__", lambda: self.model(input_ids=one, attention_mask=one)
        )


def load(workload: Workload) -> Classifier:
    return Classifier(execution.load_model(workload), workload)
