"""What torch itself says it ran: operators, compiled regions, graphs, precision of a product, memory. For every SUT that runs on torch."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sut import precision

_REGION, _PASS, _PROBE = "Torch-Compiled Region", "forward pass of the model", "precision probe"
# CompiledFxGraph.__call__ (torch 2.13) marks it around all that Inductor made, the replay of a CUDA graph too; a region alone may be eager.
_INDUCTOR = "## Call CompiledFxGraph"
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_scaled_dot_product", "mkldnn::", "mkl::")
_BITS = {"float": 32, "c10::BFloat16": 16, "c10::Half": 16, "double": 64}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a watched call of a model did.

    Attributes:
        operators: aten operators, those that compiled code calls included.
        operators_outside: those outside of every call of what Inductor compiled.
        regions: entries into what Dynamo captured, whatever its backend made of it.
        inductor_calls: calls of what Inductor compiled.
        passes: forward passes of the model; `generate` of n new tokens makes n.
        compiled_passes: passes that called what Inductor compiled and left no matrix product outside of such a call.
        product_errors: of one product made in the context of each pass's call (autocast and global switches count), see `sut.precision`.
        product_bits: bits of the inputs of matrix products → how many there were; a replayed CUDA graph shows none.
    """

    operators: int = 0
    operators_outside: int = 0
    regions: int = 0
    inductor_calls: int = 0
    passes: int = 0
    compiled_passes: int = 0
    product_errors: tuple[float, ...] = ()
    product_bits: Counter[int] = field(default_factory=Counter)

    @property
    def compiled_share(self) -> float:
        """The share of the forward passes that ran compiled; 0 where the call never reached the model."""
        return self.compiled_passes / self.passes if self.passes else 0.0


def watched(call: Callable[[], Any]) -> Observed:
    """What the profiler sees of one call, without its forward passes: Keras' `__call__` runs no hooks of torch.

    By the profiler, because a TorchDispatchMode would switch Dynamo off, and for later calls too: it would change what is measured.
    """
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        call()
    return _read(profile.events(), ())


def observe(model: torch.nn.Module, calls: Sequence[Callable[[], Any]]) -> Observed:
    """Watch calls that the measured code makes of `model`.

    Each must be of a shape that ran before, or it may compile. Forward passes are counted by hooks around the model's `__call__`, which is
    no part of a compiled forward; a wrapper that `torch.compile(model)` made is looked through, to the model that is called.
    """
    watched = getattr(model, "_orig_mod", model)
    errors: list[float] = []
    with torch.no_grad(), _marked(watched, errors):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            for call in calls:
                call()
    return _read(profile.events(), tuple(errors))


@contextmanager
def _marked(model: torch.nn.Module, errors: list[float]) -> Iterator[None]:
    """Each forward pass within is a range of the profile, and one product is made in its context before it."""
    parameter, ranges = next(model.parameters()), list[Any]()

    def before(*_: Any) -> None:
        with torch.profiler.record_function(_PROBE):
            errors.append(precision.error(probe(parameter.device, parameter.dtype)))
        ranges.append(torch.profiler.record_function(_PASS))
        ranges[-1].__enter__()

    def after(*_: Any) -> None:
        ranges.pop().__exit__(None, None, None)

    hooks = [model.register_forward_pre_hook(before), model.register_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _read(events: Sequence[Any], errors: tuple[float, ...]) -> Observed:
    count: Counter[str] = Counter()
    bits: Counter[int] = Counter()
    entered, leaking, passes = set[int](), set[int](), set[int]()
    for event in events:
        around, within = _around(event)
        if event.name == _PASS:
            passes.add(id(event))
        elif event.name.startswith(_REGION):
            count["regions"] += 1
        elif event.name.startswith(_INDUCTOR):
            count["inductor calls"] += 1
            entered.add(within)
        elif event.name.startswith(("aten::", "mkldnn::", "mkl::")) and around != _PROBE:
            count["operators"] += 1
            count["outside"] += around != _INDUCTOR
            if event.name.startswith(_PRODUCTS):
                widths = [_BITS[dtype] for dtype in event.input_dtypes if dtype in _BITS]
                bits.update([min(widths)] if widths else [])
                if around != _INDUCTOR:
                    leaking.add(within)
    return Observed(
        operators=count["operators"],
        operators_outside=count["outside"],
        regions=count["regions"],
        inductor_calls=count["inductor calls"],
        passes=len(passes),
        compiled_passes=len((passes & entered) - leaking),
        product_errors=errors,
        product_bits=bits,
    )


def _around(event: Any) -> tuple[str, int]:
    """(what the event lies in: a call of what Inductor compiled, the probe or nothing; the id of the forward pass around it or 0)."""
    kind, parent = "", event.cpu_parent
    while parent is not None:
        if parent.name == _PASS:
            return kind, id(parent)
        if parent.name == _PROBE or parent.name.startswith(_INDUCTOR):
            kind = _PROBE if parent.name == _PROBE else _INDUCTOR
        parent = parent.cpu_parent
    return kind, 0


def dynamo_graphs() -> int:
    """Graphs Dynamo captured in this process. Not imported: nothing was compiled."""
    module = sys.modules.get("torch._dynamo.utils")
    return int(module.counters["stats"]["unique_graphs"]) if module else 0


def dynamo_graph_breaks() -> int:
    """Breaks of graphs that Dynamo captured in this process."""
    module = sys.modules.get("torch._dynamo.utils")
    return sum(module.counters["graph_break"].values()) if module else 0


def probe(device: torch.device | str, dtype: torch.dtype) -> np.ndarray:
    """`precision.operands()` multiplied in the dtype on the device, as float32 on the host."""
    a, b = (torch.from_numpy(x).to(device, dtype) for x in precision.operands())
    product: np.ndarray = (a @ b).float().cpu().numpy()
    return product


def peak_device_bytes(device: str) -> int | None:
    """Most bytes torch held on the accelerator in this process; None on `cpu`."""
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else None
