"""What compiled programs of OpenVINO report of themselves: the precision and the kernels of their
layers, their settings, and a probe product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import openvino
from openvino import opset16

from sut.evidence import matrix_library, matrix_rate, precision

PRECISION = "INFERENCE_PRECISION_HINT"
# Kinds of OpenVINO's layers that multiply matrices.
_PRODUCTS = (
    "FullyConnected",
    "MatMul",
    "Convolution",
    "Deconvolution",
    "ScaledDotProductAttention",
    "LSTMSequence",
    "LSTMCell",
    "GRUSequence",
    "GRUCell",
    "RNNSequence",
    "RNNCell",
)
_BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i8": 8, "u8": 8}
_WEIGHTS = ("i8", "u8", "i4", "u4")
_LIBRARIES = {"mlas": "MLAS", "acl": "ACL", "brg": "oneDNN", "jit": "oneDNN"}
_INSTRUCTIONS = {"amx": "AMX", "avx512": "AVX-512", "avx2": "AVX2", "sse42": "SSE4.2"}
_settings: dict[str, Any] = {}


def use(settings: Mapping[str, Any]) -> None:
    """From now on, compile the probe product with these settings."""
    _settings.clear()
    _settings.update(settings)


def product(dtype: str) -> np.ndarray:
    """Return a probe product in the precision of the model's program, as float32."""
    return np.asarray(_product(precision.operands()[0].shape[0])(precision.operands())[0])


@cache
def _product(side: int) -> Any:
    """A program that multiplies two matrices [side, side]."""
    a, b = (opset16.parameter([side, side], np.float32) for _ in range(2))
    model = openvino.Model([opset16.matmul(a, b, False, False)], [a, b])
    return openvino.compile_model(model, "CPU", _settings)


@cache
def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def multiply(side: int) -> Callable[[], object]:
        operands = [np.random.default_rng(0).random((side, side), np.float32) for _ in range(2)]
        program = _product(side)
        return lambda: program(operands)

    return matrix_rate.measure(multiply)


def about_product() -> dict[str, Any]:
    """Return `matrix_library.fact` of the probe product."""
    program = _product(precision.operands()[0].shape[0])
    return _matrix_products(program, _products(program))


def detail(program: Any) -> dict[str, Any]:
    """Return what a program reports of its products. `product_bits`: bits of the operands of its
    layers that multiply matrices → their number.
    """
    products = _products(program)
    bits = Counter(str(_bits(each)) for each in products)
    return {
        "matrix_products": _matrix_products(program, products),
        "product_bits": dict(sorted(bits.items())),
        "inference_precision": str(program.get_property(PRECISION)),
        "kernels": dict(Counter(each["primitiveType"] for each in products).most_common(8)),
    }


def _bits(product: Mapping[str, str]) -> int:
    """The bits of the operands of a product. If only its weights have fewer bits, OpenVINO reports
    their type as its precision, and the name of its kernel ends with that of the product.
    """
    reported = product["runtimePrecision"]
    if reported in _WEIGHTS:
        reported = product["primitiveType"].rpartition("_")[2]
    return _BITS.get(reported, 0)


def _products(program: Any) -> list[dict[str, str]]:
    """The facts about the layers of a compiled program that multiply matrices."""
    layers = [_facts(each) for each in program.get_runtime_model().get_ordered_ops()]
    return [each for each in layers if each["layerType"] in _PRODUCTS]


def _facts(operation: Any) -> dict[str, str]:
    """What OpenVINO reports of a layer of a compiled program: its kind, precision and kernel."""
    known = operation.get_rt_info()
    keys = ("layerType", "runtimePrecision", "primitiveType")
    return {key: str(known[key].value) if key in known else "" for key in keys}


def _matrix_products(program: Any, products: list[dict[str, str]]) -> dict[str, Any]:
    """Return `matrix_library.fact`, from the names of the kernels such as `brgemm_avx512_f32`."""
    kernels = [each["primitiveType"] for each in products]
    return matrix_library.fact(
        _usual(_LIBRARIES, kernels),
        _usual(_INSTRUCTIONS, kernels),
        int(program.get_property("INFERENCE_NUM_THREADS")),
    )


def _usual(names: Mapping[str, str], kernels: list[str]) -> str:
    """The name of most kernels, by the words that they contain."""
    counts = Counter[str]()
    for kernel in kernels:
        word = next((word for word in names if word in kernel), "")
        counts[names.get(word, matrix_library.UNKNOWN)] += 1
    return matrix_library.most(counts)


def peak_device_bytes(device: str) -> int | None:
    """Return None: a processor has no memory of its own."""
    return None


def about() -> dict[str, Any]:
    """Return versions, device and settings, for the evidence."""
    core = openvino.Core()
    return {
        "device": str(core.get_property("CPU", "FULL_DEVICE_NAME")),
        "openvino": openvino.get_version(),
        "default_precision": str(core.get_property("CPU", PRECISION)),
    }
