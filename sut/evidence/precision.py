"""Determines which precision a matrix product really has, from its error. A flag only shows the
requested precision. NumPy only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

_SIDE = 256
# Root mean square of the error over that of the exact product, as measured with 256 × 256 normal
# operands: float32 2e-7, tf32 and float16 (10 bits kept of each operand) 4e-4, bfloat16 (7 bits)
# 2.5e-3. The limits are the geometric means of neighbours.
_LIMITS = {"float32": 1e-5, "tf32": 1e-3}


def count_elements(weights: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return name of a dtype → number of elements. `weights`: (name of its dtype, elements) of each
    parameter of a loaded model.
    """
    elements: Counter[str] = Counter()
    for dtype, count in weights:
        elements[dtype] += count
    return elements


def weights_detail(elements: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the `weights` of an evidence's detail: name of a dtype → its number of `elements`, and
    their `bytes`.
    """
    return {
        dtype: {"elements": count, "bytes": count * _bits(dtype) // 8}
        for dtype, count in sorted(elements.items())
    }


def _bits(dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 8  # bool has no number in its name


@cache
def operands() -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices, float32 [256, 256], which are always the same."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((_SIDE, _SIDE), dtype=np.float32)
    b = rng.standard_normal((_SIDE, _SIDE), dtype=np.float32)
    return a, b


def error(product: np.ndarray) -> float:
    """Return the relative error of a framework's product of `operands()`: the error's root mean
    square over that of the exact product.
    """
    exact = _exact()
    difference = product.astype(np.float64) - exact
    relative = np.mean(difference**2) / np.mean(exact**2)
    return float(np.sqrt(relative))


@cache
def _exact() -> np.ndarray:
    a, b = operands()
    product: np.ndarray = a.astype(np.float64) @ b.astype(np.float64)
    return product


def classify(relative_error: float, dtype: str) -> str:
    """Return `float32`, `tf32`, `float16` or `bfloat16`. tf32 and float16 have the same error, and
    the `dtype` of the weights distinguishes them.
    """
    name = next((name for name, limit in _LIMITS.items() if relative_error < limit), "bfloat16")
    return "float16" if name == "tf32" and dtype == "float16" else name
