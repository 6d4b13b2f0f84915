"""This module reports what torch itself says it ran: operators, compiled regions, graphs, precision of a product, memory.

It serves every SUT that runs on torch.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from sut import matrix_rate, precision

_REGION, _PASS, _PROBE = "Torch-Compiled Region", "forward pass of the model", "precision probe"
# CompiledFxGraph.__call__ (torch 2.13) marks it around all that Inductor made, the replay of a CUDA graph too; a region alone may be eager.
_INDUCTOR = "## Call CompiledFxGraph"
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_scaled_dot_product", "mkldnn::", "mkl::")
_SCRIPT = 2  # RecordScope::TORCHSCRIPT_FUNCTION, whatever the function or method is named
_SCRIPTED = "within TorchScript"
_SETTINGS = {"tf32": 19, "bf16": 16}  # what torch may leave of the bits of a float32 product
_BITS = {"float": 32, "c10::BFloat16": 16, "c10::Half": 16, "double": 64}


@dataclass(frozen=True)
class Observed:
    """The record of what a watched call of a model did.

    Attributes:
        operators: operators of ATen, MKL and oneDNN, those that compiled code calls included.
        operators_outside: operators outside of every call of what Inductor compiled.
        operators_left: those of `operators_outside` within a forward pass: what was left out of the compiled part of the model.
        products_outside: matrix products outside of every call of what Inductor compiled, those of a backward pass too.
        regions: entries into what Dynamo captured, whatever its backend made of it. A model compiled as a whole has one a pass.
        inductor_calls: calls of what Inductor compiled.
        script_calls: entries into TorchScript.
        passes: forward passes of the model; `generate` of n new tokens makes n.
        compiled_passes: passes that called what Inductor compiled and left no matrix product outside of such a call.
        scripted_passes: passes that entered TorchScript and left no matrix product outside of it.
        operators_left_of_script: operators within a forward pass that ran outside of TorchScript.
        product_errors: the error (`sut.precision`) of a product made in the context of some passes; autocast and global switches count.
        product_bits: bits of the inputs of matrix products → how many there were; a replayed CUDA graph shows none. If the call itself
            changed what torch may leave of float32 products, they count as the bits that may be left.
    """

    operators: int = 0
    operators_outside: int = 0
    operators_left: int = 0
    products_outside: int = 0
    regions: int = 0
    inductor_calls: int = 0
    script_calls: int = 0
    passes: int = 0
    compiled_passes: int = 0
    scripted_passes: int = 0
    operators_left_of_script: int = 0
    product_errors: tuple[float, ...] = ()
    product_bits: Counter[int] = field(default_factory=Counter)

    @property
    def compiled_share(self) -> float:
        """The share of the forward passes that ran compiled; 0 where the call never reached the model."""
        return self.compiled_passes / self.passes if self.passes else 0.0

    @property
    def scripted_share(self) -> float:
        """The share of the forward passes that ran as TorchScript; 0 where the call never reached the model."""
        return self.scripted_passes / self.passes if self.passes else 0.0


Hooks = Callable[[Any, Callable[..., None], Callable[..., None]], AbstractContextManager[None]]
"""(model, what to call before and after each forward pass) → the context in which that is done."""


def parts(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The modules that a call enters: the model itself, or those of a ModuleList, which is none and holds several."""
    return list(model) if isinstance(model, torch.nn.ModuleList) else [model]


