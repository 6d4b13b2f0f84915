"""Shared by all architectures that read text: encode prompts as ids, and draw random ids."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import tokenizer
from harness.inputs.architectures import (
    Arrays,
    Counted,
    Description,
    Noted,
    SizeInputs,
    UserFile,
    seeded,
)
from harness.inputs.models import Model, Size
from harness.inputs.prompt_files import Prompt
from harness.inputs.tokenizer import Tokenizer

SHORTEST_SHARE = 0.1
"""The length of the shortest input in the data set `uneven`, over its width."""
# Prompts are padded to a multiple of this for every SUT, because compiled SUTs are slow at odd
# lengths and all must get the same inputs.
_WIDTH = 8
_SPECIAL_IDS = (0, 1, 2)
"""Ids that mean no text in our own weights. Synthetic inputs contain none of them. Those of a
user's weights are in `Size.inputs`.
"""
_SPECIAL_KEYS = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
    "unk_token_id",
)
"""The keys of config.json whose values are ids, or lists of ids, that mean no text."""
_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "lilt",
    "longformer",
    "luke",
    "markuplm",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
"""RoBERTa and its kin: the types of Transformers whose first token has the position after the
padding id (`create_position_ids_from_input_ids`).
"""
_SOME = re.compile(r"\.experts\.|\.adapter_modules\.|_global\.")
"""Names of tensors that not every token passes."""
_LONGEST_TOKEN = 256
"""Characters. Tokens of vocabularies in use have at most half as many."""


def positions(config: Config) -> int:
    """The tokens for which a model has positions. There is no limit if they are relative."""
    count = int(config.get("max_position_embeddings", sys.maxsize))
    if config.get("model_type") in _AFTER_PADDING:
        return count - 1 - int(config.get("pad_token_id", 1) or 0)
    return count


def weights_inputs(path: Path, model: Model, config: Config, own: Tokenizer | None) -> SizeInputs:
    """An `Architecture.weights_inputs`: the full size's length, limited by the folder's positions.
    Raises UsageError if it has none.
    """
    longest = positions(config)
    if longest < 1:
        raise Refused(
            f"max_position_embeddings {config['max_position_embeddings']}: {model.name} has no"
            " position for a token"
        )
    return {
        "sequence_length": min(longest, model.sizes["full"].inputs["sequence_length"]),
        "special_ids": special_ids(config, own),
    }


def random_ids(size: Size, shape: tuple[int, int], stream: int) -> np.ndarray:
    """Seeded ids that mean text, int32 of `shape`."""
    special = size.inputs.get("special_ids", _SPECIAL_IDS)
    usual = np.setdiff1d(np.arange(size.config["vocab_size"]), special)
    chosen = seeded(stream).integers(0, len(usual), shape)
    return usual[chosen].astype(np.int32)


def uneven_lengths(width: int, count: int, stream: int) -> np.ndarray:
    """Lengths from a tenth of `width` to all of it, in tokens, in seeded order: int32 [count].

    They are evenly spaced, so the longest one and the mean do not depend on the count or the
    stream.
    """
    shares = np.linspace(1.0, SHORTEST_SHARE, count)
    lengths = np.ceil(width * shares).astype(np.int32)
    return seeded(stream, *b"lengths").permutation(lengths)


def random_padded(size: Size, lengths: np.ndarray, width: int, stream: int) -> Arrays:
    """Random ids of these lengths, padded at the end → `input_ids` and `attention_mask`, int32
    [samples, width].
    """
    ids = random_ids(size, (len(lengths), width), stream)
    rows = [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]
    mask = np.arange(width) < lengths[:, None]
    return {"input_ids": padded(rows, width, size), "attention_mask": mask.astype(np.int32)}


def encode(given: UserFile, prompts: list[Prompt], reader: Tokenizer) -> list[list[int]]:
    """The ids of each prompt. Raises UsageError if the vocabulary is too small, for a prompt
    without a token, and for one that takes far too long to encode.
    """
    size = given.size
    name = f"{given.model.name} {size.name}"
    if size.config["vocab_size"] < reader.vocabulary:
        raise UsageError(
            f"--dataset: the byte-level tokenizer needs a vocabulary of {reader.vocabulary};"
            f" {name} has {size.config['vocab_size']}: put a tokenizer.json into the folder of the"
            " weights"
        )
    most = positions(size.config)
    for prompt in prompts:
        if len(prompt.text) > most * _LONGEST_TOKEN:
            raise UsageError(
                f"{given.path}:{prompt.line}: a prompt of {len(prompt.text):,} characters, and"
                f" {name} has {most} positions: shorten or split it"
            )
    rows = [reader.encode(prompt.text) for prompt in prompts]
    for prompt, row in zip(prompts, rows, strict=True):
        if not row:
            raise UsageError(
                f"{given.path}:{prompt.line}: {reader.name} makes no token of this prompt: leave it"
                " out"
            )
    return rows


def of_one_length(
    given: UserFile, prompts: list[Prompt], unused: Iterable[str], *, closing: bool
) -> Noted:
    """Prompts padded to one length → (`input_ids` and `attention_mask`, int32 [prompts, length],
    notes for the reader).

    Args:
        unused: see `notes`.
        closing: whether the tokenizer of bytes adds an end mark to each prompt. It is used if the
            user's weights have none.

    Raises UsageError for a prompt that is too long.
    """
    reader = given.tokenizer or tokenizer.of_bytes(closing=closing)
    rows = encode(given, prompts, reader)
    most = positions(given.size.config)
    seq_len = given.seq_len
    for prompt, row in zip(prompts, rows, strict=True):
        where = f"{given.path}:{prompt.line}: the prompt has {len(row)} tokens"
        if len(row) > most:
            raise UsageError(
                f"{where} and {given.model.name} {given.size.name} takes {most}: shorten or split"
                " it"
            )
        if seq_len is not None and len(row) > seq_len:
            raise UsageError(f"{where}: shorten it, or give --seq-len {len(row)} or more")
    lengths = np.array([len(row) for row in rows], np.int32)
    rounded_up = -(-int(lengths.max()) // _WIDTH) * _WIDTH
    width = seq_len or min(rounded_up, most)
    is_token = np.arange(width) < lengths[:, None]
    arrays = {
        "input_ids": padded(rows, width, given.size),
        "attention_mask": is_token.astype(np.int32),
    }
    return arrays, tuple(notes(given, rows, reader, unused, f", padded to {width}"))


def layer_weights(size: Size) -> int:
    """Return the number of weights in the matrices of all layers. XLNet's matrices have three axes:
    in, heads and the width of a head.

    Experts, X-MOD's adapters of languages, and Longformer's products of tokens that attend to all
    are left out, because a token passes only some of them.
    """
    matrices = [t for t in size.tensors if len(t.shape) in (2, 3) and not _SOME.search(t.name)]
    return sum(math.prod(t.shape) for t in matrices if re.search(r"\.\d+\.", t.name))


def least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight in the layers' matrices and each token. A pooler and a head
    see only one token and are left out.
    """
    tokens = float(arrays["input_ids"].shape[1])
    if "attention_mask" in arrays:
        tokens = float(arrays["attention_mask"].sum(1).mean())
    return 2.0 * layer_weights(size) * tokens


