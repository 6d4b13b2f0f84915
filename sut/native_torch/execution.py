"""Shared code of the native torch files. It sets device and precision, loads a model, and proves
which execution ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError

from formats.cell import INT8
from sut.contract import Batch, Call, Evidence, Unsupported, Workload
from sut.evidence import device_memory, precision, supported, torch_products, torch_profile
from sut.native_torch import compiled, sharded, tuning
from sut.registry import FIT


def configure(workload: Workload) -> None:
    """Set torch's global settings. Raises Unsupported if this machine or this file cannot run the
    workload.
    """
    supported.check(workload, f"{workload.model} on native torch", ("eager", "compile"))
    if workload.device == "cuda" and not torch.cuda.is_available():
        raise Unsupported(
            "--device cuda: this PyTorch sees no CUDA device (a CPU build, no driver or no GPU);"
            " --device cpu runs"
        )
    if workload.execution == "compile":
        compiled.check_compiler(workload.device)
    torch.set_float32_matmul_precision("high" if workload.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = workload.precision == "tf32"
    tuning.set_globally(workload)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def load_model(
    workload: Workload, adapt: Callable[[Any, Workload], Any] | None = None, **config: Any
) -> torch.nn.Module:
    """Return the checkpoint's model on the workload's device, in its precision, for inference.

    Args:
        adapt: changes the model before it is compiled.
        config: values that replace config.json's.

    Parameters keep requires_grad=True, and callers use no_grad. With requires_grad=False, bfloat16
    `Linear` of torch 2.13 on a CPU clones its weight at each call (100 times slower).
    """
    configure(workload)
    dtype = getattr(torch, workload.dtype)
    model = _from_folder(workload, dtype=dtype, **sharded.join(workload), **config)
    sharded.keep_parts(model)
    # Some of Transformers' models, such as XLNet, keep parameters in float32 for every dtype.
    for parameter in model.parameters():
        if parameter.dtype != dtype:
            parameter.data = parameter.data.to(dtype)
    if adapt:
        model = adapt(model, workload)
    model = tuning.adapted(model.to(workload.device).eval(), workload)
    if workload.execution == "compile":
        compiled.compile_forward(model, workload.settings)
    return model


def _from_folder(workload: Workload, **arguments: Any) -> torch.nn.Module:
    """Return the model that Transformers' class loads.

    Raises Unsupported if the class does not load the folder or would draw random values for missing
    tensors.
    """
    kind = getattr(transformers, workload.config["classes"]["transformers"])
    if not issubclass(kind, transformers.PreTrainedModel):
        arguments["trust_remote_code"] = False
    model: torch.nn.Module
    try:
        model, loading = kind.from_pretrained(
            workload.checkpoint, local_files_only=True, output_loading_info=True, **arguments
        )
    except (ValueError, KeyError, ImportError, StrictDataclassError) as e:
        words = " ".join(str(e).split())
        raise Unsupported(f"Transformers does not load this {workload.model}: {words}") from None
    # A pooler may be missing, because no answer depends on it.
    if missing := sorted(k for k in loading["missing_keys"] if not k.startswith("pooler.")):
        raise Unsupported(
            f"the folder lacks {len(missing)} tensors that Transformers' {type(model).__name__}"
            f" has, such as {missing[0]}"
        )
    return model


def to_device(array: np.ndarray, device: str) -> torch.Tensor:
    """Return the array on the device. It is copied to a GPU from page-locked memory, because
    otherwise the host would wait for the batch before.
    """
    tensor = torch.from_numpy(array)
    if device != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def on_device(batch: Batch, workload: Workload) -> dict[str, torch.Tensor]:
    """Return a batch on the workload's device; see `to_device`."""
    return {name: to_device(values, workload.device) for name, values in batch.items()}


class OnItsWay:
    """A tensor whose copy to the host is queued directly after the kernels that compute it. It does
    not wait for later batches.

    A CUDA graph's next replay overwrites the memory of its outputs. The replay is queued after the
    copy.
    """

    def __init__(self, tensor: torch.Tensor):
        self.on_host = tensor.to("cpu", non_blocking=True)
        self.arrival = torch.cuda.Event() if tensor.is_cuda else None
        if self.arrival:
            self.arrival.record()

    def wait(self) -> torch.Tensor:
        """Return the tensor on the host, once it has arrived."""
        if self.arrival:
            self.arrival.synchronize()
        return self.on_host


class OnDevice:
    """A SUT on the device of its workload."""

    workload: Workload

    def synchronise(self) -> None:
        """Wait for the GPU; a CPU is done on return."""
        if self.workload.device == "cuda":
            torch.cuda.synchronize()


class OneModel(OnDevice):
    """The methods of `sut.contract.Inference` that SUTs with one model share."""

    def __init__(self, model: Any, workload: Workload):
        self.model = model
        self.workload = workload
        self.in_flight = workload.in_flight

    def evidence(self, call: Call) -> Evidence:
        """See the function `evidence`."""
        return evidence(self.model, self.workload, f"{type(self.model).__name__}.__call__", call)


def logits_or_hidden(outputs: Any) -> dict[str, torch.Tensor]:
    """Return the `logits` of a model with a head, and else `hidden`, its last hidden states [batch,
    tokens, channels] or [batch, channels, rows, columns], float32.
    """
    if hasattr(outputs, "logits"):
        return {"logits": outputs.logits.float()}
    return {"hidden": outputs.last_hidden_state.float()}


