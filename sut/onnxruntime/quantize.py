"""Quantises a model's file by ONNX Runtime's own tool."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from formats.cell import INT8
from sut.contract import Unsupported


def quantize(path: Path, kind: str) -> None:
    """Replace a float32 file by one with weights of 8 bits, whose products have activations of 8
    bits, too.

    The weights are unsigned, with a scale for each column. With signed weights, the tool's default,
    answers of BERT at size tiny were 0.33 standard deviations off on a processor without VNNI, and
    are 0.13 now. Sums of two products may saturate at 16 bits there (the tool's documentation on
    AVX2); that this is the cause was not shown.

    The types of inner values are removed: with those of PyTorch's exporter the tool refuses
    products whose matrix is not square (InferenceError, 1.31.1). Raises Unsupported for
    another kind than int8.
    """
    if kind != INT8:
        raise Unsupported(f"quantize_dynamic of ONNX Runtime makes no {kind}: take {INT8}")
    model = onnx.load(path)
    del model.graph.value_info[:]
    whole = path.with_name("float32.onnx")
    data = f"{whole.name}.data"
    onnx.save(model, whole, save_as_external_data=True, location=data)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    quantize_dynamic(
        whole,
        path,
        weight_type=QuantType.QUInt8,
        per_channel=True,
        use_external_data_format=True,
    )
    whole.unlink()
    (path.parent / data).unlink()
