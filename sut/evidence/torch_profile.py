"""Observations of a run by torch's own tools: operators, compiled regions, graphs, precision of a
product, memory. Every SUT on torch uses them.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch._C._profiler import _ExperimentalConfig

from sut.contract import Call
from sut.evidence import matrix_rate, precision, torch_flops

_REGION = "Torch-Compiled Region"
_PASS = "forward pass of the model"
_PROBE = "precision probe"
# CompiledFxGraph.__call__ (torch 2.13) puts this mark around all code that Inductor compiled, even
# the replay of a CUDA graph. A region without it may be eager.
_INDUCTOR = "## Call CompiledFxGraph"
_PRODUCTS = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::convolution",
    "aten::_scaled_dot_product",
    "aten::mkldnn_linear",
    "mkldnn::",
    "mkl::",
    "quantized::linear",
)
_OPERATOR = ("aten::", "mkldnn::", "mkl::", "quantized::")
_QUANTIZED = "quantized::"
_LOOKUP = "aten::embedding"
# Operands of 8 bits, which Keras casts to int32 for a CPU.
_INTEGERS = ("signed char", "int")
_SCRIPT = 2  # RecordScope::TORCHSCRIPT_FUNCTION, for any name of the function or method
_SETTINGS = {"tf32": 19, "bf16": 16}  # the bits that torch may leave of a float32 product
_BITS = {"float": 32, "c10::BFloat16": 16, "c10::Half": 16, "double": 64}
_PASSES_A_RECORD = 4
ALL_THREADS = _ExperimentalConfig(profile_all_threads=True)
"""Without it, torch's profiler records the thread that begins it, and those of a backward pass."""


COUNTS = (
    "operators",
    "operators_called",
    "operators_left_of_passes",
    "products_outside_inductor",
    "script_calls",
    "regions",
    "forward_passes",
    "integer_products",
    "table_lookups",
)
"""The counts of a watched call, as an evidence's detail names them:

- `operators`: those of ATen, MKL and oneDNN, including those that compiled code calls.
- `operators_called`: those that no other operator and no compiled code calls.
- `operators_left_of_passes`: those within a forward pass and outside of every call of code that
  Inductor compiled, which the compiled part of the model leaves out.
- `products_outside_inductor`: matrix products outside of every call of code that Inductor compiled,
  including those of a backward pass.
- `script_calls`: entries into TorchScript.
- `regions`: entries into code that Dynamo captured, with any backend. A model compiled as a whole
  has one entry a pass.
- `forward_passes`: those of the model; `generate` of n new tokens makes n passes.
- `integer_products`: matrix products of integers, which quantised weights have.
- `table_lookups`: look-ups in a table, as an embedding does.
"""


@dataclass(frozen=True)
class Observed:
    """What a watched call of a model ran.

    Attributes:
        counts: those of COUNTS. `compiled_passes`: passes that called code that Inductor compiled,
            and ran no matrix product outside of such a call. `flops`: floating-point operations of
            all matrix products whose shapes are known. `products_without_flops`: the others.
        product_errors: the error (`sut.evidence.precision`) of a product computed in the context of
            some passes. It includes the effect of autocast and of global switches.
        product_bits: bits of the inputs of matrix products → number of products; a replayed CUDA
            graph shows none. If the call itself changed how many bits torch may leave of float32
            products, they count as that many bits.
        product_operators: operator of matrix products → number of its products.
    """

    counts: Counter[str]
    product_errors: tuple[float, ...]
    product_bits: Counter[int]
    product_operators: Counter[str]

    def detail(self, counts: Iterable[str] = COUNTS) -> dict[str, Any]:
        """Return these counts, `flops`, which is None if those of any product are not known, and
        `product_bits`, for an evidence's detail.
        """
        return {
            **{name: self.counts[name] for name in counts},
            "flops": None if self.counts["products_without_flops"] else self.counts["flops"],
            "product_bits": {str(bits): n for bits, n in sorted(self.product_bits.items())},
        }

    @property
    def compiled_share(self) -> float:
        """The share of the forward passes that ran compiled; 0 if the call never reached the
        model.
        """
        passes = self.counts["forward_passes"]
        return self.counts["compiled_passes"] / passes if passes else 0.0


Hooks = Callable[[Any, Callable[..., None], Callable[..., None]], AbstractContextManager[None]]
"""(model, function before each forward pass, function after it) → the context that calls them."""


