"""Exports a model of PyTorch to ONNX: `converted_models.run` runs this module.

The model is that of `native-torch-eager`. The folder gets model.onnx with its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from sut import converted_models
from sut.contract import Unsupported, Workload
from sut.exported import modules
from sut.registry import QUANTIZE

_KERAS_FILE = "keras_file"


def export(
    workload: Workload,
    folder: Path,
    model: str,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
) -> None:
    """Fill the folder. Raises Unsupported in the exporter's words.

    Args:
        model: an architecture, or a part of it (`stable_diffusion.unet`).
        shapes: name of an input → (its dtype, its shape).
        any_size: whether the batch, and the length of texts, may be of any size.
    """
    path = folder / "model.onnx"
    if model == _KERAS_FILE:
        _export_by_keras(workload, shapes, path)
    else:
        save(modules.of(workload, model).eval(), shapes, any_size, path)
    if QUANTIZE in workload.options:
        from sut.onnxruntime.quantize import quantize

        quantize(path, workload.options[QUANTIZE])


def _export_by_keras(
    workload: Workload, shapes: Mapping[str, tuple[str, list[int]]], path: Path
) -> None:
    """Export a `.keras` file by Keras' own function. With PyTorch it knows no batch of any size."""
    import keras

    from sut import keras_archive

    model = keras_archive.load(workload)
    signature = {
        name: keras.InputSpec(shape=shape, dtype=dtype, name=name)
        for name, (dtype, shape) in shapes.items()
    }
    try:
        model.export(path, format="onnx", verbose=False, input_signature=[signature])
    except Exception as e:
        words = modules.words(e)
        raise Unsupported(f"Keras {keras.__version__} does not export the file: {words}") from e


def save(
    module: torch.nn.Module,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
    path: Path,
) -> None:
    """Export a module whose only argument is a dict of tensors. Raises Unsupported."""
    example = {name: modules.example(*each, any_size) for name, each in shapes.items()}
    dynamic = None
    if any_size:
        dynamic = {name: modules.dynamic(tensor) for name, tensor in example.items()}
    with torch.no_grad():
        outputs = module(example)
        names = list(outputs) if isinstance(outputs, dict) else modules.numbered(outputs)
        try:
            # A last dict would be taken for the arguments by name.
            program = torch.onnx.export(
                module,
                (example, {}),
                dynamo=True,
                dynamic_shapes=(dynamic,) if dynamic else None,
                input_names=list(example),
                output_names=names,
                verbose=False,
            )
        except Exception as e:
            raise Unsupported(f"torch.onnx.export does not export it: {modules.words(e)}") from e
    assert program is not None
    program.save(path)


if __name__ == "__main__":
    converted_models.converter(export)
