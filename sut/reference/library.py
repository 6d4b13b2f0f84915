"""The library's model, loaded plainly."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from sut.contract import Evidence, Workload


def load_model(workload: Workload) -> Any:
    """The class that config.json names, from the checkpoint, in float32, every operator run by itself."""
    torch.set_float32_matmul_precision("highest")  # images of vendors set TORCH_ALLOW_TF32_CUBLAS_OVERRIDE
    kind = getattr(transformers, workload.config["classes"]["transformers"])
    model = kind.from_pretrained(workload.checkpoint, local_files_only=True, dtype=torch.float32, attn_implementation="eager")
    return model.to(workload.device).eval()


def evidence(model: Any) -> Evidence:
    """The dtype and the class of the model; a reference is not measured."""
    detail = {"call": type(model).__name__, "torch": torch.__version__, "transformers": transformers.__version__}
    return Evidence(graphs=0, graph_breaks=None, precision=str(model.dtype).removeprefix("torch."), detail=detail)
