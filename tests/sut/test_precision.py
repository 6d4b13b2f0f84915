"""The precision of a product is told from its error, with each precision imitated by rounding the
operands.
"""

from types import SimpleNamespace

import ml_dtypes  # noqa: F401  it adds bfloat16 to NumPy
import numpy as np
import pytest

from sut.evidence import backend_evidence, precision


def rounded(values, bits):
    """float32 with `bits` of its 23 mantissa bits kept, to the nearest."""
    drop = 23 - bits
    raw = values.view(np.uint32).astype(np.uint64) + (1 << (drop - 1))
    return (raw >> drop << drop).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("name", "bits", "dtype"),
    [
        ("float32", None, "float32"),
        ("tf32", 10, "float32"),
        ("float16", 10, "float16"),
        ("bfloat16", 7, "bfloat16"),
    ],
)
def test_each_precision_is_told_from_its_product(name, bits, dtype):
    a, b = (x if bits is None else rounded(x, bits) for x in precision.operands())
    assert precision.classify(precision.error(a @ b), dtype) == name


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_a_product_whose_result_is_rounded_too_has_the_precision_of_its_dtype(name):
    a, b = (x.astype(np.dtype(name)) for x in precision.operands())
    product = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.dtype(name))
    assert precision.classify(precision.error(product), name) == name


@pytest.mark.parametrize("limit", [1e-5, 1e-3])
def test_no_precision_lies_near_a_limit(limit):
    errors = [
        precision.error(np.matmul(*(rounded(x, bits) for x in precision.operands())))
        for bits in (22, 10, 7)
    ]
    assert all(max(e / limit, limit / e) > 2 for e in errors)


class _Backend:
    """A backend whose products are NumPy's."""

    @staticmethod
    def product(dtype):
        return np.matmul(*precision.operands())

    @staticmethod
    def matrix_flops(dtype):
        return 1e9

    @staticmethod
    def peak_device_bytes(device):
        return None

    @staticmethod
    def about():
        return {}


@pytest.mark.parametrize(
    ("kind", "held", "bits", "found"),
    [
        ("int8", {"int8": 90, "float32": 10}, {"8": 6, "32": 2}, "float32 with int8"),
        ("int8", {"int8": 90, "float32": 10}, {"32": 8}, "mixed"),
        ("int8", {"int8": 90, "float32": 10}, {"8": 3, "32": 5}, "mixed"),
        ("int8", {"float32": 100}, {"8": 6, "32": 2}, "mixed"),
        ("int8-weights", {"int8": 90, "float32": 10}, {"32": 8}, "float32 with int8-weights"),
        ("int8-weights", {"int8": 90, "float32": 10}, {"8": 6, "32": 2}, "mixed"),
        ("int8-weights", {"int8": 90, "float32": 9, "bfloat16": 1}, {"32": 8}, "mixed"),
        ("int8", {"int8": 90, "float32": 10}, {"32": 2, "integers": 6}, "float32 with int8"),
        ("int8", {"int8": 90, "float32": 10}, {"32": 5, "integers": 3}, "mixed"),
        (None, {"int8": 90, "float32": 10}, {"32": 8}, "mixed"),
        (None, {"float32": 100}, {"32": 8}, "float32"),
    ],
)
def test_quantised_weights_are_told_from_the_weights_and_the_products(kind, held, bits, found):
    options = {"quantize": kind} if kind else {}
    integers = bits.get("integers", 0)
    bits = {width: count for width, count in bits.items() if width != "integers"}
    evidence = backend_evidence.evidence(
        _Backend,
        SimpleNamespace(device="cpu", options=options),
        "a call",
        lambda: {"graphs": 0, "product_bits": bits, "integer_products": integers},
        held=held,
        computed={"float32"},
        detail={},
    )
    assert evidence.precision == found