class Predictor(OneModel):
    """A model of Transformers that answers in one call of its own `__call__`. Its methods are those
    of `sut.contract.Inference`.
    """

    def __init__(
        self,
        model: Any,
        workload: Workload,
        answers: Callable[[Any], dict[str, torch.Tensor]] = logits_or_hidden,
    ):
        """`answers`: the model's outputs → its answers, by name."""
        super().__init__(model, workload)
        self.answers = answers

    def prepare(self, inputs: Batch) -> Batch:
        """Return ids and masks as int64, which torch's embedding and mask kernels take without
        another copy. Pictures stay unchanged.
        """
        return {
            name: values.astype(np.int64) if values.dtype == np.int32 else values
            for name, values in inputs.items()
        }

    def predict(self, batch: Batch) -> dict[str, OnItsWay]:
        """Return the answers on their way to the host."""
        tensors = on_device(batch, self.workload)
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                tensors[name] = tensor.to(self.model.dtype)
        with torch.no_grad():
            answers = self.answers(self.model(**tensors))
        return {name: OnItsWay(tensor) for name, tensor in answers.items()}

    def to_host(self, outputs: dict[str, OnItsWay]) -> Batch:
        """Return the answers, once they have arrived. Of hidden states it is every seventh channel.
        All channels are copied to the host, as Keras does.
        """
        answers = {name: output.wait() for name, output in outputs.items()}
        if "hidden" in answers:
            hidden = answers["hidden"]
            answers["hidden"] = hidden[:, ::7] if hidden.ndim == 4 else hidden[..., ::7]
        return {name: tensor.contiguous().numpy() for name, tensor in answers.items()}


def load_predictor(workload: Workload) -> Predictor:
    """Return the checkpoint's model, in the workload's precision and execution."""
    return Predictor(load_model(workload), workload)


def evidence(
    model: torch.nn.Module, workload: Workload, name: str, call: Call, **versions: str
) -> Evidence:
    """Return the evidence of the work of `call` with `model`, or with the modules of a ModuleList.

    Args:
        name: the part of the library that `call` should reach, for the reader.
        versions: versions of more libraries, by name.
    """
    dtypes = _dtypes(model, workload)
    script_modules = _script_modules(model)
    dtype = next(model.parameters()).dtype
    with device_memory.probing(lambda: torch_profile.peak_device_bytes(workload.device)):
        usual = torch_profile.matrix_flops(workload.device, dtype)
        matrix_flops = tuning.matrix_flops(workload, dtype, usual)
    graphs = torch_profile.dynamo_graphs()
    seen = torch_profile.observe(
        model, call, workload.device, dtype, gradients=workload.task == FIT
    )
    product_errors = [
        precision.error(torch_profile.probe(workload.device, dtype)),
        *seen.product_errors,
    ]
    is_compiled = workload.execution == "compile"
    detail = {
        "call": name,
        **seen.detail(),
        "dynamo_graphs": graphs,
        "script_modules": script_modules,
        "parameter_dtypes": dtypes,
        "weights": precision.weights_detail(_elements(model)),
        "product_error": max(product_errors),
        "float32_matmul_precision": torch_profile.matmul_setting(),
        "attention": getattr(getattr(model, "config", None), "_attn_implementation", None),
        "device": torch.cuda.get_device_name() if workload.device == "cuda" else "cpu",
        "matrix_products": torch_products.about(workload.device, dtype, seen.product_operators),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "settings": tuning.settings(model, workload),
        **versions,
    }
    if is_compiled:
        detail |= compiled.detail(model, workload.device)
    return Evidence(
        graphs=graphs + script_modules,
        graph_breaks=torch_profile.dynamo_graph_breaks() if is_compiled else None,
        precision=_precision(dtypes, product_errors, seen),
        compiled_share=seen.compiled_share,
        peak_device_bytes=device_memory.peak(torch_profile.peak_device_bytes(workload.device)),
        matrix_flops=matrix_flops,
        detail=detail,
    )


def _script_modules(model: torch.nn.Module) -> int:
    """Return the number of TorchScript modules within the model. PYTORCH_JIT=0 makes them ordinary
    modules.
    """
    if not torch.jit._state._enabled:
        return 0
    return sum(isinstance(each, torch.jit.ScriptModule) for each in model.modules())


def _dtypes(model: torch.nn.Module, workload: Workload) -> list[str]:
    """Return the names of the parameters' dtypes. LoRA's factors are left out, because libraries
    keep them in float32 in every precision.
    """
    parameters = _weights(model)
    if "lora" in workload.config:
        parameters = [each for each in parameters if not each.requires_grad]
    return sorted({_name(each.dtype) for each in parameters})


def _weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return all weights, with those that are no parameters any more."""
    return [*model.parameters(), *tuning.packed_weights(model)]


def _elements(model: torch.nn.Module) -> Counter[str]:
    """Return name of a dtype → elements of all parameters, each counted once, with LoRA's."""
    parameters = [(_name(each.dtype), each.numel()) for each in _weights(model)]
    return precision.count_elements(parameters)


def _name(dtype: torch.dtype) -> str:
    return INT8 if dtype == torch.qint8 else str(dtype).removeprefix("torch.")


def _precision(dtypes: Sequence[str], errors: Sequence[float], seen: torch_profile.Observed) -> str:
    """Return the precision, or `mixed` if the weights, the probe products outside of and within the
    call, and the inputs of the call's own products disagree.
    """
    dtype = dtypes[0]
    precisions = {precision.classify(error, dtype) for error in errors}
    bits = 32 if dtype == "float32" else 16
    usual = max(seen.product_bits, key=lambda width: seen.product_bits[width], default=bits)
    narrowest = min(seen.product_bits, default=bits)
    if len(dtypes) != 1 or len(precisions) != 1 or usual != bits or narrowest < bits:
        return "mixed"
    return precisions.pop()
