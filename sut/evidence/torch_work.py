"""Counts the operations of a PyTorch call, and the elements that its products must move.

The formulas are those of `torch.utils.flop_counter.FlopCounterMode`, which does not count elements.
Other operators are counted by the elements that they write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from math import prod
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from formats.work import ATTENTION, CONVOLUTION, MATRIX, Part
from sut.evidence import operation_classes

_aten = torch.ops.aten
_MATRIX = (_aten.mm, _aten.addmm, _aten._scaled_mm)
_BATCHED = (_aten.bmm, _aten.baddbmm)
_WEIGHT = "weight"
_SCORES = "scores"
_NO_OPERATIONS = ("data movement", "embedding and gather", "launch and host overhead")


def count(call: Callable[[], object]) -> Part:
    """Count the operations and elements of one call, which may run forward and backward.

    The call runs in eager mode with the plain operators of attention. The elements of activations
    are those of the whole batch.
    """
    counter = _Counter()
    hooks = (
        register_module_forward_pre_hook(counter.enter),
        register_module_forward_hook(counter.leave),
        register_optimizer_step_pre_hook(counter.begin_update),
        register_optimizer_step_post_hook(counter.end_update),
    )
    try:
        with sdpa_kernel(SDPBackend.MATH), counter:
            call()
    finally:
        for hook in hooks:
            hook.remove()
    return Part(
        flops=dict(counter.flops),
        weights=counter.weights,
        activations=counter.activations,
        passes=counter.passes,
        written=dict(counter.written),
    )


class _Counter(TorchDispatchMode):
    """Sees each operator with its tensors.

    A storage is identified by its address. `_kinds` has the storages of weights and of attention's
    scores. `_distinct` has the storages whose elements are copies of fewer elements.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.weights = 0
        self.activations = 0
        self.passes = 0
        self._depth = 0
        self._updates = False
        self._kinds: dict[int, str] = {}
        self._distinct: dict[int, int] = {}
        self._read: dict[int, set[int]] = {}

    def enter(self, module: torch.nn.Module, inputs: object) -> None:
        """Begin a pass, unless another module calls this one."""
        if self._depth == 0:
            self.passes += 1
            self._read.clear()
            for weight in chain(module.parameters(), module.buffers()):
                self._kinds[_address(weight)] = _WEIGHT
        self._depth += 1

    def leave(self, module: torch.nn.Module, inputs: object, outputs: object) -> None:
        """End a pass. The backward pass reads the weights again."""
        self._depth -= 1
        if self._depth == 0:
            self._read.clear()

    def begin_update(self, *_: object) -> None:
        """Begin the optimizer's step."""
        self._updates = True

    def end_update(self, *_: object) -> None:
        """End the optimizer's step."""
        self._updates = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and count it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        outputs = _tensors(result)
        formula = flop_registry.get(func.overloadpacket)
        if formula is None:
            self._other(inputs, outputs)
            self._writes(func.overloadpacket.__name__, outputs)
            return result
        name = self._class(func.overloadpacket, inputs)
        self.flops[name] += formula(*args, **kwargs, out_val=result)
        self._product(name, inputs, outputs)
        return result

    def _class(self, packet: Any, inputs: Iterable[torch.Tensor]) -> str:
        if "conv" in str(packet):
            return CONVOLUTION
        if packet in _MATRIX:
            return MATRIX
        has_weight = any(self._kind(each) == _WEIGHT for each in inputs)
        return MATRIX if packet in _BATCHED and has_weight else ATTENTION

    def _product(self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Count the elements of a product."""
        kinds = [self._kind(each) for each in inputs]
        weights = [each for each, kind in zip(inputs, kinds, strict=True) if kind == _WEIGHT]
        makes_scores = name == ATTENTION and len(outputs) == 1 and _SCORES not in kinds
        for each in inputs:
            self._reads(each)
        for each in outputs:
            self._forget(each)
            if makes_scores:
                self._kinds[_address(each)] = _SCORES
            elif self._is_gradient(name, each, weights):
                self.weights += each.numel()
            else:
                self.activations += each.numel()

    def _is_gradient(self, name: str, output: torch.Tensor, weights: list[torch.Tensor]) -> bool:
        """Return whether an output of the backward pass is the gradient of a weight. `weights` are
        the product's operands that are weights.
        """
        if self._depth:
            return False
        if name == CONVOLUTION:
            return any(output.shape == each.shape for each in weights)
        return name == MATRIX and not weights

    def _reads(self, tensor: torch.Tensor) -> None:
        """Count the elements of an operand, unless this pass has read it."""
        kind = self._kind(tensor)
        offsets = self._read.setdefault(_address(tensor), set())
        if kind == _SCORES or tensor.storage_offset() in offsets:
            return
        offsets.add(tensor.storage_offset())
        if kind == _WEIGHT:
            self.weights += self._elements(tensor)
        else:
            self.activations += self._elements(tensor)

    def _writes(self, operator: str, outputs: list[torch.Tensor]) -> None:
        """Count the elements that an operator writes that is no product."""
        kind = operation_classes.of_torch(operator)
        if kind not in _NO_OPERATIONS and not self._updates:
            self.written[kind] += sum(each.numel() for each in outputs)

    def _other(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Follow weights, scores and copies through an operator that is no product."""
        known = {_address(each) for each in inputs}
        for output in outputs:
            address = _address(output)
            if address in known:  # a view, or in place
                continue
            self._forget(output)
            same = (each for each in inputs if each.numel() == output.numel())
            if any(self._kind(each) == _SCORES for each in same):
                self._kinds[address] = _SCORES
            if len(inputs) == 1:
                self._distinct[address] = self._elements(inputs[0])
                if self._kind(inputs[0]) == _WEIGHT:
                    self._kinds[address] = _WEIGHT

    def _forget(self, tensor: torch.Tensor) -> None:
        """Forget the storage that had the address of a new one."""
        address = _address(tensor)
        for facts in (self._kinds, self._distinct, self._read):
            facts.pop(address, None)

    def _kind(self, tensor: torch.Tensor) -> str | None:
        return self._kinds.get(_address(tensor))

    def _elements(self, tensor: torch.Tensor) -> int:
        """The elements of a tensor, without those that `expand` repeats."""
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        count = prod(size for size, stride in pairs if stride)
        return min(count, self._distinct.get(_address(tensor), count))


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]
