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
_KERAS_FILE = "keras_file"


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
        save(_module(workload, model).eval(), shapes, any_size, path)
    if QUANTIZE in workload.options:
        from sut.onnxruntime.quantize import quantize

        quantize(path, workload.options[QUANTIZE])


def _module(workload: Workload, model: str) -> torch.nn.Module:
    """The module whose only argument is a dict of tensors."""
    architecture, _, part = model.partition(".")
    eager = replace(workload, execution="eager", options={}, settings={}, switches=())
    sut = loader(_MODELS_OF, architecture, workload.task)(eager)
    if part:
        return Named(*_PARTS[part](sut.pipeline))
    return Named(sut.model, getattr(sut, "answers", lambda outputs: outputs))


def _decoder(pipeline: Any) -> tuple[torch.nn.Module, Callable[[Any], Any]]:
    """diffusers' decoder, and the pixels from its images."""
    vae = pipeline.vae
    scaling = vae.config.scaling_factor

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vae = vae

        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            image: torch.Tensor = self.vae.decode(latents / scaling, return_dict=False)[0]
            return image

    def pixels(image: torch.Tensor) -> dict[str, torch.Tensor]:
        scaled = (image / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1) * 255
        return {"image": scaled.round().to(torch.uint8)}

    return Decoder(), pixels


_PARTS: dict[str, Callable[[Any], tuple[torch.nn.Module, Callable[[Any], Any]]]] = {
    "text_encoder": lambda pipeline: (
        pipeline.text_encoder,
        lambda outputs: {"hidden": outputs.last_hidden_state},
    ),
    "unet": lambda pipeline: (pipeline.unet, lambda outputs: {"noise": outputs.sample}),
    "decoder": _decoder,
}
"""Part of Stable Diffusion → (its module, its outputs → its answers)."""


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
        words = _words(e)
        raise Unsupported(f"Keras {keras.__version__} does not export the file: {words}") from e


def save(
    module: torch.nn.Module,
    shapes: Mapping[str, tuple[str, list[int]]],
    any_size: bool,
    path: Path,
) -> None:
    """Export a module whose only argument is a dict of tensors. Raises Unsupported."""
    example = {name: _example(*each, any_size) for name, each in shapes.items()}
    dynamic = None
    if any_size:
        dynamic = {name: _dynamic(tensor) for name, tensor in example.items()}
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
    if any_size:
        shape = [max(2, side) for side in shape[:2]] + shape[2:]
    return torch.ones(shape, dtype=getattr(torch, dtype))


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
