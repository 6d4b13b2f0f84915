"""Loads a model of Transformers plainly, and runs models that answer in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

from sut.contract import Batch, Workload
from sut.reference.untimed import Untimed


def logits_or_hidden(model: Any, inputs: dict[str, torch.Tensor]) -> Batch:
    """Return the logits of a model with a head. Else return every seventh channel of the last
    hidden states [batch, tokens, channels] or [batch, channels, rows, columns], float32: all
    channels would be hundreds of megabytes in a log.
    """
    outputs = model(**inputs)
    if "logits" in outputs:
        return {"logits": outputs.logits.cpu().numpy()}
    hidden = outputs.last_hidden_state.cpu().numpy()
    some = hidden[:, ::7] if hidden.ndim == 4 else hidden[:, :, ::7]
    return {"hidden": np.ascontiguousarray(some)}


class Predictor(Untimed):
    """The library's model of a checkpoint. Its methods are those of `sut.contract.Inference`."""

    def __init__(
        self,
        workload: Workload,
        answers: Callable[[Any, dict[str, torch.Tensor]], Batch] = logits_or_hidden,
    ):
        """`answers`: (the model, the inputs, whole numbers as int64) → the answers."""
        self.model = load_model(workload)
        self.answers = answers
        self.device = workload.device

    def predict(self, batch: Batch) -> Batch:
        """Return the answers."""
        inputs = {}
        for name, values in batch.items():
            tensor = torch.from_numpy(values)
            if not tensor.is_floating_point():
                tensor = tensor.long()
            inputs[name] = tensor.to(self.device)
        with torch.no_grad():
            return self.answers(self.model, inputs)

    def to_host(self, outputs: Batch) -> Batch:
        """The answers, which are on the host already."""
        return outputs


def load(workload: Workload) -> Predictor:
    """The checkpoint's model."""
    return Predictor(workload)


def load_model(workload: Workload, **config: Any) -> Any:
    """Load the class that config.json names from the checkpoint, in float32. Every operator runs by
    itself.

    Args:
        config: values that replace config.json's.
    """
    products_in_float32()
    kind = getattr(transformers, workload.config["classes"]["transformers"])
    model, loading = kind.from_pretrained(
        workload.checkpoint,
        local_files_only=True,
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
        **config,
    )
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ValueError(f"the folder lacks {', '.join(missing)}")
    return model.to(workload.device).eval()


def products_in_float32() -> None:
    """Switch TF32 off on a GPU. Images of vendors set TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, and
    PyTorch's own default allows it in convolutions.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
