"""Which library multiplies torch's matrices. oneDNN reports its products itself, in its verbose
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

_SIDE = 256  # torch hands smaller bfloat16 products to code of its own
# Of the paths among which `mkl_blas_xsgemm` chooses (torch 2.13), by the number that
# `mkl_serv_cpu_detect` returns.
_MKL_PATHS = {3: "SSE4.2", 5: "AVX2", 7: "AVX-512"}
# As `preferred_blas_library` names them.
_CUDA = {"Default": "cuBLAS", "Cublas": "cuBLAS", "Cublaslt": "cuBLASLt"}
# Operators that call one library, whatever torch would choose.
_OWN = {"mkldnn::": "oneDNN", "mkl::": "MKL"}


def about(device: str, dtype: torch.dtype, operators: Mapping[str, int]) -> dict[str, Any]:
    """See `matrix_library.fact`; with the operators of the call's matrix products and how many of
    each there were.

    Args:
        operators: the same, as the profiler saw them. Most of them decide: they call one library,
            or the one that `linear` takes.
    """
    shown = {"operators": dict(operators)} if operators else {}
    if not device.startswith("cpu"):
        # Whatever is preferred, torch takes cuBLASLt for some products. Neither reports its
        # instructions.
        preferred = str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2]
        return {**matrix_library.fact(_CUDA.get(preferred, preferred)), **shown}
    library, instructions = _of_linear(dtype)
    if own := _OWN.get(f"{matrix_library.most(operators).partition('::')[0]}::"):
        instructions = instructions if own == library else UNKNOWN
        library = own
    return {**matrix_library.fact(library, instructions, torch.get_num_threads()), **shown}


@cache
def _of_linear(dtype: torch.dtype) -> tuple[str, str]:
    """(library, instructions) of `linear`. It may not fail, for no figure depends on it."""
    try:
        library, instructions = matrix_library.printed(_printed(dtype))
    except Exception:  # noqa: BLE001  whatever a build of torch lacks
        return UNKNOWN, UNKNOWN
    if library == UNKNOWN and dtype == torch.float32 and "BLAS_INFO=mkl" in torch.__config__.show():
        return "MKL", _mkl_instructions()  # torch has no third library for float32
    return library, instructions


def _printed(dtype: torch.dtype) -> str:
    """The lines that oneDNN writes to C's standard output about one product."""
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
    """The instructions of MKL's products in float32.

    For AMD's processors with AVX2 it has kernels of their own. They have no wider instructions: in
    torch 2.13 `mkl_blas_def_sgemm_kernel_0_zen` uses registers of 256 bits and none of 512.
    """
    with suppress(OSError, AttributeError):
        # Loaded already.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        if library.mkl_serv_cpuiszen():
            return "AVX2"
        return _MKL_PATHS.get(library.mkl_serv_cpu_detect(), UNKNOWN)
    return UNKNOWN
