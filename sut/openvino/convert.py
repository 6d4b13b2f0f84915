"""Converts a model to OpenVINO's format: `converted_models` runs this module.

The model is that of `native-torch-eager`. The folder gets model.xml with its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openvino
import torch

from sut import converted_models
from sut.contract import Unsupported, Workload
from sut.exported import modules
from sut.registry import QUANTIZE

_KERAS_FILE = "keras_file"
_ANY = -1


def convert(
    workload: Workload,
    folder: Path,
    model: str,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
) -> None:
    """Fill the folder. Raises Unsupported in OpenVINO's words.

    Args:
        model: an architecture, or a part of it (`stable_diffusion.unet`).
        shapes: name of an input → (its dtype, its shape).
        any_size: whether the batch, and the length of texts, may be of any size.
    """
    if model == _KERAS_FILE:
        converted = _by_keras(workload, shapes, folder)
    else:
        converted = _of_torch(modules.of(workload, model).eval(), shapes, any_size)
    if QUANTIZE in workload.options:
        from sut.openvino.quantize import quantize

        converted = quantize(converted, workload.options[QUANTIZE])
    openvino.save_model(converted, folder / "model.xml", compress_to_fp16=False)


class _Ordered(torch.nn.Module):
    """A module whose inputs and outputs are tensors in an order, as a trace requires."""

    def __init__(self, module: torch.nn.Module, names: list[str]):
        super().__init__()
        self.module = module
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.module(dict(zip(self.names, inputs, strict=True)))
        return tuple(outputs.values()) if isinstance(outputs, dict) else tuple(outputs)


def _of_torch(
    module: torch.nn.Module, shapes: Mapping[str, tuple[str, list[int]]], any_size: bool
) -> Any:
    """OpenVINO's model of a module whose only argument is a dict of tensors. Raises Unsupported if
    OpenVINO takes neither an exported program nor a trace.

    Traces of BERT fail with Transformers 5.5 (IndexError in the masks), and exported programs of
    Segment Anything in OpenVINO (assignments to elements that a mask chooses).
    """
    example = {name: modules.example(*each, any_size) for name, each in shapes.items()}
    with torch.no_grad():
        outputs = module(example)
        names = list(outputs) if isinstance(outputs, dict) else modules.numbered(outputs)
        errors = []
        for way in (_exported, _traced):
            try:
                return _named(way(module, example, any_size), shapes, names, any_size)
            except Exception as e:  # noqa: BLE001, each library has errors of its own
                errors.append(e)
    raise Unsupported(f"OpenVINO does not convert it: {modules.words(errors[0])}") from errors[0]


def _exported(module: torch.nn.Module, example: dict[str, torch.Tensor], any_size: bool) -> Any:
    dynamic = ({name: modules.dynamic(each) for name, each in example.items()},)
    program = torch.export.export(module, (example,), dynamic_shapes=dynamic if any_size else None)
    return openvino.convert_model(program)


def _traced(module: torch.nn.Module, example: dict[str, torch.Tensor], any_size: bool) -> Any:
    inputs = tuple(example.values())
    traced = torch.jit.trace(
        _Ordered(module, list(example)), inputs, strict=False, check_trace=False
    )
    return openvino.convert_model(traced, example_input=inputs)


def _named(
    converted: Any, shapes: Mapping[str, tuple[str, list[int]]], names: list[str], any_size: bool
) -> Any:
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


def _by_keras(workload: Workload, shapes: Mapping[str, tuple[str, list[int]]], folder: Path) -> Any:
    """Keras' own export of a `.keras` file, for inputs of these shapes."""
    import keras

    from sut import keras_archive

    model = keras_archive.load(workload)
    signature = {
        name: keras.InputSpec(shape=shape, dtype=dtype, name=name)
        for name, (dtype, shape) in shapes.items()
    }
    path = folder / "keras.xml"
    try:
        model.export(str(path), format="openvino", verbose=False, input_signature=[signature])
    except Exception as e:
        words = modules.words(e)
        raise Unsupported(f"Keras {keras.__version__} does not export the file: {words}") from e
    exported = openvino.Core().read_model(path)
    for given in exported.inputs:
        given.get_tensor().set_names({given.get_node().get_friendly_name()})
    for number, output in enumerate(exported.outputs):
        output.get_tensor().set_names({f"output_{number}"})
    return exported


if __name__ == "__main__":
    converted_models.converter(convert)