def parts(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules that a call enters: the model itself, or the modules of a ModuleList,
    which cannot be called itself.
    """
    return list(model) if isinstance(model, torch.nn.ModuleList) else [model]


@contextmanager
def module_hooks(
    model: torch.nn.Module, before: Callable[..., None], after: Callable[..., None]
) -> Iterator[None]:
    """A context with hooks around the `__call__` of each of `parts(model)`, which is not part of a
    compiled forward.

    `torch.compile(model)` returns another module, with its own `__call__`.
    """
    handles = []
    for part in parts(model):
        handles.append(part.register_forward_pre_hook(before))
        handles.append(part.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def observe(
    model: Any,
    call: Call,
    device: torch.device | str,
    dtype: torch.dtype,
    hooks: Hooks = module_hooks,
    gradients: bool = False,
) -> Observed:
    """Watch a call that should make forward passes of `model`, which must be the module that the
    measured code calls.

    The call must have a shape that ran before, or it may compile. The profiler watches it: a
    TorchDispatchMode would switch Dynamo off for this call and later ones, and so change the
    measured code. No range of the profile, such as a TorchScript call, may enclose several passes.
    `device`, `dtype`: of the probe products, see `Observed`. `gradients`: whether the call trains.
    """
    passes = _Passes(device, dtype)
    with (
        hooks(model, passes.before, passes.after),
        torch.set_grad_enabled(gradients),
        passes.recorded(),
    ):
        call()
    return passes.observed()


class _Passes:
    """Marks each forward pass as a range of the profile, in any thread. It computes a product in
    the context of the first two passes and of every 16th.

    The profiler's record is counted and dropped every few passes: it takes 5 kB of memory for each
    operator, which is more than many models take.
    """

    def __init__(self, device: torch.device | str, dtype: torch.dtype):
        self.device = device
        self.dtype = dtype
        self.number = itertools.count()
        self.lock = threading.Lock()
        self.ranges: defaultdict[int, list[Any]] = defaultdict(list)  # thread → its open passes
        self.errors: list[float] = []
        self.outside = matmul_setting()
        self.settings: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.products: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Return a context in which the profiler records."""
        self._begin_record()
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the error of the call is the one to report
                self.profile.stop()
            raise
        self._end_record()

    def before(self, *_: Any) -> None:
        """Begin a forward pass."""
        ranges = self.ranges[threading.get_ident()]
        with self.lock:
            number = next(self.number)
            if number and number % _PASSES_A_RECORD == 0 and not any(self.ranges.values()):
                self._end_record()
                self._begin_record()
            ranges.append(torch.profiler.record_function(_PASS))
        self.settings.add(matmul_setting())
        if number < 2 or number % 16 == 0:
            with torch.profiler.record_function(_PROBE):
                self.errors.append(precision.error(probe(self.device, self.dtype)))
        ranges[-1].__enter__()

    def after(self, *_: Any) -> None:
        """End a forward pass."""
        self.settings.add(matmul_setting())
        ranges = self.ranges[threading.get_ident()]
        ranges[-1].__exit__(None, None, None)
        ranges.pop()

    def observed(self) -> Observed:
        """Return the counts of the records."""
        bits_of = {**_BITS, "float": self._bits_of_float32()}
        bits = Counter[int]()
        for dtype, count in self.products.items():
            bits[bits_of[dtype]] += count
        return Observed(self.counts, tuple(self.errors), bits, self.operators)

    def _begin_record(self) -> None:
        self.profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            record_shapes=True,
            experimental_config=ALL_THREADS,
        )
        self.profile.start()

    def _end_record(self) -> None:
        """Count the profiler's own events. torch's list of them takes a hundred times as long."""
        self.profile.stop()
        events = self.profile.profiler.kineto_results.events()
        _count(events, self.counts, self.products, self.operators)
        # The profile refers to itself. Without this line its record stays in memory until Python's
        # collector finds both.
        self.profile.profiler = None

    def _bits_of_float32(self) -> int:
        """Return the bits that the settings within the call leave of float32 products. Not every
        device uses these settings.
        """
        within = self.settings - {self.outside}
        return min((_SETTINGS.get(setting, 32) for setting in within), default=32)


