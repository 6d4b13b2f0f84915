"""The inputs of models without a head, which answer hidden states: `input_ids`, int32 [samples, length], without padding."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from harness.errors import UsageError
from harness.inputs.families import Arrays, Description, Family, text
from harness.inputs.models import Model, Size


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    return {"input_ids": text.random_ids(size, (samples, size.inputs["sequence_length"]), stream)}


def _describe(arrays: Arrays) -> Description:
    length = arrays["input_ids"].shape[1]
    return Description(lengths={"shortest": length, "longest": length, "padded_to": length}, seq_len=length)


def _with_sequence_length(model: Model, size: Size, length: int) -> Size:
    longest = size.inputs.get("longest", math.inf)  # none where positions are relative
    if length < 1:
        raise UsageError(f"--seq-len {length}: at least 1")
    if length > longest:
        raise UsageError(f"--seq-len {length}: {model.name} has positions for {longest} tokens, and no more")
    return replace(size, inputs={**size.inputs, "sequence_length": length})


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two for each weight of the layers' plain matrices and each token."""
    layers = sum(math.prod(t.shape) for t in size.tensors if len(t.shape) == 2 and re.search(r"\.\d+\.", t.name))
    return 2.0 * layers * arrays["input_ids"].shape[1]


FAMILY = Family(synthetic=_synthetic, describe=_describe, with_sequence_length=_with_sequence_length, least_flops=_least_flops)
