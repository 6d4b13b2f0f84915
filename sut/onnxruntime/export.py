"""Exports a model of PyTorch to ONNX: `converted_models.run` runs this module.

The model is that of `native-torch-eager`. The folder gets model.onnx with its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sut import converted_models
from sut.contract import Unsupported, Workload
from sut.evidence import causes
from sut.registry import QUANTIZE, loader

_MODELS_OF = "native-torch-eager"


class Named(torch.nn.Module):
    """A model whose inputs are one dict, so that their names need not be written out."""

    def __init__(self, model: torch.nn.Module, answers: Callable[[Any], Any]):
        super().__init__()
        self.model = model
        self.answers = answers

    def forward(self, inputs: dict[str, torch.Tensor]) -> Any:
        return self.answers(self.model(**inputs))


def export(
    workload: Workload,
    folder: Path,
    architecture: str,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
) -> None:
    """Fill the folder. Raises Unsupported in the exporter's words.

    Args:
        shapes: name of an input → (its dtype, its shape).
        any_size: whether the batch, and the length of texts, may be of any size.
    """
    eager = replace(workload, execution="eager", options={}, settings={}, switches=())
    sut = loader(_MODELS_OF, architecture, workload.task)(eager)
    answers = getattr(sut, "answers", lambda outputs: outputs)
    save(Named(sut.model, answers).eval(), shapes, any_size, folder / "model.onnx")
    if QUANTIZE in workload.options:
        from sut.onnxruntime.quantize import quantize

        quantize(folder / "model.onnx")


def save(
    module: torch.nn.Module,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
    path: Path,
) -> None:
    """Export a module whose only argument is a dict of tensors. Raises Unsupported."""
    example = {name: _example(*each, any_size) for name, each in shapes.items()}
    dynamic = {name: _dynamic(tensor) for name, tensor in example.items()} if any_size else None
    with torch.no_grad():
        outputs = module(example)
        names = list(outputs) if isinstance(outputs, dict) else _numbered(outputs)
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
            raise Unsupported(f"torch.onnx.export does not export it: {_words(e)}") from e
    assert program is not None
    program.save(path)


def _example(dtype: str, shape: list[int], any_size: bool) -> torch.Tensor:
    """An input of this shape. A side of 1 would become a constant of the graph."""
    sides = [max(2, side) for side in shape[:2]] + shape[2:] if any_size else shape
    return torch.ones(sides, dtype=getattr(torch, dtype))


def _dynamic(tensor: torch.Tensor) -> dict[int, Any]:
    any_length = torch.export.Dim.DYNAMIC
    is_text = tensor.ndim == 2 and not tensor.is_floating_point()
    return {0: any_length, 1: any_length} if is_text else {0: any_length}


def _numbered(outputs: Any) -> list[str]:
    return [f"output_{number}" for number in range(len(outputs))]


def _words(error: BaseException) -> str:
    """The line of the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {causes.line(error)}"


if __name__ == "__main__":
    converted_models.converter(export)
