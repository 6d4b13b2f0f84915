"""The precision of a product is told from its error, with each precision imitated by rounding the
operands.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sut.evidence import precision


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 with `bits` of its 23 mantissa bits kept, to the nearest."""
    drop = 23 - bits
    raw = values.view(np.uint32).astype(np.uint64) + (1 << (drop - 1))
    return (raw >> drop << drop).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("name", "bits"), [("float32", None), ("tf32", 10), ("bfloat16", 7)])
def test_each_precision_is_told_from_its_product(name, bits):
    a, b = (x if bits is None else rounded(x, bits) for x in precision.operands())
    assert precision.classify(precision.error(a @ b)) == name


def test_a_product_in_bfloat16_throughout_is_bfloat16():
    a, b = (x.astype(ml_dtypes.bfloat16) for x in precision.operands())
    product = (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert precision.classify(precision.error(product)) == "bfloat16"


@pytest.mark.parametrize("limit", [1e-5, 1e-3])
def test_no_precision_lies_near_a_limit(limit):
    errors = [
        precision.error(np.matmul(*(rounded(x, bits) for x in precision.operands())))
        for bits in (22, 10, 7)
    ]
    assert all(max(e / limit, limit / e) > 2 for e in errors)