def _count(
    events: Sequence[Any], counts: Counter[str], products: Counter[str], operators: Counter[str]
) -> None:
    """Add the counts of these events, which belong to whole passes.

    `counts`: see `Observed.counts`. `products`: narrowest dtype of the inputs →
    number of matrix products. `operators`: operator → number of matrix products.
    """
    # Numbers of forward passes.
    entered: set[int] = set()
    leaking: set[int] = set()
    for event, name, within, around, called in _nested(events):
        if name == _PASS:
            counts["forward_passes"] += 1
        elif name.startswith(_REGION):
            counts["regions"] += 1
        elif name.startswith(_INDUCTOR):
            entered.add(within)
        elif event.scope() == _SCRIPT:
            counts["script_calls"] += 1
        elif name.startswith(_OPERATOR) and around != _PROBE:
            counts["operators"] += 1
            counts["operators_called"] += not around and not called
            counts["operators_left_of_passes"] += around != _INDUCTOR and within > 0
            counts["table_lookups"] += name == _LOOKUP
            if name.startswith(_PRODUCTS):
                operators[name] += 1
                flops = torch_flops.of(event)
                counts["flops"] += flops or 0
                counts["products_without_flops"] += flops is None
                known = [dtype for dtype in event.dtypes() if dtype in _BITS]
                # The input of a quantised operator is a float, which it rounds to 8 bits.
                is_integer = not known and any(each in _INTEGERS for each in event.dtypes())
                if is_integer or name.startswith(_QUANTIZED):
                    counts["integer_products"] += 1
                    known = []
                if known:
                    products[min(known, key=_BITS.__getitem__)] += 1
                if around != _INDUCTOR:
                    leaking.add(within)
                    counts["products_outside_inductor"] += 1
    counts["compiled_passes"] += len(entered - leaking - {0})


def _nested(events: Sequence[Any]) -> Iterator[tuple[Any, str, int, str, bool]]:
    """Yield (event, name, number of the forward pass around it or 0, the other range around it,
    whether an operator called it).

    The other range is `_PROBE`, `_INDUCTOR` or empty.
    """
    # Thread → end of its last operator that no other operator called.
    operator_ends: dict[int, int] = {}
    # Thread → (end, pass, kind) of the ranges around the next event.
    stacks: dict[int, list[tuple[int, int, str]]] = {}
    passes = itertools.count(1)
    outer_first = sorted(events, key=lambda event: (event.start_ns(), -event.duration_ns()))
    for event in outer_first:
        name = event.name()
        start = event.start_ns()
        end = start + event.duration_ns()
        thread = event.start_thread_id()
        stack = stacks.setdefault(thread, [])
        while stack and stack[-1][0] <= start and not (stack[-1][0] == end == start):
            stack.pop()
        _, within, around = stack[-1] if stack else (0, 0, "")
        called = start < operator_ends.get(thread, 0)
        yield event, name, within, around, called
        if name.startswith(_OPERATOR) and not called:
            operator_ends[thread] = end
        if name == _PASS:
            stack.append((end, next(passes), ""))
        elif name == _PROBE:
            stack.append((end, within, _PROBE))
        elif name.startswith(_INDUCTOR):
            stack.append((end, within, _INDUCTOR))


def dynamo_graphs() -> int:
    """Return the number of graphs that Dynamo captured in this process. Without its import nothing
    was compiled.
    """
    module = sys.modules.get("torch._dynamo.utils")
    return int(module.counters["stats"]["unique_graphs"]) if module else 0


def dynamo_graph_breaks() -> int:
    """Return the number of breaks of graphs that Dynamo captured in this process."""
    module = sys.modules.get("torch._dynamo.utils")
    return sum(module.counters["graph_break"].values()) if module else 0


def matmul_setting() -> str:
    """Return the lowest precision that torch may use in float32 products: `ieee` or `none` (float32
    itself), `tf32` or `bf16`.

    It is read from the settings that all switches change: `torch.get_float32_matmul_precision`
    raises an error once one of the newer switches was used.
    """
    settings = [
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.backends.cuda.matmul.fp32_precision,
    ]
    return str(min(settings, key=lambda setting: _SETTINGS.get(setting, 32)))


def probe(device: torch.device | str, dtype: torch.dtype) -> np.ndarray:
    """Multiply `precision.operands()` in the dtype on the device. Return float32 on the host."""
    a, b = [torch.from_numpy(operand).to(device, dtype) for operand in precision.operands()]
    product: np.ndarray = (a @ b).float().cpu().numpy()
    return product


@cache
def matrix_flops(device: str, dtype: torch.dtype) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def product(side: int) -> Callable[[], object]:
        a = torch.rand((side, side), device=device, dtype=dtype)
        return lambda: (a @ a)[0, 0].item()  # which waits for the device

    return matrix_rate.measure(product)


def peak_device_bytes(device: str) -> int | None:
    """Return the most bytes that torch allocated on the accelerator so far; None on `cpu`."""
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else None
