"""limits.json: the speed that a framework reaches on a device, in each precision.

`doctor --limits` measures it. Standard library only, because workers write these types.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "limits-1"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median, the minimum and the maximum of the repeats of a measurement."""

    median: float
    minimum: float
    maximum: float

    @classmethod
    def of(cls, repeats: Sequence[float]) -> Spread:
        """Return the spread of these repeats. Raises StatisticsError if there is none."""
        return cls(median=statistics.median(repeats), minimum=min(repeats), maximum=max(repeats))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The speed that the framework of an environment reaches on a device in one precision.

    Attributes:
        environment: its name, such as that of a lock in environments/.
        framework, version: the framework that computes, and its version.
        matrix_flops: floating-point operations a second of a product of two large square matrices,
            `matrix_side` × `matrix_side`.
        layer_flops: the same of a product with the shape of a model's layer, `LAYER_SHAPE`.
        thin_flops: the same of a product of one row with a matrix that is larger than the
            last-level cache, as decoding at batch 1 needs it.
        thin_bytes_per_second: bytes of that matrix that are read a second.
        read_bytes_per_second: bytes that a sum over a large float32 array reads a second.
        other_matrix_flops: name of another way to multiply in the same process → `matrix_flops` of
            this way.
        matrix_products: `sut.evidence.matrix_library.fact` of the large product.
        absent: name of a measurement → why there is none.
    """

    environment: str
    device: str
    precision: str
    framework: str
    version: str
    matrix_side: int
    matrix_flops: Spread
    layer_flops: Spread
    thin_flops: Spread
    thin_bytes_per_second: Spread
    read_bytes_per_second: Spread
    other_matrix_flops: Mapping[str, Spread] = field(default_factory=dict)
    matrix_products: Mapping[str, Any] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


LAYER_SHAPE = (512, 768, 3072)
"""Rows, inner side and columns of a product with the shape of a model's layer: 512 tokens, and the
wide layer of a transformer whose tokens have 768 values.
"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The limits of one environment on one device: the content of limits.json.

    Attributes:
        made_with: the facts that change the limits: the machine, the packages, the variables, and
            the format of the measurement.
        started: when the measurement began, in local time.
        seconds: how long it took.
        limits: one for each precision in which the framework multiplies matrices here.
        lacking: another precision → the words of the framework that refused it.
    """

    made_with: Mapping[str, Any]
    started: str
    seconds: float
    limits: tuple[Limits, ...]
    lacking: Mapping[str, str] = field(default_factory=dict)
    schema: str = SCHEMA
