"""Language models of Transformers, generating greedily. The measured call is `generate`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sut import padding
from sut.contract import Batch, Evidence, Workload
from sut.native_torch import execution


class CausalLM:
    in_flight, streams_tokens = 1, False  # generate looks at every token on the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload
        # No end token: every row gets its full count (min_new_tokens instead would change the answers).
        model.generation_config.update(eos_token_id=None, pad_token_id=0, do_sample=False)

    def prepare(self, inputs: Batch) -> Batch:
        return {**inputs, "input_ids": inputs["input_ids"].astype(np.int64)}

    def predict(self, batch: Batch, on_first_token: Any = None) -> tuple[torch.Tensor, np.ndarray]:
        """→ (new tokens [batch, new], their counts). Prompts are padded on the left, so that all rows go on at the same column."""
        prompt, new = padding.shape(batch, self.workload.config)
        ids, mask = padding.left_align(batch["input_ids"][:, :prompt], batch["prompt_length"].astype(np.int64))
        device = self.workload.device
        with torch.no_grad():
            sequences = self.model.generate(
                input_ids=torch.from_numpy(np.ascontiguousarray(ids)).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                max_new_tokens=new,
            )
        return sequences[:, prompt:], batch["max_new_tokens"]

    def to_host(self, outputs: tuple[torch.Tensor, np.ndarray]) -> Batch:
        tokens, counts = outputs
        return {"tokens": tokens.to(torch.int32).cpu().contiguous().numpy(), "n_tokens": counts.astype(np.int32)}

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            ids = torch.from_numpy(tokens.astype(np.int64)).to(self.workload.device)
            return self.model(input_ids=ids, use_cache=False).logits.float().cpu().numpy()

    def synchronise(self) -> None:
        execution.synchronise(self.workload)

    def evidence(self) -> Evidence:
        one = torch.ones((1, 4), dtype=torch.int64, device=self.workload.device)
        return execution.evidence(
            self.model,
            self.workload,
            f"{type(self.model).__name__}.generate",
            lambda: self.model.generate(input_ids=one, attention_mask=one, max_new_tokens=2),
        )


def load(workload: Workload) -> CausalLM:
    return CausalLM(execution.load_model(workload), workload)
