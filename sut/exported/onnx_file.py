"""Files of ONNX, which PyTorch's own exporter writes."""

from __future__ import annotations

from pathlib import Path

import torch

from sut.contract import Unsupported
from sut.exported import modules
from sut.exported.modules import Shapes


def save(module: torch.nn.Module, shapes: Shapes, any_size: bool, path: Path) -> None:
    """Export a module whose only argument is a dict of tensors. Raises Unsupported."""
    inputs, sides, names = modules.traced(module, shapes, any_size)
    try:
        with torch.no_grad():
            # A last dict would be taken for the arguments by name.
            program = torch.onnx.export(
                module,
                (inputs, {}),
                dynamo=True,
                dynamic_shapes=sides,
                input_names=list(inputs),
                output_names=names,
                verbose=False,
            )
    except Exception as e:
        raise Unsupported(f"torch.onnx.export does not export it: {modules.words(e)}") from e
    assert program is not None
    program.save(path)