def read_padded(given: UserFile) -> Noted:
    """An `Architecture.read` for models that predict: prompts padded to one length. Raises
    UsageError for prompts that do not fit.
    """
    prompts, unused = given.prompts()
    if any(prompt.max_new_tokens is not None for prompt in prompts):
        note = (
            f"max_new_tokens of {given.path.name} is ignored: {given.model.name} predicts, and"
            " generates no tokens"
        )
        unused = (*unused, note)
    return of_one_length(given, prompts, unused, closing=True)


def synthetic_of_padded(arrays: Arrays, size: Size, stream: int) -> Counted:
    """An `Architecture.synthetic_like` for padded inputs. A row without padding comes before the
    others.
    """
    mask = arrays["attention_mask"]
    ids = random_ids(size, mask.shape, stream)
    return {
        "input_ids": np.concatenate([ids[:1], ids * mask]),
        "attention_mask": np.concatenate([np.ones_like(mask[:1]), mask]),
    }, 1


def describe_padded(arrays: Arrays) -> Description:
    """An `Architecture.describe` for inputs padded to one length."""
    mask = arrays["attention_mask"]
    return Description(lengths=lengths(mask.sum(1), mask.shape[1]), seq_len=mask.shape[1])


def describe_tokens(arrays: Arrays) -> Description:
    """An `Architecture.describe` for padded inputs that have an answer for each token. Answers to
    padding are not compared.
    """
    return replace(describe_padded(arrays), config={"mask": "attention_mask"})


def with_sequence_length(model: Model, size: Size, length: int) -> Size:
    """The size with inputs of this length. Raises UsageError if the model has too few positions."""
    most = positions(size.config)
    if not 2 <= length <= most:
        raise UsageError(f"--seq-len {length}: {model.name} {size.name} takes 2 to {most}")
    return replace(size, inputs={**size.inputs, "sequence_length": length})


def padded(rows: Sequence[Sequence[int] | np.ndarray], width: int, size: Size) -> np.ndarray:
    """The rows, padded at the end with the model's padding id, int32 [rows, width]."""
    pad = size.config.get("pad_token_id")
    if not isinstance(pad, int) or not 0 <= pad < size.config["vocab_size"]:
        pad = tokenizer.PAD
    array = np.full((len(rows), width), pad, np.int32)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array


def notes(
    given: UserFile,
    rows: list[list[int]],
    reader: Tokenizer,
    unused: Iterable[str],
    padding: str = "",
) -> list[str]:
    """Notes on the prompts for a reader of the result. `unused`: those on the file itself."""
    lengths = [len(row) for row in rows]
    summary = (
        f"{given.path.name}: {len(rows)} prompts of {min(lengths)} to {max(lengths)}"
        f" tokens{padding} ({reader.name})"
    )
    found = [summary, *unused]
    if given.size.name == "user" and given.tokenizer is None:
        found.append(
            "the weights have no tokenizer, so each byte is a token: prompts are several times as"
            " long as with the model's tokenizer, and the answers mean nothing; copy its"
            " tokenizer.json into the folder"
        )
    return found


def lengths(each: np.ndarray, width: int) -> dict[str, int]:
    """Return the lengths for the record, in tokens: the shortest input, the longest one, and the
    width of their array.
    """
    return {"shortest": int(each.min()), "longest": int(each.max()), "padded_to": width}


def special_ids(config: Config, own: Tokenizer | None) -> tuple[int, ...]:
    """The ids of a user's weights that mean no text. Raises UsageError if no other id is left."""
    named: list[Any] = list(own.special) if own else []
    for key in _SPECIAL_KEYS:
        value = config.get(key)
        named += value if isinstance(value, list) else [value]
    vocabulary = config["vocab_size"]
    special = {i for i in named if isinstance(i, int) and 0 <= i < vocabulary}
    if len(special) == vocabulary:
        raise Refused(
            f"all {vocabulary} tokens are special ones, so no text can be written with them"
        )
    return tuple(sorted(special))
