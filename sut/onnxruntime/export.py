"""Exports a model of PyTorch to ONNX: `converted_models.run` runs this module.

The model is that of `native-torch-eager`. The folder gets model.onnx with its data.
"""

from __future__ import annotations

from pathlib import Path

from sut import converted_models
from sut.contract import Workload
from sut.exported import modules, onnx_file
from sut.exported.modules import Shapes
from sut.registry import QUANTIZE

_KERAS_FILE = "keras_file"


def export(workload: Workload, folder: Path, model: str, shapes: Shapes, any_size: bool) -> None:
    """Fill the folder. Raises Unsupported in the exporter's words.

    Args:
        model: an architecture, or a part of it (`stable_diffusion.unet`).
        any_size: whether the batch, and the length of texts, may be of any size.
    """
    path = folder / "model.onnx"
    # With PyTorch, Keras' own export knows no batch of any size.
    if model == _KERAS_FILE:
        modules.export_by_keras(workload, shapes, path, "onnx")
    else:
        onnx_file.save(modules.of(workload, model).eval(), shapes, any_size, path)
    if QUANTIZE in workload.options:
        from sut.onnxruntime.quantize import quantize

        quantize(path, workload.options[QUANTIZE])


if __name__ == "__main__":
    converted_models.converter(export)
