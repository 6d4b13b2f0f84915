"""The reference of training BERT-like classifiers: a plain loop. Its methods are those of `sut.contract.Training`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from sut.contract import Batch, Evidence, Workload
from sut.reference import library

_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}


class ReferenceTraining:
    """Transformers' classifier and PyTorch's AdamW."""

    def __init__(self, workload: Workload):
        self.model, self.device = library.load_model(workload, **_NO_DROPOUT).train(), workload.device
        self.trainable = sum(p.numel() for p in self.model.parameters())
        constants = workload.config["optimizer"]
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=constants["weight_decay"],
        )

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are."""
        return inputs

    def fit(self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]) -> None:
        """Forward, backward, step: one operator after the other."""
        for batch in batches:
            tensors = {name: torch.from_numpy(values).long().to(self.device) for name, values in batch.items()}
            logits = self.model(input_ids=tensors["input_ids"], attention_mask=tensors["attention_mask"]).logits
            loss = torch.nn.functional.cross_entropy(logits, tensors["label"])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            on_step(loss.item)

    def synchronise(self) -> None:
        """Nothing: no time is taken."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `library.evidence`."""
        call()
        return library.evidence(self.model)


def load(workload: Workload) -> ReferenceTraining:
    """The checkpoint's classifier, to be trained."""
    return ReferenceTraining(workload)
