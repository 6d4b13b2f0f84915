"""Records which operators and kernels of PyTorch run in a call, and when, with `torch.profiler`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sut.evidence import operation_classes
from sut.evidence.torch_profile import ALL_THREADS
from sut.evidence.wall_time import Span, Trace, Window

_WINDOW = "profiled steps"
_COMPILED = ("cpp_fused", "cpp_gemm_fused", "triton_")
# torch._inductor.config.cpp.enable_kernel_profile would do the same for kernels that are compiled
# after it is set. The measured ones are compiled already.
_OF_CPU = "cpp_fused"
_OF_PRODUCT = "cpp_gemm_fused"
_HOST = "CPU"


def record(call: Callable[[Window], None]) -> Trace:
    """Run the call under the profiler. It enters the given context around the steps to look at.

    On a GPU the spans are those of its kernels. The host counts where no kernel runs.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    profiler = torch.profiler.profile(activities=activities, experimental_config=ALL_THREADS)
    with _kernels_named(), profiler as profile:
        call(lambda: torch.profiler.record_function(_WINDOW))
    assert profile.profiler is not None
    return trace_of(profile.profiler.kineto_results.events())


def trace_of(events: Iterable[Any]) -> Trace:
    """Return the trace of the profiler's own events.

    Raises ValueError if the steps to look at are not among them.
    """
    start_ns = end_ns = None
    on_host: list[Span] = []
    on_device: list[Span] = []
    for event in events:
        name = event.name()
        is_host = event.device_type().name == _HOST
        if name == _WINDOW and is_host:
            start_ns = event.start_ns()
            end_ns = event.end_ns()
        elif name == _WINDOW:
            continue
        elif is_host and _computes(name):
            on_host.append(_span(event, event.start_thread_id(), operation_classes.of_torch(name)))
        elif not is_host and not event.is_user_annotation():
            lane = (event.device_index(), event.device_resource_id())
            table = "inductor" if name.startswith(_COMPILED) else "cuda"
            class_of_kernel = operation_classes.of(table, name)
            on_device.append(_span(event, lane, class_of_kernel))
    if start_ns is None or end_ns is None:
        raise ValueError("torch.profiler recorded nothing of the profiled steps")
    return Trace("torch.profiler", start_ns, end_ns, on_device or on_host)


def _computes(name: str) -> bool:
    """Whether an event is an operator or a kernel. Others are marks, such as of an optimizer."""
    return "::" in name or name.startswith(_COMPILED)


def _span(event: Any, lane: object, kind: str) -> Span:
    return Span(lane, event.name(), kind, event.start_ns(), event.end_ns())


@contextmanager
def _kernels_named() -> Iterator[None]:
    """A context in which the profiler sees the kernels that Inductor wrote for a processor.

    Each is a function of a generated module. Kernels for a GPU have names of their own.
    """
    codecache = sys.modules.get("torch._inductor.codecache")
    modules: list[Any] = []
    if codecache:
        cache = codecache.PyCodeCache
        modules = [*cache.modules, *cache.modules_no_attr.values()]
    own = []
    for module in {id(each): each for each in modules}.values():
        found = {name: each for name, each in vars(module).items() if name.startswith(_OF_CPU)}
        kernels = {name: kernel for name, kernel in found.items() if callable(kernel)}
        products: set[str] = set()
        if kernels:
            code = Path(module.__file__).read_text()
            products = operation_classes.inductors_products(code)
        for name, kernel in kernels.items():
            own.append((module, name, kernel))
            shown = name.replace(_OF_CPU, _OF_PRODUCT, 1) if name in products else name
            setattr(module, name, _named(shown, kernel))
    try:
        yield
    finally:
        for module, name, kernel in own:
            setattr(module, name, kernel)


def _named(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        with torch.profiler.record_function(name):
            return kernel(*arguments)

    return run
