"""Builds the evidence of a call that runs on a backend. It combines the SUT's facts about its model
with the observations of the backend's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from formats.cell import ONLY_WEIGHTS, QUANTIZED
from sut.contract import Evidence, Workload
from sut.evidence import device_memory, precision
from sut.registry import QUANTIZE

_BITS = {"float32": 32, "bfloat16": 16, "float16": 16}
_INT8_BITS = 8


def evidence(
    backend: Any,
    workload: Workload,
    name: str,
    watch: Callable[[], dict[str, Any]],
    *,
    held: Mapping[str, int],
    computed: Set[str],
    detail: Mapping[str, Any],
) -> Evidence:
    """Return the evidence of the measured call.

    The precision is that of a product in the dtype of the weights. It is "mixed" if the weights,
    the layers that compute with them, or most of the call's own products differ, or if one of these
    products is narrower.

    Args:
        backend: `sut.evidence.jax_programs` or a module `sut.keras.on_<backend>`.
        name: the part of the model that the call should reach, for the reader.
        watch: runs the call, and returns the backend's observations; its `graphs` is the number of
            compiled graphs.
        held: dtype → number of elements of the weights with this dtype.
        computed: the dtypes in which their layers compute (a mixed policy casts at each call).
        detail: more facts, such as versions.
    """
    kind = workload.options.get(QUANTIZE)
    narrow = QUANTIZED[kind] if kind else ""
    floats = {name for name in held if name != narrow}
    dtype = min(floats)
    with device_memory.probing(lambda: backend.peak_device_bytes(workload.device)):
        matrix_flops = backend.matrix_flops(dtype)  # first, as it compiles programs of its own
    product_error = precision.error(backend.product(dtype))
    seen = watch()
    same = len({*floats, *computed}) == 1
    found = precision.classify(product_error, dtype)
    if kind:
        same = same and narrow in held and _as_quantized(seen, _BITS[dtype], kind)
        found = f"{found} with {kind}"
    else:
        same = same and _as_wide(seen.get("product_bits"), _BITS[dtype])
    return Evidence(
        graphs=seen.pop("graphs"),
        graph_breaks=None,
        precision=found if same else "mixed",
        peak_device_bytes=device_memory.peak(backend.peak_device_bytes(workload.device)),
        matrix_flops=matrix_flops,
        detail={
            "call": name,
            **seen,
            "parameter_dtypes": sorted(held),
            "weights": precision.weights_detail(held),
            "compute_dtypes": sorted(computed),
            "product_error": product_error,
            **detail,
            **backend.about(),
        },
    )


def _as_quantized(seen: Mapping[str, Any], bits: int, kind: str) -> bool:
    """Whether the products are those of such quantised weights: at least half of them have integers
    as operands, but if only the weights are quantised none has. All others have operands of so many
    bits.
    """
    counts = {int(width): count for width, count in (seen.get("product_bits") or {}).items()}
    integers = counts.pop(_INT8_BITS, 0) + (seen.get("integer_products") or 0)
    if not set(counts) <= {bits}:
        return False
    return not integers if kind in ONLY_WEIGHTS else integers >= max(1, sum(counts.values()))


def _as_wide(products: Mapping[str, int] | None, bits: int) -> bool:
    """Whether most products have operands of so many bits, and none has fewer.

    `products`: bits → number of products. None, or empty: none was seen.
    """
    if not products:
        return True
    usual = max(products, key=lambda width: products[width])
    return int(usual) == bits and min(map(int, products)) >= bits
