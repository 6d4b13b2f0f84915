"""`python -m sut.native_torch.state_shapes CLASS CONFIG.json` prints the names and shapes of a
Transformers model's tensors, as JSON.

It needs no weights and no memory for them: the model is built on torch's meta device. Run it in the
environment of native torch and keep its output as `harness/inputs/models/<model>-<size>.json`. The
seeded checkpoint is drawn from that file by the model's rules. A tensor that every layer has is one
entry, with `{layer}` in its name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
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


def by_layer(tensors: Mapping[str, list[int]], layers: int) -> dict[str, list[int]]:
    """Return the names and shapes, with one entry for tensors of one shape in each of `layers`."""
    found: dict[str, list[list[int]]] = {}
    for name, shape in tensors.items():
        found.setdefault(_of_layer(name), []).append(shape)
    folded = {}
    for name, shape in tensors.items():
        each = found[_of_layer(name)]
        is_in_all = "{layer}" in _of_layer(name) and each == [shape] * layers
        folded[_of_layer(name) if is_in_all else name] = shape
    return folded


def _of_layer(name: str) -> str:
    """Return the name with `{layer}` for its first number."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "{layer}", name, count=1)


def main(name: str, config: Path) -> None:
    """Print the names and shapes as JSON, one a line, with their source."""
    document = json.loads(config.read_text(encoding="utf-8"))
    tensors = by_layer(shapes(name, document), document["num_hidden_layers"])
    source = f"transformers {transformers.__version__} {name}"
    lines = [f"  {json.dumps(key)}: {json.dumps(shape)}" for key, shape in tensors.items()]
    rows = ",\n".join(lines)
    sys.stdout.write(f'{{\n "source": {json.dumps(source)},\n "tensors": {{\n{rows}\n }}\n}}\n')


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
