"""Shared by all architectures that read text: read the prompts of a user's file, encode them as
ids, and draw random ids.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.inputs import tokenizer
from harness.inputs.architectures import Arrays, Description
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer

SEED = 20240611
"""The seed of synthetic inputs."""
SHORTEST_SHARE = 0.1
"""The length of the shortest input in the data set `uneven`, over its width."""
# Prompts are padded to a multiple of this for every SUT, because compiled SUTs are slow at odd
# lengths and all must get the same inputs.
_WIDTH = 8
_SPECIAL_IDS = (0, 1, 2)
"""Ids that mean no text in our own weights. Synthetic inputs contain none of them. Those of a
user's weights are in `Size.inputs`.
"""


@dataclass(frozen=True)
class Prompt:
    """One prompt of a file. `line`: its first line, from 1. `label`: the value in the file."""

    text: str
    line: int
    max_new_tokens: int | None = None
    label: Any = None


def read(path: Path, labels: bool = False) -> tuple[list[Prompt], tuple[str, ...]]:
    """Read the prompts of a .jsonl file (one object with `prompt` a line) or of any other text (one
    prompt a paragraph). Also returns notes about the file.

    Args:
        labels: whether labels are used; if not, a note says so.

    Raises UsageError with file and line for anything that is not a prompt. Nothing is skipped.
    """
    if path.suffix.lower() in (".json", ".csv", ".tsv"):
        raise UsageError(
            f"--dataset {path}: is neither text nor JSON Lines (.jsonl, one object with `prompt` a"
            " line): convert the file"
        )
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise UsageError(f"--dataset {path}: cannot be read ({e.strerror})") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: not UTF-8 (byte 0x{raw[e.start]:02x}): convert the file"
        ) from None
    lines = path.suffix.lower() in (".jsonl", ".ndjson")
    prompts, notes = _json_lines(path, text, labels) if lines else (_paragraphs(text), ())
    if not lines and len(prompts) == 1 and (count := prompts[0].text.count("\n") + 1) > 1:
        notes = (f"the {count} lines of {path.name} are one prompt: an empty line ends a prompt",)
    if not prompts:
        raise UsageError(
            f"--dataset {path}: no prompt in it: one paragraph of text, or one JSON object with"
            " `prompt` a line (.jsonl)"
        )
    return prompts, notes


def _paragraphs(text: str) -> list[Prompt]:
    prompts: list[Prompt] = []
    block: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            block.append(line.rstrip("\r"))
        elif block:
            prompts.append(Prompt("\n".join(block), number - len(block)))
            block = []
    return prompts


def _json_lines(path: Path, text: str, labels: bool) -> tuple[list[Prompt], tuple[str, ...]]:
    prompts, other = [], set()
    if not text.strip():
        return [], ()
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"{path}:{number}"
        if not line.strip():
            raise UsageError(f"{where}: an empty line: each line is an object with `prompt`")
        try:
            row = json.loads(line)
        except ValueError as e:
            raise UsageError(
                f'{where}: not JSON ({e}): each line is an object such as {{"prompt": "…"}}'
            ) from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"]:
            raise UsageError(
                f"{where}: each line is an object with a non-empty string `prompt`; found"
                f" {line[:60]!r}"
            )
        if not _encodable(row["prompt"]):
            raise UsageError(
                f"{where}: the prompt holds half of a surrogate pair, which is no character: write"
                " it as UTF-8"
            )
        new = row.get("max_new_tokens")
        if new is not None and (not isinstance(new, int) or isinstance(new, bool) or new < 1):
            raise UsageError(
                f"{where}: `max_new_tokens` is a whole number from 1 on; found {new!r}"
            )
        other |= set(row) - {"prompt", "max_new_tokens", *(("label",) if labels else ())}
        prompts.append(Prompt(row["prompt"], number, new, row.get("label")))
    return prompts, (
        (f"fields of {path.name} that are not used: {', '.join(sorted(other))}",) if other else ()
    )


def _encodable(text: str) -> bool:
    """False if the text contains half of a surrogate pair, which JSON allows and UTF-8 cannot
    encode.
    """
    return not any("\ud800" <= character <= "\udfff" for character in text)


def count(path: Path) -> int:
    """The number of prompts in a file. Raises UsageError as `read` does."""
    return len(read(path)[0])


def random_ids(size: Size, shape: tuple[int, int], stream: int) -> np.ndarray:
    """Seeded ids that mean text, int32 of `shape`."""
    usual = np.setdiff1d(
        np.arange(size.config["vocab_size"]), size.inputs.get("special_ids", _SPECIAL_IDS)
    )
    return usual[np.random.default_rng([SEED, stream]).integers(0, len(usual), shape)].astype(
        np.int32
    )


def uneven_lengths(width: int, count: int, stream: int) -> np.ndarray:
    """Lengths from a tenth of `width` to all of it, in tokens, in seeded order: int32 [count].

    They are evenly spaced, so the longest one and the mean do not depend on the count or the
    stream.
    """
    lengths = np.ceil(width * np.linspace(1.0, SHORTEST_SHARE, count)).astype(np.int32)
    return np.random.default_rng([SEED, stream, *b"lengths"]).permutation(lengths)


def random_padded(size: Size, lengths: np.ndarray, width: int, stream: int) -> Arrays:
    """Random ids of these lengths, padded at the end → `input_ids` and `attention_mask`, int32
    [samples, width].
    """
    ids = random_ids(size, (len(lengths), width), stream)
    rows = [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]
    mask = np.arange(width) < lengths[:, None]
    return {"input_ids": padded(rows, width, size), "attention_mask": mask.astype(np.int32)}


def encode(
    model: Model, size: Size, prompts: list[Prompt], path: Path, reader: Tokenizer
) -> list[list[int]]:
    """The ids of each prompt. Raises UsageError if the vocabulary is too small, and for a prompt
    without a token.
    """
    if size.config["vocab_size"] < reader.vocabulary:
        raise UsageError(
            f"--dataset: the byte-level tokenizer needs a vocabulary of {reader.vocabulary};"
            f" {model.name} {size.name} has {size.config['vocab_size']}: put a tokenizer.json into"
            " the folder of the weights"
        )
    rows = [reader.encode(p.text) for p in prompts]
    if empty := next((p for p, row in zip(prompts, rows, strict=True) if not row), None):
        raise UsageError(
            f"{path}:{empty.line}: {reader.name} makes no token of this prompt: leave it out"
        )
    return rows


def of_one_length(
    model: Model,
    size: Size,
    prompts: list[Prompt],
    path: Path,
    *,
    own: Tokenizer | None,
    seq_len: int | None,
    closing: bool,
) -> tuple[Arrays, tuple[str, ...]]:
    """Prompts padded to one length → (`input_ids` and `attention_mask`, int32 [prompts, length],
    notes for the reader).

    Args:
        own: the tokenizer of the user's weights, if they have one.
        seq_len: the length; None: that of the longest prompt.
        closing: whether the tokenizer of bytes adds an end mark to each prompt. It is used if they
            have none.

    Raises UsageError for a prompt that is too long.
    """
    reader = own or tokenizer.of_bytes(closing=closing)
    rows = encode(model, size, prompts, path, reader)
    # There is no limit if positions are relative.
    most = size.inputs.get("longest", size.config.get("max_position_embeddings", math.inf))
    for prompt, row in zip(prompts, rows, strict=True):
        if len(row) > most:
            text = (
                f"the prompt has {len(row)} tokens and {model.name} {size.name} takes {most}:"
                " shorten it, or split it by an empty line"
            )
            raise UsageError(f"{path}:{prompt.line}: {text}")
        if seq_len is not None and len(row) > seq_len:
            text = (
                f"the prompt has {len(row)} tokens: shorten it, or give --seq-len {len(row)} or"
                " more"
            )
            raise UsageError(f"{path}:{prompt.line}: {text}")
    width = seq_len or min(-(-max(map(len, rows)) // _WIDTH) * _WIDTH, most)
    lengths = np.array([len(row) for row in rows], np.int32)
    arrays = {
        "input_ids": padded(rows, width, size),
        "attention_mask": (np.arange(width) < lengths[:, None]).astype(np.int32),
    }
    return arrays, notes(path, size, rows, reader, own, f", padded to {width}")


def layer_weights(size: Size) -> int:
    """Return the number of weights in the matrices of all layers. XLNet's matrices have three axes:
    in, heads and the width of a head.

    Experts are left out, because a token passes only some of them.
    """
    return sum(
        math.prod(t.shape)
        for t in size.tensors
        if len(t.shape) in (2, 3) and re.search(r"\.\d+\.", t.name) and ".experts." not in t.name
    )


def read_padded(
    model: Model, size: Size, path: Path, own: Tokenizer | None, seq_len: int | None
) -> tuple[Arrays, tuple[str, ...]]:
    """A `Dataset.read` for models that predict: prompts padded to one length. Raises UsageError for
    prompts that do not fit.
    """
    prompts, unused = read(path)
    arrays, (first, *others) = of_one_length(
        model, size, prompts, path, own=own, seq_len=seq_len, closing=True
    )
    if any(prompt.max_new_tokens is not None for prompt in prompts):
        unused = (
            *unused,
            (
                f"max_new_tokens of {path.name} is ignored: {model.name} predicts, and generates no"
                " tokens"
            ),
        )
    return arrays, (first, *unused, *others)


def synthetic_of_padded(arrays: Arrays, size: Size, stream: int) -> tuple[Arrays, int]:
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


def with_sequence_length(model: Model, size: Size, length: int) -> Size:
    """The size with inputs of this length. Raises UsageError if the model has too few positions."""
    most = size.config["max_position_embeddings"]
    if not 2 <= length <= most:
        raise UsageError(f"--seq-len {length}: {model.name} {size.name} takes 2 to {most}")
    return replace(size, inputs={**size.inputs, "sequence_length": length})


def padded(rows: list[list[int]], width: int, size: Size) -> np.ndarray:
    """The rows, padded at the end with the model's padding id, int32 [rows, width]."""
    stated = size.config.get("pad_token_id")
    pad = (
        stated
        if isinstance(stated, int) and 0 <= stated < size.config["vocab_size"]
        else tokenizer.PAD
    )
    return np.array([row + [pad] * (width - len(row)) for row in rows], np.int32)


