"""What the Keras 3 files share: device and precision, set and proven, and a count of everything XLA compiles. JAX so far."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import keras
import keras_hub
import numpy as np

from sut import precision
from sut.contract import Evidence, Unsupported, Workload

_COMPILED = "/jax/core/compile/backend_compile_duration"
# JAX's own names: its default for float32 products is tf32 on an NVIDIA GPU and bfloat16 on a TPU.
_MATMUL = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": "default"}
_compilations: Counter[str] = Counter()
_product = jax.jit(jnp.matmul)


def _count(event: str, duration: float, **known: Any) -> None:
    if event == _COMPILED:
        _compilations[str(known.get("fun_name"))] += 1


@cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_count)


def configure(workload: Workload) -> None:
    """Before anything is compiled. Raises Unsupported where this machine or this file cannot do what is asked."""
    if keras.backend.backend() != workload.backend or workload.backend != "jax":
        raise Unsupported(
            f"Keras runs on {keras.backend.backend()} here and {workload.backend} is wanted: KERAS_BACKEND decides, before its "
            "import, and of the backends jax is written"
        )
    if workload.execution != "xla":
        raise Unsupported(f"execution {workload.execution} is not written for Keras on JAX; xla is")
    if workload.precision == "tf32" and workload.device != "cuda":
        raise Unsupported("--precision tf32: a format of NVIDIA GPUs; on cpu there are float32 and bfloat16")
    jax.config.update("jax_default_matmul_precision", _MATMUL[workload.precision])
    _choose_device(workload.device)
    _listen()


def _choose_device(device: str) -> None:
    """JAX's first platform becomes its default; without the plugin of one it goes on to the next in silence, hence the look."""
    jax.config.update("jax_platforms", {"cpu": "cpu", "cuda": "cuda,cpu"}[device])
    try:
        found = jax.default_backend()
    except RuntimeError as e:
        found = str(e).splitlines()[0]
    if found != {"cpu": "cpu", "cuda": "gpu"}[device]:
        raise Unsupported(
            f"--device {device}: JAX finds no such device (no driver, no GPU, or a build without it: {found}); --device cpu runs"
        )


def load_model(workload: Workload, **arguments: Any) -> Any:
    """The task model KerasHub makes of the checkpoint folder, in the workload's precision, without a preprocessor."""
    configure(workload)
    kind = getattr(keras_hub.models, workload.config["classes"]["keras_hub"])
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    model = kind.from_preset(str(workload.checkpoint), preprocessor=None, dtype=dtype, **arguments)
    probe(dtype)  # compiled here, so that evidence compiles nothing
    return model


def probe(dtype: str) -> np.ndarray:
    a, b = (jnp.asarray(x.astype(jnp.dtype(dtype))) for x in precision.operands())
    return np.asarray(_product(a, b)).astype(np.float32)


def synchronise(model: Any) -> None:
    """A device runs its programs in order: the last one done, all are."""
    jax.block_until_ready([v.value for v in model.weights])


def evidence(model: Any, call: str, compiled: str) -> Evidence:
    """`compiled`: part of the name JAX gives the measured call's program; `graphs` are its compilations, one for each shape."""
    dtypes = sorted({keras.backend.standardize_dtype(v.dtype) for v in model.weights})
    product_error = precision.error(probe(dtypes[0]))
    return Evidence(
        graphs=sum(n for name, n in _compilations.items() if compiled in name),
        graph_breaks=None,
        precision=precision.classify(product_error) if len(dtypes) == 1 else "mixed",
        detail={
            "call": call,
            "jit_compile": bool(model.jit_compile),
            "compilations": sum(_compilations.values()),
            "programs": {name: n for name, n in sorted(_compilations.items()) if compiled in name},
            "parameter_dtypes": dtypes,
            "product_error": product_error,
            "matmul_precision": jax.config.jax_default_matmul_precision,
            "device": jax.devices()[0].device_kind,
            "keras": keras.__version__,
            "keras_hub": keras_hub.__version__,
            "jax": jax.__version__,
        },
    )
