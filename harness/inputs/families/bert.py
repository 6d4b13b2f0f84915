"""BERT's inputs: `input_ids` and `attention_mask`, int32 [samples, length], padded to one length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.inputs import tokenizer
from harness.inputs.families import Arrays, Dataset, Description, Family, text
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer

# Prompts are padded to a multiple of this, for every SUT alike, so that their cells can be compared: compiled ones are slow at odd lengths.
_WIDTH = 8


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    ids = text.random_ids(size, (samples, size.inputs["sequence_length"]), stream)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _labels(size: Size, arrays: Arrays, stream: int) -> np.ndarray:
    """A class of each sample at random, int32 [samples]."""
    rng = np.random.default_rng([stream, *b"label"])
    return rng.integers(size.config["num_labels"], size=len(arrays["input_ids"]), dtype=np.int32)


def _read(model: Model, size: Size, path: Path, own: Tokenizer | None, seq_len: int | None) -> tuple[Arrays, tuple[str, ...]]:
    reader = own or tokenizer.of_bytes(closing=True)
    prompts, unused = text.read(path)
    rows = text.encode(model, size, prompts, path, reader)
    for prompt, row in zip(prompts, rows, strict=True):
        _check(model, size, seq_len, prompt, len(row), path)
    width = seq_len or min(-(-max(map(len, rows)) // _WIDTH) * _WIDTH, size.config["max_position_embeddings"])
    lengths = np.array([len(row) for row in rows], np.int32)
    arrays = {"input_ids": text.padded(rows, width, size), "attention_mask": (np.arange(width) < lengths[:, None]).astype(np.int32)}
    first, *others = text.notes(path, size, rows, reader, own, f", padded to {width}")
    if any(prompt.max_new_tokens is not None for prompt in prompts):
        unused = (*unused, f"max_new_tokens of {path.name} is ignored: {model.name} predicts, and generates no tokens")
    return arrays, (first, *unused, *others)


def _check(model: Model, size: Size, seq_len: int | None, prompt: text.Prompt, length: int, path: Path) -> None:
    where, most = f"{path}:{prompt.line}", size.config["max_position_embeddings"]
    if length > most:
        raise UsageError(f"{where}: the prompt has {length} tokens and {model.name} {size.name} takes {most}: shorten it")
    if seq_len is not None and length > seq_len:
        raise UsageError(f"{where}: the prompt has {length} tokens: shorten it, or give --seq-len {length} or more")


def _twin(arrays: Arrays, size: Size, stream: int) -> tuple[Arrays, int]:
    mask = arrays["attention_mask"]
    ids = text.random_ids(size, mask.shape, stream)
    return {"input_ids": np.concatenate([ids[:1], ids * mask]), "attention_mask": np.concatenate([np.ones_like(mask[:1]), mask])}, 1


def _describe(arrays: Arrays) -> Description:
    mask = arrays["attention_mask"]
    return Description(lengths=text.lengths(mask.sum(1), mask.shape[1]), seq_len=mask.shape[1])


def _with_sequence_length(model: Model, size: Size, length: int) -> Size:
    most = size.config["max_position_embeddings"]
    if not 2 <= length <= most:
        raise UsageError(f"--seq-len {length}: {model.name} {size.name} takes 2 to {most}")
    return replace(size, inputs={**size.inputs, "sequence_length": length})


def _weights_inputs(path: Path, model: Model, config: Mapping[str, Any], own: Tokenizer | None) -> dict[str, Any]:
    """The full size's length, at most what the folder has positions for."""
    length = min(model.sizes["full"].inputs["sequence_length"], config["max_position_embeddings"])
    return {"sequence_length": length, "special_ids": text.special_ids(path, config, own)}


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two for each weight of the encoder and each token; pooler and head see one token and are left out."""
    encoder = sum(math.prod(t.shape) for t in size.tensors if len(t.shape) == 2 and ".encoder." in t.name)
    return 2.0 * encoder * float(arrays["attention_mask"].sum(1).mean())


FAMILY = Family(
    synthetic=_synthetic,
    twin=_twin,
    least_flops=_least_flops,
    describe=_describe,
    dataset=Dataset(count=text.count, read=_read),
    with_sequence_length=_with_sequence_length,
    weights_inputs=_weights_inputs,
    labels=_labels,
)
