"""Keras on JAX: XLA compiles every measured call; JAX itself tells each compilation, its profiler what runs."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import _profiler  # the public one writes its trace to files

from sut import precision
from sut.contract import Unsupported

EXECUTIONS = ("xla",)
_COMPILED = "/jax/core/compile/backend_compile_duration"
# Part of the name JAX gives the program of each measured call.
_PROGRAMS = {"predict_on_batch": "predict_step", "generate": "compiled_generate_function"}
# JAX's own names: its default for float32 products is tf32 on an NVIDIA GPU and bfloat16 on a TPU.
_MATMUL = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": "default"}
_RANK = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2, "default": 0, "tensorfloat32": 1, "highest": 2}  # XLA's names of them, then JAX's
_DOT = re.compile(r"stablehlo\.(?:dot_general|convolution)\b(.*) : \(tensor<([^>]*)>, tensor<([^>]*)>\)")
_PRECISION = re.compile(r"\b(DEFAULT|HIGH|HIGHEST)\b")
_RUN = re.compile(r"PjitFunction\((.+)\)")
_HANDED_OVER = "stage"  # the program that hands an array over to the device
_compilations: Counter[str] = Counter()
_products: Counter[tuple[str, str, str]] = Counter()  # (part of a program's name, dtype, precision) of each product of measured programs
_set_for_all: list[str] = []  # the precision, once configured; what JAX's configuration shows may be that of a context
_product = jax.jit(jnp.matmul)


def _count(event: str, duration: float, **attributes: Any) -> None:
    if event == _COMPILED:
        _compilations[str(attributes.get("fun_name"))] += 1
        _read_dumps(_dumps())


@cache
def _dumps() -> Path:
    """Where JAX writes what it compiles."""
    return Path(tempfile.mkdtemp(prefix="stablehlo-"))


def _read_dumps(folder: Path) -> None:
    """Read the dumps of what was compiled just now, and remove them: a worker may end without cleaning up."""
    for program in _PROGRAMS.values():
        for path in folder.glob(f"*_{program}_*"):
            for algorithm, *operands in _DOT.findall(path.read_text()):
                least = min(_PRECISION.findall(algorithm), key=_RANK.__getitem__, default="DEFAULT")
                _products[program, min((x.rpartition("x")[2] for x in operands), key=_bits), least] += 1
    shutil.rmtree(folder, ignore_errors=True)  # JAX makes it again


def _bits(dtype: str) -> int:
    """Bits of a dtype as StableHLO names it: f32, bf16, i8."""
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 0


@cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_count)


def configure(device: str, target: str) -> None:
    """What was counted before is forgotten: it was another model's."""
    jax.config.update("jax_default_matmul_precision", _MATMUL[target])
    _set_for_all[:] = [_MATMUL[target]]
    _compilations.clear()
    _products.clear()
    # StableHLO is the one place that shows dtype and precision of a program's products: in XLA's own a CPU's bfloat16 ones are float32.
    jax.config.update("jax_dump_ir_to", str(_dumps()))
    jax.config.update("jax_dump_ir_modes", "stablehlo")
    jax.config.update("jax_include_debug_info_in_dumps", False)
    _choose_device(device)
    _listen()


def _choose_device(device: str) -> None:
    """JAX's first platform becomes its default; without the plugin of one it goes on to the next in silence, hence the look."""
    jax.config.update("jax_platforms", {"cpu": "cpu", "cuda": "cuda,cpu"}[device])
    try:
        backend = jax.default_backend()
    except RuntimeError as e:
        backend = str(e).splitlines()[0]
    if backend != {"cpu": "cpu", "cuda": "gpu"}[device]:
        raise Unsupported(
            f"--device {device}: JAX finds no such device (no driver, no GPU, or a build without it: {backend}); --device cpu runs"
        )


def synchronise(model: Any) -> None:
    """A device runs its programs in order: the last one done, all are."""
    jax.block_until_ready([v.value for v in model.weights])


def product(dtype: str) -> np.ndarray:
    """A probe product in `dtype`, as float32."""
    a, b = (jnp.asarray(x.astype(jnp.dtype(dtype))) for x in precision.operands())
    return np.asarray(_product(a, b)).astype(np.float32)


def watch(model: Any, call: str, again: Callable[[], Any]) -> dict[str, Any]:
    """`graphs` and `xla_programs`: compilations of the measured call, one for each shape, as long as one more call really enters the
    program. `operators`: other programs that this call runs; one that is run eagerly, or with JAX's jit disabled, is made of them.
    """
    run = _run(model, again)
    program, runs = _PROGRAMS[call], sum(n for name, n in run.items() if _PROGRAMS[call] in name)
    programs = {name: n for name, n in sorted(_compilations.items()) if program in name}
    count = sum(programs.values()) if runs else 0
    return {
        "graphs": count,
        "xla_programs": count,
        "programs": programs,
        "programs_run": runs,
        "operators": sum(n for name, n in run.items() if program not in name and name != _HANDED_OVER),
        "compilations": sum(_compilations.values()),
        **_precisions(program),
    }


def _run(model: Any, again: Callable[[], Any]) -> Counter[str]:
    """Names of the programs one more call runs, as JAX's profiler sees them; of JAX's own events, which are the same on every device."""
    options = _profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level, options.raise_error_on_start_failure = 1, 0, True
    session = _profiler.ProfilerSession(options)
    again()
    synchronise(model)
    return Counter(_entered(session.stop_and_get_profile_data()))


def _entered(trace: Any) -> Iterator[str]:
    """JAX marks an entry twice, one event within the other."""
    for line in (line for plane in trace.planes for line in plane.lines):
        until = dict[str, float]()
        for event in sorted(line.events, key=lambda e: e.start_ns):
            match = _RUN.match(event.name)
            if match and event.start_ns >= until.get(match[1], 0.0):
                until[match[1]] = event.start_ns + event.duration_ns
                yield match[1]


def _precisions(program: str) -> dict[str, Any]:
    """Bits of the operands of the program's products → how many there are, of all its compilations; a loop's body counts once. One that
    is told a lower precision than `configure` set for all counts as the bits XLA may leave of it."""
    products = {(dtype, algorithm): n for (name, dtype, algorithm), n in _products.items() if name == program}
    bits: Counter[str] = Counter()
    for (dtype, algorithm), n in products.items():
        lower = _bits(dtype) == 32 and _RANK[algorithm] < _RANK[_set_for_all[0]]
        bits[str({"HIGH": 19, "DEFAULT": 16}[algorithm] if lower else _bits(dtype))] += n
    return {"product_bits": dict(sorted(bits.items())), "products": {" ".join(k): n for k, n in sorted(products.items())}}


def peak_device_bytes(device: str) -> int | None:
    """Most bytes held on the GPU; None on a CPU."""
    return int(jax.devices()[0].memory_stats()["peak_bytes_in_use"]) if device == "cuda" else None


def about() -> dict[str, Any]:
    """Versions, device and settings, for the evidence."""
    return {
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
    }
