"""Converts a model to OpenVINO's format: `converted_models` runs this module.

The model is that of `native-torch-eager`. The folder gets model.xml with its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openvino
import torch

from sut import converted_models
from sut.contract import Unsupported, Workload
from sut.exported import modules, onnx_file
from sut.exported.modules import Shapes
from sut.registry import QUANTIZE

_KERAS_FILE = "keras_file"
_ANY = -1
_FAILS_WHEN_IT_RUNS = ("sam",)
"""Models whose exported program OpenVINO converts, and that fail when they run: in 2026.4.1 the
assignments of Segment Anything to elements that a mask chooses (`Eltwise shape infer input shapes
dim index: 1 mismatch`).
"""


def convert(workload: Workload, folder: Path, model: str, shapes: Shapes, any_size: bool) -> None:
    """Fill the folder. Raises Unsupported in OpenVINO's words.

    Args:
        model: an architecture, or a part of it (`stable_diffusion.unet`).
        any_size: whether the batch, and the length of texts, may be of any size.
    """
    if model == _KERAS_FILE:
        converted = _by_keras(workload, shapes, folder)
    else:
        module = modules.of(workload, model).eval()
        ways = [_by_file] if model in _FAILS_WHEN_IT_RUNS else [_exported, _by_file]
        converted = _of_torch(module, shapes, any_size, ways, folder / "model.onnx")
    if QUANTIZE in workload.options:
        from sut.openvino.quantize import quantize

        converted = quantize(converted, workload.options[QUANTIZE])
    openvino.save_model(converted, folder / "model.xml", compress_to_fp16=False)
    for each in folder.glob("model.onnx*"):
        each.unlink()


def _of_torch(
    module: torch.nn.Module,
    shapes: Shapes,
    any_size: bool,
    ways: Sequence[Callable[..., Any]],
    path: Path,
) -> Any:
    """OpenVINO's model of a module whose only argument is a dict of tensors, by the first of the
    ways that succeeds. Raises Unsupported in the words of the first one if none does.
    """
    errors = []
    for way in ways:
        try:
            return way(module, shapes, any_size, path)
        except Exception as e:  # noqa: BLE001, each library has errors of its own
            errors.append(e)
    raise Unsupported(f"OpenVINO does not convert it: {modules.words(errors[0])}") from errors[0]


def _exported(module: torch.nn.Module, shapes: Shapes, any_size: bool, _: Path) -> Any:
    """By an exported program of PyTorch."""
    inputs, sides, names = modules.traced(module, shapes, any_size)
    with torch.no_grad():
        program = torch.export.export(module, (inputs,), dynamic_shapes=sides)
    return _named(openvino.convert_model(program), shapes, names, any_size)


def _by_file(module: torch.nn.Module, shapes: Shapes, any_size: bool, path: Path) -> Any:
    """By a file of ONNX, which OpenVINO reads."""
    onnx_file.save(module, shapes, any_size, path)
    return openvino.convert_model(path)


def _named(converted: Any, shapes: Shapes, names: list[str], any_size: bool) -> Any:
    """The model with the names and the shapes of its inputs, and the names of its outputs."""
    for given, (name, (_, shape)) in zip(converted.inputs, shapes.items(), strict=True):
        given.get_tensor().set_names({name})
        given.get_node().set_partial_shape(openvino.PartialShape(_sides(shape, any_size)))
    for output, name in zip(converted.outputs, names, strict=True):
        output.get_tensor().set_names({name})
    converted.validate_nodes_and_infer_types()
    return converted


def _sides(shape: list[int], any_size: bool) -> list[int]:
    if not any_size:
        return shape
    return [_ANY, *(_ANY if len(shape) == 2 else side for side in shape[1:])]


def _by_keras(workload: Workload, shapes: Shapes, folder: Path) -> Any:
    """Keras' own export of a `.keras` file, for inputs of these shapes."""
    path = folder / "keras.xml"
    modules.export_by_keras(workload, shapes, path, "openvino")
    exported = openvino.Core().read_model(path)
    for given in exported.inputs:
        given.get_tensor().set_names({given.get_node().get_friendly_name()})
    for number, output in enumerate(exported.outputs):
        output.get_tensor().set_names({f"output_{number}"})
    return exported


if __name__ == "__main__":
    converted_models.converter(convert)
