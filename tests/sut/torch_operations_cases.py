"""Runs in PyTorch's environment: counts the operations of attention, and reads Inductor's code.

`python -m tests.sut.torch_operations_cases SPEC.json` writes "operations.json" next to SPEC.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from sut.evidence import torch_operations
from sut.evidence.torch_timeline import products_in

# The shape of a module that Inductor wrote. A product and another kernel may have equal names.
CODE = """
cpp_fused_add_addmm_view_2 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* in_out_ptr0)
''')

cpp_fused_addmm_gelu_view_3 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
inline void kernel_micro_gemm(const float* A)
extern "C" void kernel(const float* X, float* Y)
''')

async_compile.wait(globals())
        cpp_fused_add_addmm_view_2(buf0)
"""


def main(specification: Path) -> None:
    found = {
        "forward": torch_operations.by_operator(lambda window: attend(window, False)),
        "training": torch_operations.by_operator(lambda window: attend(window, True)),
        "products": sorted(products_in(CODE)),
    }
    (specification.parent / "operations.json").write_text(json.dumps(found))


def attend(window: Any, trains: bool) -> None:
    query, key, value = (torch.ones(2, 8, 16, 4, requires_grad=trains) for _ in range(3))
    with window():
        answer = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        if trains:
            answer.sum().backward()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