def notes(
    path: Path,
    size: Size,
    rows: list[list[int]],
    reader: Tokenizer,
    own: Tokenizer | None,
    padding: str = "",
) -> tuple[str, ...]:
    """Notes on the prompts for a reader of the result."""
    shortest, longest = min(map(len, rows)), max(map(len, rows))
    summary = (
        f"{path.name}: {len(rows)} prompts of {shortest} to {longest} tokens{padding}"
        f" ({reader.name})"
    )
    if size.name == "user" and own is None:
        return (
            summary,
            (
                "the weights bring no tokenizer, so each byte is a token: prompts are several times"
                " as long as with the model's own, and the answers mean nothing; copy its"
                " tokenizer.json into the folder"
            ),
        )
    return (summary,)


def lengths(each: np.ndarray, width: int) -> dict[str, int]:
    """Return the lengths for the record, in tokens: the shortest input, the longest one, and the
    width of their array.
    """
    return {"shortest": int(each.min()), "longest": int(each.max()), "padded_to": width}


def special_ids(path: Path, config: Mapping[str, Any], own: Tokenizer | None) -> tuple[int, ...]:
    """The ids of a user's weights that mean no text. Raises UsageError if no other id is left."""
    named = [
        config.get(key)
        for key in (
            "pad_token_id",
            "bos_token_id",
            "eos_token_id",
            "cls_token_id",
            "sep_token_id",
            "unk_token_id",
        )
    ]
    flat = {i for n in named for i in (n if isinstance(n, list) else [n]) if isinstance(i, int)}
    special = tuple(
        sorted({i for i in flat | set(own.special if own else ()) if 0 <= i < config["vocab_size"]})
    )
    if len(special) == config["vocab_size"]:
        raise UsageError(
            f"--weights {path}: all {config['vocab_size']} tokens are special ones: no text can be"
            " made of them"
        )
    return special
