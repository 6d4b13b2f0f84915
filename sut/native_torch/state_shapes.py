"""`python -m sut.native_torch.state_shapes CLASS CONFIG.json` prints the names and shapes of a
Transformers model's tensors, as JSON.

It needs no weights and no memory for them: the model is built on torch's meta device. Run it in the
environment of native torch and keep its output as `harness/inputs/models/<model>-<size>.json`. The
seeded checkpoint is drawn from that file by the model's rules.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers


def shapes(name: str, config: dict[str, object]) -> dict[str, list[int]]:
    """Return name → shape of every parameter of the class, in the order of its state dict. Buffers
    are left out, because they are computed.
    """
    kind = getattr(transformers, name)
    with torch.device("meta"):
        model = kind(kind.config_class(**config))
    parameters = {key for key, _ in model.named_parameters()}
    return {
        key: list(value.shape) for key, value in model.state_dict().items() if key in parameters
    }


def main(name: str, config: Path) -> None:
    """Print the names and shapes as JSON, with their source."""
    tensors = shapes(name, json.loads(config.read_text(encoding="utf-8")))
    source = f"transformers {transformers.__version__} {name}"
    sys.stdout.write(json.dumps({"source": source, "tensors": tensors}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
