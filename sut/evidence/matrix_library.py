"""Finds out which library multiplies a framework's matrices, with which instructions and how many
threads. Standard library only.

Each function reads what a framework or a library reported. `UNKNOWN` is the value of a fact that
none of them reports.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"
_NARROWER = ("AVX2", "AVX", "SSE4.2")  # than AVX-512, as this module names them
_TASKS = Path("/proc/self/task")
_ONEDNN_CALL = re.compile(r"onednn_verbose,.*exec,cpu,(?:matmul|inner_product),([^,]+),")
_INSTRUCTIONS = {
    "amx": "AMX",
    "avx10": "AVX10",
    "avx512": "AVX-512",
    "avx2": "AVX2",
    "avx": "AVX",
    "sse41": "SSE4.1",
}
_OF_XLA = {  # how the names of XLA's fusions and custom calls begin
    "__ynn_fusion": "YNNPACK",
    "__xnn_fusion": "XNNPACK",
    "__onednn$matmul": "oneDNN",
    "__cublas$": "cuBLAS",
    "__triton": "Triton",
}
_COMPUTATION = re.compile(r"(?:ENTRY )?%([\w.-]+) \(.*\{$")
_FUSION = re.compile(r'calls=%([\w.-]+).*"kind":"(__\w+)"')
_TARGET = re.compile(r'custom_call_target="(__[\w$]+)"')


def fact(
    library: str = UNKNOWN, instructions: str = UNKNOWN, threads: int | None = None
) -> dict[str, Any]:
    """Return the value of `matrix_products` in `Evidence.detail`. None or 0 `threads` become
    "unknown".
    """
    return {"library": library, "instructions": instructions, "threads": threads or UNKNOWN}


def unused_avx512(products: Mapping[str, Any], processor: str, flags: Container[str]) -> str:
    """Return the narrower instructions that MKL used although an AMD processor has AVX-512. Empty
    in all other cases.

    Args:
        products: a `fact`.
        processor, flags: the processor's name and features, as Linux reports them in /proc/cpuinfo.
    """
    narrow = products.get("library") == "MKL" and products.get("instructions") in _NARROWER
    if not narrow or not processor.startswith("AMD") or "avx512f" not in flags:
        return ""
    return str(products["instructions"])


def printed(text: str) -> tuple[str, str]:
    """Return (library, instructions) of a product, from the lines that oneDNN prints in its verbose
    mode. Both are unknown if it printed none.
    """
    call = _ONEDNN_CALL.search(text)
    if call is None:
        return UNKNOWN, UNKNOWN
    for word, name in _INSTRUCTIONS.items():
        if word in call[1]:
            return "oneDNN", name
    return "oneDNN", UNKNOWN


def of_hlo(text: str) -> Counter[str]:
    """Return library → number of a program's matrix products that it computes, from the text of the
    program that XLA compiled.

    A plain `dot` counts as unknown: XLA chooses its library after it writes this text. (TensorFlow
    2.21 shows a plain `dot`, and a profile of its process shows kernels of YNNPACK.)
    """
    kinds = {found[1]: found[2] for found in _FUSION.finditer(text)}
    products = Counter[str]()
    computation = ""
    for line in text.splitlines():
        header = _COMPUTATION.match(line)
        target = _TARGET.search(line)
        if header:
            computation = header[1]
        elif " dot(" in line:
            products[_library(kinds.get(computation, ""))] += 1
        elif target and _library(target[1]) != UNKNOWN:
            products[_library(target[1])] += 1
    return products


def most(products: Mapping[str, int]) -> str:
    """Return the library of most products."""
    return max(products, key=lambda name: products[name], default=UNKNOWN)


def pool(name: str) -> int:
    """Return how many threads of this process have names that begin with `name`."""
    count = 0
    for task in _TASKS.glob("*/comm"):
        try:
            count += task.read_text(encoding="utf-8").startswith(name)
        except OSError:  # the thread has ended meanwhile
            continue
    return count


def processors() -> int | None:
    """Return how many processors this process may use. None if the system does not report it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _library(name: str) -> str:
    """The library of a fusion or a custom call, by the beginning of its name."""
    for beginning, library in _OF_XLA.items():
        if name.startswith(beginning):
            return library
    return UNKNOWN