@contextmanager
def module_hooks(model: torch.nn.Module, before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Hooks around the model's `__call__`, which is no part of a compiled forward; of several around that of each.

    What `torch.compile(model)` returns is a module of its own, with a `__call__` of its own.
    """
    handles = [hook for part in parts(model) for hook in (part.register_forward_pre_hook(before), part.register_forward_hook(after))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def observe(
    model: Any,
    call: Callable[[], Any],
    device: torch.device | str,
    dtype: torch.dtype,
    hooks: Hooks = module_hooks,
    gradients: bool = False,
) -> Observed:
    """Watch a call that is to make forward passes of `model`, the very module that the measured code calls.

    It must be of a shape that ran before, or it may compile. By the profiler, because a TorchDispatchMode would switch Dynamo off, and for
    later calls too: it would change what is measured. `device`, `dtype`: of the products that are made within, see `Observed`.
    `gradients`: whether the call trains.
    """
    passes = _Passes(device, dtype)
    with hooks(model, passes.before, passes.after):
        events = _profiled(call, gradients)
    return _read(events, passes)


def _profiled(call: Callable[[], Any], gradients: bool) -> list[Any]:
    """The profiler's own events: torch's list of them takes a hundred times as long to make."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.set_grad_enabled(gradients), torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        call()
    return list(profile.profiler.kineto_results.events())


class _Passes:
    """Makes a range of the profile of each forward pass, and a product in the context of the first two and of every 16th."""

    def __init__(self, device: torch.device | str, dtype: torch.dtype):
        self.device, self.dtype = device, dtype
        self.count, self.ranges = itertools.count(), list[Any]()
        self.errors: list[float] = []
        self.outside, self.settings = matmul_setting(), set[str]()

    def before(self, *_: Any) -> None:
        number = next(self.count)
        self.settings.add(matmul_setting())
        if number < 2 or number % 16 == 0:
            with torch.profiler.record_function(_PROBE):
                self.errors.append(precision.error(probe(self.device, self.dtype)))
        self.ranges.append(torch.profiler.record_function(_PASS))
        self.ranges[-1].__enter__()

    def after(self, *_: Any) -> None:
        self.settings.add(matmul_setting())
        self.ranges.pop().__exit__(None, None, None)

    def bits_of_float32(self) -> int:
        """Bits that the settings within the call leave of float32 products. Not every device makes use of them."""
        return min((_SETTINGS.get(setting, 32) for setting in self.settings - {self.outside}), default=32)


def _read(events: Sequence[Any], passes: _Passes) -> Observed:
    count: Counter[str] = Counter()
    bits: Counter[int] = Counter()
    entered, leaking = set[int](), set[int]()
    entered_script, leaking_script = set[int](), set[int]()
    bits_of = {**_BITS, "float": passes.bits_of_float32()}
    for event, within, around in _nested(events):
        name = event.name()
        if name == _PASS:
            count["passes"] += 1
        elif name.startswith(_REGION):
            count["regions"] += 1
        elif name.startswith(_INDUCTOR):
            count["inductor calls"] += 1
            entered.add(within)
        elif event.scope() == _SCRIPT:
            count["script calls"] += 1
            entered_script.add(within)
        elif name.startswith(("aten::", "mkldnn::", "mkl::")) and around != _PROBE:
            count["operators"] += 1
            count["outside"] += around != _INDUCTOR
            count["left"] += around != _INDUCTOR and within > 0
            count["left of script"] += around != _SCRIPTED and within > 0
            if name.startswith(_PRODUCTS):
                known = [bits_of[dtype] for dtype in event.dtypes() if dtype in bits_of]
                bits.update([min(known)] if known else [])
                if around != _INDUCTOR:
                    leaking.add(within)
                    count["products outside"] += 1
                if around != _SCRIPTED:
                    leaking_script.add(within)
    return Observed(
        operators=count["operators"],
        operators_outside=count["outside"],
        operators_left=count["left"],
        products_outside=count["products outside"],
        regions=count["regions"],
        inductor_calls=count["inductor calls"],
        script_calls=count["script calls"],
        passes=count["passes"],
        compiled_passes=len(entered - leaking - {0}),
        scripted_passes=len(entered_script - leaking_script - {0}),
        operators_left_of_script=count["left of script"],
        product_errors=tuple(passes.errors),
        product_bits=bits,
    )


def _nested(events: Sequence[Any]) -> Iterator[tuple[Any, int, str]]:
    """(event, number of the forward pass around it or 0, what else it lies in: `_PROBE`, `_INDUCTOR`, `_SCRIPTED` or nothing)."""
    stacks: dict[int, list[tuple[int, int, str]]] = {}  # of each thread: (end, pass, what) of the ranges around the next event
    passes = itertools.count(1)
    for event in sorted(events, key=lambda e: (e.start_ns(), -e.duration_ns())):
        name, end = event.name(), event.start_ns() + event.duration_ns()
        stack = stacks.setdefault(event.start_thread_id(), [])
        while stack and stack[-1][0] <= event.start_ns() and not (stack[-1][0] == end == event.start_ns()):
            stack.pop()
        _, within, around = stack[-1] if stack else (0, 0, "")
        yield event, within, around
        if name == _PASS:
            stack.append((end, next(passes), ""))
        elif name == _PROBE or name.startswith(_INDUCTOR):
            stack.append((end, within, _PROBE if name == _PROBE else _INDUCTOR))
        elif event.scope() == _SCRIPT and not around:
            stack.append((end, within, _SCRIPTED))


def dynamo_graphs() -> int:
    """Graphs Dynamo captured in this process. Not imported: nothing was compiled."""
    module = sys.modules.get("torch._dynamo.utils")
    return int(module.counters["stats"]["unique_graphs"]) if module else 0


def dynamo_graph_breaks() -> int:
    """Breaks of graphs that Dynamo captured in this process."""
    module = sys.modules.get("torch._dynamo.utils")
    return sum(module.counters["graph_break"].values()) if module else 0


def matmul_setting() -> str:
    """Return the lowest precision that torch may use in float32 products: `ieee` or `none` (float32 itself), `tf32` or `bf16`.

    It is read where all switches end: `torch.get_float32_matmul_precision` raises an error once one of the newer switches was used.
    """
    settings = [torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision]
    return str(min(settings, key=lambda setting: _SETTINGS.get(setting, 32)))


def probe(device: torch.device | str, dtype: torch.dtype) -> np.ndarray:
    """`precision.operands()` multiplied in the dtype on the device, as float32 on the host."""
    a, b = (torch.from_numpy(x).to(device, dtype) for x in precision.operands())
    product: np.ndarray = (a @ b).float().cpu().numpy()
    return product


@cache
def matrix_flops(device: str, dtype: torch.dtype) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def product(side: int) -> Callable[[], object]:
        a = torch.full((side, side), 0.5, device=device, dtype=dtype)
        return lambda: (a @ a)[0, 0].item()  # which waits for the device

    return matrix_rate.measure(product)


def peak_device_bytes(device: str) -> int | None:
    """Most bytes torch held on the accelerator in this process; None on `cpu`."""
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else None
