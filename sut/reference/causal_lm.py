"""The reference for language models that generate greedily. Its methods are those of
`sut.contract.Inference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from sut import adapters
from sut.contract import Batch, Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining, cross_entropy
from sut.reference.untimed import Untimed
from sut.registry import PER_HEAD


class Reference(Untimed):
    """Transformers' language model and its `generate`."""

    def __init__(self, workload: Workload):
        self.model = library.load_model(workload)
        self.device = workload.device
        self.ends = list(workload.config.get("end_tokens", ()))
        # The checkpoint's own generation configuration is not used: every SUT decodes greedily.
        self.model.generation_config = transformers.GenerationConfig(
            do_sample=False, eos_token_id=self.ends or None, pad_token_id=0
        )

    def predict(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return (new tokens [batch, new], how many each row requests). Prompts are padded on the
        left, as `generate` requires.
        """
        lengths = batch["prompt_length"]
        width = int(lengths.max())
        ids = np.zeros((len(lengths), width), np.int64)
        for row, length in enumerate(lengths):
            ids[row, width - length :] = batch["input_ids"][row, :length]
        mask = (np.arange(width) >= width - lengths[:, None]).astype(np.int64)
        with torch.no_grad():
            sequences = self.model.generate(
                input_ids=torch.from_numpy(ids).to(self.device),
                attention_mask=torch.from_numpy(mask).to(self.device),
                max_new_tokens=int(batch["max_new_tokens"].max()),
            )
        return sequences[:, width:].cpu().numpy().astype(np.int32), batch["max_new_tokens"]

    def to_host(self, outputs: tuple[np.ndarray, np.ndarray]) -> Batch:
        """Return the tokens, and how many of each row are its answer: up to its first end token,
        and at most as many as requested.
        """
        tokens, requested = outputs
        counts = [self._count(row, most) for row, most in zip(tokens, requested, strict=True)]
        return {"tokens": tokens, "n_tokens": np.array(counts, np.int32)}

    def _count(self, row: np.ndarray, most: int) -> int:
        for number, token in enumerate(row[:most], 1):
            if token in self.ends:
                return number
        return most

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return teacher-forced logits, float32 [batch, length, vocabulary]."""
        ids = torch.from_numpy(tokens).long().to(self.device)
        with torch.no_grad():
            outputs = self.model(ids, use_cache=False)
        logits: np.ndarray = outputs.logits.cpu().numpy()
        return logits


def load(workload: Workload) -> Reference:
    """The checkpoint's language model."""
    return Reference(workload)


class Adapted(torch.nn.Module):
    """The sum of a frozen product of x with weights and of a trained product of x with the factors
    `a` and `b`.
    """

    def __init__(self, frozen: Any, a: torch.Tensor, b: torch.Tensor, scale: float, per_head: bool):
        super().__init__()
        self.frozen = frozen
        self.scale = scale
        self.per_head = per_head
        self.a = torch.nn.Parameter(a)
        self.b = torch.nn.Parameter(b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, length, in] → [batch, length, out]."""
        if self.per_head:
            added = torch.einsum("bti,nir,rh->btnh", x, self.a, self.b).flatten(2)
        else:
            added = x @ self.a.T @ self.b.T
        return self.frozen(x) + self.scale * added


def load_training(workload: Workload) -> ReferenceTraining:
    """Return the checkpoint's language model with LoRA's factors. Only these are trained."""
    model = library.load_model(workload, attention_dropout=0.0)
    config = workload.config["model"]
    lora = workload.config["lora"]
    scale = lora["alpha"] / lora["rank"]
    per_head = lora["factors"] == PER_HEAD
    model.requires_grad_(False)
    for number, layer in enumerate(model.model.layers):
        for name in adapters.LAYERS:
            frozen = getattr(layer.self_attn, name)
            first = adapters.first(config, lora, number, name)
            a = torch.from_numpy(first).to(workload.device)
            _, shape_of_b = adapters.shapes(config, lora, name)
            b = torch.zeros(shape_of_b, device=workload.device)
            setattr(layer.self_attn, name, Adapted(frozen, a, b, scale, per_head))
    return ReferenceTraining(model, cross_entropy, workload)
