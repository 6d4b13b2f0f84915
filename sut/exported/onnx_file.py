"""Files of ONNX, which PyTorch's own exporter writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from sut.contract import Unsupported
from sut.exported import modules


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
