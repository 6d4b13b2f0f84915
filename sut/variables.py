"""Environment variables that change what a framework runs. They are refused, or they are part of
the cell. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sut.devices import DEVICES, HOST
from sut.registry import SUTS, SutSpec

_EXECUTION = "it changes which execution runs, and the cell would still name the other one"
_PRECISION = (
    "it changes the precision of matrix products, and the cell would still name the other one"
)

REFUSED: Mapping[str, str] = {
    "TF_XLA_FLAGS": _EXECUTION,
    "TF_FUNCTION_JIT_COMPILE_DEFAULT": _EXECUTION,
    "TF_RUN_EAGER_OP_AS_FUNCTION": _EXECUTION,
    "TF_ENABLE_AUTO_MIXED_PRECISION.*": _PRECISION,
    "TF_AUTO_MIXED_PRECISION.*": _PRECISION,
    "TF_SET_ONEDNN_FPMATH_MODE": _PRECISION,
    "ONEDNN_DEFAULT_FPMATH_MODE": _PRECISION,
    "DNNL_DEFAULT_FPMATH_MODE": _PRECISION,
    "NVIDIA_TF32_OVERRIDE": _PRECISION,
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": _PRECISION,
    "TORCH_COMPILE_DISABLE": _EXECUTION,
    "TORCHDYNAMO_DISABLE": _EXECUTION,
    "TORCH_COMPILE_DEBUG": _EXECUTION,
    "TORCHDYNAMO_SUPPRESS_ERRORS": _EXECUTION,
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "it lets a file of weights run code",
    "PYTORCH_JIT": _EXECUTION,
    "JAX_DISABLE_JIT": _EXECUTION,
    "JAX_DISABLE_MOST_OPTIMIZATIONS": _EXECUTION,
    "JAX_ENABLE_X64": _PRECISION,
    "JAX_DEFAULT_MATMUL_PRECISION": _PRECISION,
    "JAX_NUMPY_DTYPE_PROMOTION": _PRECISION,
    "KERAS_FLOATX": _PRECISION,
}
"""Name, as a regular expression → why it is refused. Only `--precision` sets the precision."""

# Variables that choose folders, logs, or one of several equal cards do not make another cell.
_NO_CELL = re.compile(
    r"TF_CPP_|TORCH_LOGS|TORCH_TRACE|TORCH_HOME|\w*CACHE\w*|\w*_DIR$|\w*HOME$|\w*VERBOSE\w*|\w*LOG\w*|\w*VISIBLE_DEVICES|"
    r"CUDA_DEVICE_ORDER|CUDA_PATH|CUDA_VERSION|NVIDIA_(?!TF32)|KERAS_BACKEND|MKL_INTERFACE_LAYER"
)


_THREADS = re.compile(r"^\w*NUM_THREADS=|^OMP_THREAD_LIMIT=|^TF_NUM_INT|^NPROC=|^XLA.*thread")


def read_by_any(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that any framework or device here reads, by name."""
    words: list[str] = []
    for device in DEVICES.values():
        words += device.variables
    for spec in SUTS.values():
        words += spec.variables
    return _starting(words, environment)


def refusal(spec: SutSpec, device: str, environment: Mapping[str, str]) -> str | None:
    """Return a sentence about the first variable that this SUT must not run with. None: there is
    none. An empty variable counts as not set.
    """
    for name, value in _read(spec, device, environment).items():
        for pattern, why in REFUSED.items():
            if value and re.fullmatch(pattern, name):
                return f"{name}={value} is set in the environment: {why}; unset it"
    return None


def of_cell(spec: SutSpec, device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may change this SUT's figures, by name. They are part of its cell.
    Variables that the SUT sets itself are left out.
    """
    return {
        name: value
        for name, value in _read(spec, device, environment).items()
        if value and name not in spec.process_env and not _NO_CELL.match(name)
    }


def of_threads(environment: Mapping[str, str]) -> list[str]:
    """Return the `NAME=VALUE` of the variables that set a number of threads."""
    texts = [f"{name}={value}" for name, value in environment.items()]
    return [text for text in texts if _THREADS.search(text)]


def _read(spec: SutSpec, device: str, environment: Mapping[str, str]) -> dict[str, str]:
    words = (*spec.variables, *DEVICES[HOST].variables, *DEVICES[device].variables)
    return _starting(words, environment)


def _starting(words: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names start with one of these regular expressions and `_`, or are one
    that ends with `$`, and LD_PRELOAD.
    """
    ends = [word if word.endswith("$") else f"{word}_" for word in ("LD_PRELOAD$", *words)]
    name_read = re.compile("|".join(dict.fromkeys(ends)))
    return {name: value for name, value in sorted(environment.items()) if name_read.match(name)}


def keeping_kernels(folder: Path) -> dict[str, str]:
    """The variables by which JAX and torch keep all programs that they compile in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
