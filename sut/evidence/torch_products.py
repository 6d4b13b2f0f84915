"""Finds out which library multiplies torch's matrices. oneDNN reports its products in its verbose
mode.

MKL has such a mode too. It is not used, because it measures the processor's clock first, which took
up to 0.9 s.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sut.evidence import matrix_library
from sut.evidence.matrix_library import UNKNOWN

_SIDE = 256  # torch computes smaller bfloat16 products with code of its own
# Number that `mkl_serv_cpu_detect` returns → instructions of the path that `mkl_blas_xsgemm`
# chooses (torch 2.13).
_MKL_PATHS = {3: "SSE4.2", 5: "AVX2", 7: "AVX-512"}
# The names that `preferred_blas_library` uses.
_CUDA = {"Default": "cuBLAS", "Cublas": "cuBLAS", "Cublaslt": "cuBLASLt"}
# Operators that always call one library.
_OWN = {"mkldnn::": "oneDNN", "mkl::": "MKL", "aten::mkldnn_linear": "oneDNN"}


def about(device: str, dtype: torch.dtype, operators: Mapping[str, int]) -> dict[str, Any]:
    """Return `matrix_library.fact` of the call, and the number of calls of each operator of its
    matrix products.

    Args:
        operators: these operators and their numbers, as the profiler counted them. The most
            frequent one decides: it calls one library, or the library that `linear` uses.
    """
    shown = {"operators": dict(operators)} if operators else {}
    if not device.startswith("cpu"):
        # Whatever is preferred, torch uses cuBLASLt for some products. Neither library reports its
        # instructions.
        preferred = str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2]
        return {**matrix_library.fact(_CUDA.get(preferred, preferred)), **shown}
    library, instructions = _of_linear(dtype)
    usual = matrix_library.most(operators)
    own = next((owner for start, owner in _OWN.items() if usual.startswith(start)), None)
    if usual.startswith("quantized::"):
        own = f"PyTorch's quantised engine {torch.backends.quantized.engine}"
    if own and own != library:
        library = own
        instructions = UNKNOWN
    return {**matrix_library.fact(library, instructions, torch.get_num_threads()), **shown}


@cache
def _of_linear(dtype: torch.dtype) -> tuple[str, str]:
    """Return (library, instructions) of `linear`. No error is raised, because no figure depends on
    it.
    """
    try:
        library, instructions = matrix_library.printed(_printed(dtype))
    except Exception:  # noqa: BLE001  a build of torch may lack anything
        return UNKNOWN, UNKNOWN
    if library == UNKNOWN and "BLAS_INFO=mkl" in torch.__config__.show():
        if dtype == torch.float32:
            return "MKL", _mkl_instructions()  # torch has no third library for float32
        if dtype in (torch.bfloat16, torch.float16):
            # Without AVX-512 oneDNN is not asked (ATen/native/CPUBlas.cpp, `gemm`).
            return "PyTorch's own kernels", UNKNOWN
    return library, instructions


def _printed(dtype: torch.dtype) -> str:
    """Return the lines that oneDNN writes to C's standard output about one product."""
    a = torch.ones((_SIDE, _SIDE), dtype=dtype)
    c = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as file, ExitStack() as stack:
        sys.stdout.flush()
        c.fflush(None)
        own = os.dup(1)
        stack.callback(os.close, own)
        os.dup2(file.fileno(), 1)
        stack.callback(os.dup2, own, 1)
        stack.callback(c.fflush, None)
        if torch.backends.mkldnn.is_available():
            stack.enter_context(torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON))
        with torch.no_grad():
            torch.nn.functional.linear(a, a)
        stack.close()
        file.seek(0)
        return file.read().decode(errors="replace")


def _mkl_instructions() -> str:
    """Return the instructions of MKL's products in float32.

    For AMD's processors with AVX2, MKL has separate kernels without wider instructions: in torch
    2.13 `mkl_blas_def_sgemm_kernel_0_zen` uses registers of 256 bits and none of 512.
    """
    with suppress(OSError, AttributeError):
        # The library is loaded already.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        if library.mkl_serv_cpuiszen():
            return "AVX2"
        return _MKL_PATHS.get(library.mkl_serv_cpu_detect(), UNKNOWN)
    return UNKNOWN
