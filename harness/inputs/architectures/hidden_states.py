"""The inputs of models without a head, which answer with hidden states: `input_ids`, int32
[samples, length], without padding.

A user's prompts are padded to one length, and an `attention_mask` of the same shape is added.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.errors import UsageError
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Counted,
    Description,
    Noted,
    UserFile,
    text,
)
from harness.inputs.models import Model, Size


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    return {"input_ids": text.random_ids(size, (samples, size.inputs["sequence_length"]), stream)}


def _read(given: UserFile) -> Noted:
    """Read a user's prompts, and replace the padding id by another one. Transformers' RoBERTa
    counts positions by that id, and KerasHub's does not. The mask marks padding. The tokenizer of
    bytes begins each prompt with that id.
    """
    arrays, notes = text.read_padded(given)
    padding = given.size.config.get("pad_token_id")
    if padding is None:
        return arrays, notes
    ids = arrays["input_ids"]
    is_text = (arrays["attention_mask"] == 1) & (ids != padding)
    replaced = np.where(is_text, ids, int(padding == 0)).astype(np.int32)
    return {**arrays, "input_ids": replaced}, notes


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    if "attention_mask" in arrays:
        return text.synthetic_of_padded(arrays, size, stream)
    return _synthetic(size, len(arrays["input_ids"]) + 1, stream), 1


def _describe(arrays: Arrays) -> Description:
    if "attention_mask" in arrays:
        return text.describe_tokens(arrays)
    rows, length = arrays["input_ids"].shape
    return Description(lengths=text.lengths(np.full(rows, length), length), seq_len=length)


def _with_sequence_length(model: Model, size: Size, length: int) -> Size:
    longest = text.positions(size.config)
    if length < 1:
        raise UsageError(f"--seq-len {length}: at least 1")
    if length > longest:
        raise UsageError(
            f"--seq-len {length}: {model.name} has positions for {longest} tokens, and no more"
        )
    return replace(size, inputs={**size.inputs, "sequence_length": length})


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    synthetic_like=_synthetic_like,
    describe=_describe,
    read=_read,
    with_sequence_length=_with_sequence_length,
    weights_inputs=text.weights_inputs,
    least_flops=text.least_flops,
    counts_most=True,
)
