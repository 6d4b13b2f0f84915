"""What a model of Keras leaves as evidence, of whatever version Keras is. What its backend sees comes from `keras3/on_<backend>.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from sut import device_memory, precision
from sut.contract import Evidence, Workload

_BITS = {"float32": 32, "bfloat16": 16}


def evidence(
    backend: Any,
    model: Any,
    workload: Workload,
    name: str,
    call: Callable[[], Any],
    *,
    held: Set[str],
    computed: Set[str],
    versions: Mapping[str, str],
) -> Evidence:
    """What `call` runs.

    Precision: that of a product in the dtype of the weights; "mixed" where weights, the layers that compute with them, or most of the
    call's own products differ, or where one of these is narrower.

    Args:
        backend: a module `sut.keras3.on_<backend>`.
        name: the model's method that the call is to reach, for the reader.
        held, computed: the dtypes of the weights, and those their layers compute in (a mixed policy casts at each call).
    """
    dtype = min(held)
    with device_memory.probing(lambda: backend.peak_device_bytes(workload.device)):
        matrix_flops = backend.matrix_flops(dtype)  # first: it compiles programs of its own
    product_error = precision.error(backend.product(dtype))
    seen = backend.watch(model, call)
    same = len({*held, *computed}) == 1 and _as_wide(seen.get("product_bits"), _BITS[dtype])
    return Evidence(
        graphs=seen.pop("graphs"),
        graph_breaks=None,
        precision=precision.classify(product_error) if same else "mixed",
        peak_device_bytes=device_memory.peak(backend.peak_device_bytes(workload.device)),
        matrix_flops=matrix_flops,
        detail={
            "call": f"{type(model).__name__}.{name}",
            "jit_compile": bool(model.jit_compile),
            **seen,
            "parameter_dtypes": sorted(held),
            "compute_dtypes": sorted(computed),
            "product_error": product_error,
            **versions,
            **backend.about(),
        },
    )


def _as_wide(products: Mapping[str, int] | None, bits: int) -> bool:
    if not products:
        return True
    return max(products, key=lambda b: products[b]) == str(bits) and min(map(int, products)) >= bits
