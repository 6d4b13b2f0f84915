"""Counts the floating-point operations of the operators that run in a call of PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

Window = Callable[[], AbstractContextManager[Any]]


def by_operator(call: Callable[[Window], None]) -> Counter[str]:
    """Return operator → its operations in a call, which enters the given context around the steps.

    torch's formulas give the operations of products: two for each multiplication with its addition.
    Every other operator counts one for each element that it writes. Attention runs as plain
    operators, because torch has no formula for its fused kernel on a processor, and the fused
    kernels compute some products twice in a backward pass.
    """
    counts = Counter[str]()
    call(lambda: _counting(counts))
    return counts


@contextmanager
def _counting(counts: Counter[str]) -> Iterator[None]:
    with sdpa_kernel(SDPBackend.MATH), _Counting(counts):
        yield


class _Counting(TorchDispatchMode):
    """A context in which each operator adds to the counts."""

    def __init__(self, counts: Counter[str]):
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        arguments: Iterable[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        named = named or {}
        arguments = tuple(arguments)
        outputs = function(*arguments, **named)
        operator = function.overloadpacket
        if operator in flop_registry:
            operations = flop_registry[operator](*arguments, **named, out_val=outputs)
        else:
            # An operator on a list of tensors may write into them, and return nothing.
            written = arguments[:1] if outputs is None else outputs
            operations = sum(each.numel() for each in _tensors(written))
        self.counts[operator.__name__] += operations
        return outputs


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
