"""The inputs for training a language model: `input_ids`, `attention_mask` and `label`, int32
[samples, length].

`label` is the token that follows each one. If none follows it is NO_LABEL, which counts in no loss.
"""

from __future__ import annotations

import math

import numpy as np

from harness.errors import UsageError
from harness.inputs.architectures import Architecture, Arrays, Noted, UserFile, text
from harness.inputs.models import Size

NO_LABEL = -100
"""The number in Transformers and PyTorch."""


def _labelled(arrays: Arrays) -> Arrays:
    """Add the `label`."""
    ids = arrays["input_ids"]
    is_token = arrays["attention_mask"] == 1
    label = np.full_like(ids, NO_LABEL)
    np.copyto(label[:, :-1], ids[:, 1:], where=is_token[:, 1:])
    return {**arrays, "label": label}


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    length = int(size.inputs.get("sequence_length") or size.inputs["trained_tokens"])
    ids = text.random_ids(size, (samples, length), stream)
    return _labelled({"input_ids": ids, "attention_mask": np.ones_like(ids)})


def _read(given: UserFile) -> Noted:
    prompts, unused = given.prompts()
    if any(prompt.max_new_tokens is not None for prompt in prompts):
        unused = (
            *unused,
            f"max_new_tokens of {given.path.name} is ignored: a training generates no tokens",
        )
    arrays, notes = text.of_one_length(given, prompts, unused, closing=False)
    for prompt, length in zip(prompts, arrays["attention_mask"].sum(1), strict=True):
        if length < 2:
            raise UsageError(
                f"{given.path}:{prompt.line}: the prompt has one token: {given.model.name} is"
                " trained on the tokens that follow others"
            )
    return _labelled(arrays), notes


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight of the layers and of the head, and each token."""
    matrices = [t.shape for t in size.tensors if len(t.shape) == 2 and ".layers." in t.name]
    layers = sum(map(math.prod, matrices))
    head = size.config["vocab_size"] * size.config["hidden_size"]
    tokens = float(arrays["attention_mask"].sum(1).mean())
    return 2.0 * (layers + head) * tokens


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    least_flops=_least_flops,
    describe=text.describe_padded,
    read=_read,
    with_sequence_length=text.with_sequence_length,
)
