"""Which library multiplies torch's matrices. MKL and oneDNN report it themselves, in their verbose modes."""

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

from sut import matrix_library
from sut.matrix_library import UNKNOWN

_SIDE = 256  # torch hands smaller bfloat16 products to code of its own
_OWN = {"mkldnn::": "oneDNN", "mkl::": "MKL"}  # operators that call one library, whatever torch would choose


def about(device: str, dtype: torch.dtype, operators: Mapping[str, int]) -> dict[str, Any]:
    """See `matrix_library.fact`; with the operators of the call's matrix products and how many of each there were.

    Args:
        operators: the same, as the profiler saw them. Most of them decide: they call one library, or the one that `linear` takes.
    """
    shown = {"operators": dict(operators)} if operators else {}
    if not device.startswith("cpu"):
        # "Default" is cuBLAS or cuBLASLt, call by call. Neither reports its instructions.
        return {**matrix_library.fact(str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2]), **shown}
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
    if library == "MKL" and instructions == UNKNOWN and _takes_zen_kernels():
        instructions = "AVX2"
    return library, instructions


def _printed(dtype: torch.dtype) -> str:
    """The lines that MKL and oneDNN write to C's standard output about one product."""
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
        if torch.backends.mkl.is_available():
            stack.enter_context(torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON))
        if torch.backends.mkldnn.is_available():
            stack.enter_context(torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON))
        with torch.no_grad():
            torch.nn.functional.linear(a, a)
        stack.close()
        file.seek(0)
        return file.read().decode(errors="replace")


def _takes_zen_kernels() -> bool:
    """Whether MKL takes the kernels that it has for AMD's processors with AVX2.

    They have no wider instructions: in torch 2.13 `mkl_blas_def_sgemm_kernel_0_zen` uses registers of 256 bits and none of 512.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))  # loaded already
        return bool(library.mkl_serv_cpuiszen())
    return False
