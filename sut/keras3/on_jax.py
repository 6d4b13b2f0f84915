"""Keras on JAX: XLA compiles every measured call; JAX itself tells each compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sut import precision
from sut.contract import Unsupported

EXECUTIONS = ("xla",)
_COMPILED = "/jax/core/compile/backend_compile_duration"
# Part of the name JAX gives the program of each measured call.
_PROGRAMS = {"predict_on_batch": "predict_step", "generate": "compiled_generate_function"}
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


def configure(device: str, wanted: str) -> None:
    jax.config.update("jax_default_matmul_precision", _MATMUL[wanted])
    _choose_device(device)
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


def synchronise(model: Any) -> None:
    """A device runs its programs in order: the last one done, all are."""
    jax.block_until_ready([v.value for v in model.weights])


def product(dtype: str) -> np.ndarray:
    a, b = (jnp.asarray(x.astype(jnp.dtype(dtype))) for x in precision.operands())
    return np.asarray(_product(a, b)).astype(np.float32)


def watch(model: Any, call: str, again: Callable[[], Any]) -> dict[str, Any]:
    """`graphs` and `xla_programs`: compilations of the measured call, one for each shape; nothing is called for it."""
    programs = {name: n for name, n in sorted(_compilations.items()) if _PROGRAMS[call] in name}
    count = 0 if jax.config.jax_disable_jit else sum(programs.values())
    return {"graphs": count, "xla_programs": count, "programs": programs, "compilations": sum(_compilations.values())}


def peak_device_bytes(device: str) -> int | None:
    return int(jax.devices()[0].memory_stats()["peak_bytes_in_use"]) if device == "cuda" else None


def about() -> dict[str, Any]:
    return {
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
    }
