"""The operations of a sample, and the elements that a batch moves. Standard library only.

They are counted on the reference (`sut.evidence.torch_work`) and are the same for every SUT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MATRIX = "matrix product"
ATTENTION = "attention"
CONVOLUTION = "convolution"
CLASSES = (MATRIX, ATTENTION, CONVOLUTION)
"""The classes of operations. `ATTENTION` are the products of activations with activations, and
`MATRIX` are those with weights.
"""

ITEM_BYTES = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
"""Precision → bytes of an element."""
QUANTIZED_BYTES = 1
"""Bytes of an element of quantised weights."""

MATRIX_PRODUCTS = "matrix products"
MEMORY = "memory"
"""The two limits of a machine, of which the one with the larger share binds."""
NEITHER = "neither"
"""Both shares are below LEAST_BINDING, so that neither limit explains the time."""
LEAST_BINDING = 0.1
"""A share is the part of the time in which the machine, at its limit, would do the same work. Below
this share nine tenths of the time and more go to something else.
"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The operations and elements of a part of a batch's computation.

    Attributes:
        flops: class of operation → floating-point operations of one sample.
        weights: elements of weights that a batch reads and writes, for any number of its samples. A
            forward pass reads each weight of its products once.
        activations: elements that the products of one sample read and write, with its KV cache.
            The scores of attention are not counted, because a fused kernel does not store them.
        passes: forward passes of a batch.
        written: class of operation (`formats.profile.CLASSES`) → elements that one sample's other
            operators write: norms, sums, pointwise operators and those that are in no class. It
            lacks the optimizer of a training.
    """

    flops: Mapping[str, float]
    weights: float
    activations: float
    passes: float
    written: Mapping[str, float] = field(default_factory=dict)

    @property
    def all_flops(self) -> float:
        """The floating-point operations of one sample."""
        return sum(self.flops.values())

    def moved_bytes(self, batch: float, item_bytes: int, weight_bytes: int) -> float:
        """Return the bytes that a batch of `batch` samples moves, divided by `batch`.

        Args:
            item_bytes, weight_bytes: bytes of an element of activations and of weights.
        """
        return weight_bytes * self.weights / batch + item_bytes * self.activations

    def plus(self, other: Part, times: float) -> Part:
        """Return the sum of this part and `times` the other."""
        return Part(
            flops=_sum(self.flops, other.flops, times),
            weights=self.weights + times * other.weights,
            activations=self.activations + times * other.activations,
            passes=self.passes + times * other.passes,
            written=_sum(self.written, other.written, times),
        )


def _sum(one: Mapping[str, float], other: Mapping[str, float], times: float) -> dict[str, float]:
    """Return the sum of one table and `times` the other."""
    names = (*one, *other)
    return {name: one.get(name, 0.0) + times * other.get(name, 0.0) for name in names}


NOTHING = Part(flops={}, weights=0.0, activations=0.0, passes=0.0)


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a sample, on average over the inputs. Padding is not counted.

    Attributes:
        first: the part until the first new token; everything if no tokens are generated. For a
            training it is a step: forward, backward and AdamW.
        token: the part of one more token, on average over the tokens of the reference's answers.
            None: no further tokens are generated.
    """

    first: Part
    token: Part | None = None

    def of_sample(self, tokens: float | None) -> Part:
        """Return the work of a sample. `tokens`: the tokens of its answer; None: it has none."""
        if self.token is None or tokens is None:
            return self.first
        return self.first.plus(self.token, tokens - 1)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """work.json: the work as the worker counted it. `work` is None if `reason` says why."""

    work: Work | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The speed that a framework reaches on this device in this precision (`formats.limits`).

    Attributes:
        matrix_flops: floating-point operations a second of a large matrix product.
        read_bytes_per_second: bytes that are read from memory a second.
    """

    matrix_flops: float
    read_bytes_per_second: float
