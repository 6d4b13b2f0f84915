"""The modules of PyTorch that are converted. They are the models of `native-torch-eager`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sut.contract import Unsupported, Workload
from sut.evidence import causes
from sut.registry import loader

_MODELS_OF = "native-torch-eager"
Shapes = Mapping[str, tuple[str, list[int]]]
"""Name of an input → (its dtype, its shape)."""


class Named(torch.nn.Module):
    """A model whose inputs are one dict, so that their names need not be written out."""

    def __init__(self, model: torch.nn.Module, answers: Callable[[Any], Any]):
        super().__init__()
        self.model = model
        self.answers = answers

    def forward(self, inputs: dict[str, torch.Tensor]) -> Any:
        return self.answers(self.model(**inputs))


def of(workload: Workload, model: str) -> torch.nn.Module:
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


def traced(
    module: torch.nn.Module, shapes: Shapes, any_size: bool
) -> tuple[dict[str, torch.Tensor], tuple[dict[str, dict[int, Any]]] | None, list[str]]:
    """Return inputs of a module, those of their sides that may have any size, and the names of its
    outputs.
    """
    inputs = {name: _example(*each, any_size) for name, each in shapes.items()}
    sides = {name: _dynamic(each) for name, each in inputs.items()}
    with torch.no_grad():
        outputs = module(inputs)
    if not isinstance(outputs, dict):
        outputs = {f"output_{number}": each for number, each in enumerate(outputs)}
    return inputs, (sides,) if any_size else None, list(outputs)


def _example(dtype: str, shape: list[int], any_size: bool) -> torch.Tensor:
    """An input of this shape. A side of 1 would become a constant of the graph."""
    sides = [max(2, side) for side in shape[:2]] + shape[2:] if any_size else shape
    return torch.ones(sides, dtype=getattr(torch, dtype))


def _dynamic(tensor: torch.Tensor) -> dict[int, Any]:
    """The sides of an input that may have any size."""
    any_length = torch.export.Dim.DYNAMIC
    is_text = tensor.ndim == 2 and not tensor.is_floating_point()
    return {0: any_length, 1: any_length} if is_text else {0: any_length}


def export_by_keras(workload: Workload, shapes: Shapes, path: Path, kind: str) -> None:
    """Write Keras' own export of a `.keras` file, for inputs of these shapes. `kind`: onnx or
    openvino. Raises Unsupported in Keras' words.
    """
    import keras

    from sut import keras_archive

    model = keras_archive.load(workload)
    signature = {
        name: keras.InputSpec(shape=shape, dtype=dtype, name=name)
        for name, (dtype, shape) in shapes.items()
    }
    try:
        model.export(str(path), format=kind, verbose=False, input_signature=[signature])
    except Exception as e:
        fault = words(e)
        raise Unsupported(f"Keras {keras.__version__} does not export the file: {fault}") from e


def words(error: BaseException) -> str:
    """The line of the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {causes.line(error)}"
