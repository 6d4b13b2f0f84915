"""What the Keras 3 files share: device and precision, set and proven, and the evidence. What differs by backend is in on_<backend>.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import keras_hub

from sut import device_memory, precision
from sut.contract import Evidence, Unsupported, Workload
from sut.devices import DEVICES
from sut.keras3 import exact

_BITS = {"float32": 32, "bfloat16": 16}
backend = importlib.import_module(f"sut.keras3.on_{keras.backend.backend()}")
"""EXECUTIONS it has, and the functions `configure`, `synchronise`, `product`, `matrix_flops`, `watch`, `peak_device_bytes` and `about`."""


def configure(workload: Workload) -> None:
    """Before anything is compiled. Raises Unsupported where this machine or this file cannot do what is asked."""
    name = keras.backend.backend()
    if name != workload.backend:
        raise Unsupported(f"Keras runs on {name} here and {workload.backend} is wanted: KERAS_BACKEND decides, before its import")
    if workload.execution not in backend.EXECUTIONS:
        raise Unsupported(f"execution {workload.execution} is not written for Keras on {name}; there is {' and '.join(backend.EXECUTIONS)}")
    if reason := DEVICES[workload.device].lacks.get(workload.precision):
        raise Unsupported(f"--precision {workload.precision}: {reason}")
    backend.configure(workload.device, workload.precision)


def load_model(workload: Workload, **arguments: Any) -> Any:
    """The task model KerasHub makes of the checkpoint folder, in the workload's precision, without a preprocessor."""
    configure(workload)
    kind = getattr(keras_hub.models, workload.config["classes"]["keras_hub"])
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    with exact.tensors():
        model = kind.from_preset(str(workload.checkpoint), preprocessor=None, dtype=dtype, **arguments)
    backend.product(dtype)  # compiled here, so that evidence compiles nothing
    return model


def synchronise(model: Any) -> None:
    """Wait for the backend's device."""
    backend.synchronise(model)


def evidence(model: Any, workload: Workload, name: str, call: Callable[[], Any]) -> Evidence:
    """What `call` runs. `name`: the model's method that it is to reach, for the reader.

    Precision: that of a product in the dtype of the weights; "mixed" where weights, the layers that compute with them, or most of the
    call's own products differ, or where one of these is narrower.
    """
    held, computed = _dtypes(model)
    with device_memory.probing(lambda: backend.peak_device_bytes(workload.device)):
        matrix_flops = backend.matrix_flops(held[0])  # first: it compiles programs of its own
    product_error = precision.error(backend.product(held[0]))
    seen = backend.watch(model, call)
    same = len({*held, *computed}) == 1 and _as_wide(seen.get("product_bits"), _BITS[held[0]])
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
            "parameter_dtypes": held,
            "compute_dtypes": computed,
            "product_error": product_error,
            "keras": keras.__version__,
            "keras_hub": keras_hub.__version__,
            **backend.about(),
        },
    )


def _dtypes(model: Any) -> tuple[list[str], list[str]]:
    """The dtypes of the weights, and those their layers compute in (a mixed policy casts at each call)."""
    held = {keras.backend.standardize_dtype(v.dtype) for v in model.weights}
    computed = {layer.compute_dtype for layer in model._flatten_layers() if layer._trainable_variables}
    return sorted(held), sorted(computed)


def _as_wide(products: Mapping[str, int] | None, bits: int) -> bool:
    if not products:
        return True
    return max(products, key=lambda b: products[b]) == str(bits) and min(map(int, products)) >= bits
