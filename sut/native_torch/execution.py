"""What the native torch files share: device, precision, and the proof of which execution ran."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers

from sut import precision
from sut.contract import Evidence, Unsupported, Workload


def configure(workload: Workload) -> None:
    """Set what is global in torch. Raises Unsupported where this machine or this file cannot do what is asked."""
    if workload.execution != "eager":
        raise Unsupported(f"execution {workload.execution} is not written for native torch; eager is")
    if workload.device == "cuda" and not torch.cuda.is_available():
        raise Unsupported("--device cuda: this PyTorch sees no CUDA device (a CPU build, no driver or no GPU); --device cpu runs")
    if workload.precision == "tf32" and workload.device != "cuda":
        raise Unsupported("--precision tf32: a format of NVIDIA GPUs; on cpu there are float32 and bfloat16")
    torch.set_float32_matmul_precision("high" if workload.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = workload.precision == "tf32"
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def load_model(workload: Workload) -> torch.nn.Module:
    """The checkpoint's model on the workload's device, in its precision, for inference.

    Parameters keep requires_grad=True and callers use no_grad: with False, bfloat16 `Linear` of torch 2.13 on a CPU clones its weight at
    each call (100 times slower).
    """
    configure(workload)
    kind = getattr(transformers, workload.config["classes"]["transformers"])
    dtype = torch.bfloat16 if workload.precision == "bfloat16" else torch.float32
    return kind.from_pretrained(workload.checkpoint, local_files_only=True, dtype=dtype).to(workload.device).eval()


def synchronise(workload: Workload) -> None:
    if workload.device == "cuda":
        torch.cuda.synchronize()


def evidence(model: torch.nn.Module, workload: Workload, call: str, forward: Callable[[], Any]) -> Evidence:
    """`forward`: one small call of the model, the way the measured call does it; its operators are counted."""
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
    product_error = precision.error(_probe(next(model.parameters())))
    scripted = sum(isinstance(m, torch.jit.ScriptModule) for m in model.modules())
    graphs = _dynamo_graphs()
    operators, regions = _operators(forward)
    return Evidence(
        graphs=graphs + scripted,
        graph_breaks=None,
        precision=precision.classify(product_error) if len(dtypes) == 1 else "mixed",
        detail={
            "call": call,
            "operators": operators,
            "compiled_regions": regions,
            "dynamo_graphs": graphs,
            "script_modules": scripted,
            "parameter_dtypes": dtypes,
            "product_error": product_error,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "attention": getattr(model.config, "_attn_implementation", None),
            "device": _device_name(workload),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    )


def _probe(parameter: torch.Tensor) -> Any:
    """A product of the weights' own dtype on their own device."""
    a, b = (torch.from_numpy(x).to(parameter.device, parameter.dtype) for x in precision.operands())
    return (a @ b).float().cpu().numpy()


def _dynamo_graphs() -> int:
    """Graphs Dynamo captured in this process. Not imported: nothing was compiled."""
    module = sys.modules.get("torch._dynamo.utils")
    return int(module.counters["stats"]["unique_graphs"]) if module else 0


def _operators(forward: Callable[[], Any]) -> tuple[int, int]:
    """(operators, compiled regions) of one call: eager dispatches each operator by its name, a compiled region is one event around fewer.

    By the profiler, because a TorchDispatchMode would switch Dynamo off, and for later calls too: it would change what is measured.
    """
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        forward()
    names = [event.name for event in profile.events()]
    return sum(n.startswith("aten::") for n in names), sum(n.startswith("Torch-Compiled Region") for n in names)


def _device_name(workload: Workload) -> str:
    return torch.cuda.get_device_name() if workload.device == "cuda" else "cpu"
