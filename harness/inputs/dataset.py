"""Inputs: a user's prompts or synthetic ids → one .npz every SUT reads, and a synthetic twin of the same shapes to warm up with."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from harness.errors import UsageError
from harness.inputs import tokenizer
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer

_SEED = 20240611
# Prompts are padded to a multiple of this, for every SUT alike, so that their cells can be compared: compiled ones are slow at odd lengths.
_WIDTH = 8
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Prompt:
    """`line`: where it begins in the file, from 1."""

    text: str
    line: int
    max_new_tokens: int | None = None


@dataclass(frozen=True)
class Inputs:
    """What every SUT reads.

    Attributes:
        path, synthetic: .npz of equal arrays; synthetic begins with `warmup_rows` rows that show each shape once.
        lengths: tokens of the shortest and the longest input; `padded_to`: of each as it is handed over.
        uneven: whether the inputs cost different amounts: prompts of other lengths, or other counts of new tokens.
    """

    path: Path
    synthetic: Path
    warmup_rows: int
    digest: str
    count: int
    config: dict[str, list[int]]
    lengths: tuple[int, int]
    padded_to: int
    uneven: bool
    new_tokens_per_sample: float | None
    notes: tuple[str, ...] = ()


def read(path: Path) -> tuple[list[Prompt], tuple[str, ...]]:
    """Prompts of a .jsonl file (one object with `prompt` a line) or of any other text (one prompt a paragraph), and notes about it.

    Raises UsageError naming file and line for whatever is not a prompt: nothing is skipped.
    """
    if path.suffix == ".json":
        raise UsageError(f"--dataset {path}: JSON Lines end in .jsonl, one object a line; rename or convert the file")
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise UsageError(f"--dataset {path}: cannot be read ({e.strerror})") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8 (byte 0x{raw[e.start]:02x}): convert the file") from None
    prompts, notes = _json_lines(path, text) if path.suffix in (".jsonl", ".ndjson") else (_paragraphs(text), ())
    if not prompts:
        raise UsageError(f"--dataset {path}: no prompt in it: one paragraph of text, or one JSON object with `prompt` a line (.jsonl)")
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


def _json_lines(path: Path, text: str) -> tuple[list[Prompt], tuple[str, ...]]:
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
            raise UsageError(f'{where}: not JSON ({e}): each line is an object such as {{"prompt": "…"}}') from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"]:
            raise UsageError(f"{where}: each line is an object with a non-empty string `prompt`; found {line[:60]!r}")
        new = row.get("max_new_tokens")
        if new is not None and (not isinstance(new, int) or isinstance(new, bool) or new < 1):
            raise UsageError(f"{where}: `max_new_tokens` is a whole number from 1 on; found {new!r}")
        other |= set(row) - {"prompt", "max_new_tokens"}
        prompts.append(Prompt(row["prompt"], number, new))
    return prompts, ((f"fields of {path.name} that are not used: {', '.join(sorted(other))}",) if other else ())


def prepare(
    model: Model,
    size: Size,
    samples: int,
    dataset: Path | None,
    cache: Path,
    own: Tokenizer | None = None,
    seq_len: int | None = None,
) -> Inputs:
    """Write the inputs of a cell under cache/inputs/, named by their content.

    Args:
        samples: how many, where there is no data set.
        own: of the user's weights, if they have one.
        seq_len: `--seq-len`; None: synthetic inputs are as long as the size has them, prompts are padded to the longest of them.
    """
    reader = own or tokenizer.of_bytes(closing=model.task == "predict")
    notes: tuple[str, ...] = ()
    if dataset is None:
        arrays = _synthetic(model, size, samples, stream=0)
    else:
        prompts, notes = read(dataset)
        arrays = _encode(model, size, seq_len, prompts, dataset, reader)
    if model.task == "predict":
        twin, warmup_rows, config = _synthetic_like(arrays, size), 1, {}
    else:
        config = {"prompt_buckets": _buckets(arrays["prompt_length"], 16), "new_token_buckets": _buckets(arrays["max_new_tokens"], 8)}
        arrays["input_ids"] = np.pad(arrays["input_ids"], ((0, 0), (0, config["prompt_buckets"][-1] - arrays["input_ids"].shape[1])))
        shapes = np.array(list(product(config["prompt_buckets"], config["new_token_buckets"])), np.int32)
        twin, warmup_rows = _synthetic_like(arrays, size, shapes), len(shapes)
    digest = _digest(arrays)
    directory = cache / "inputs" / f"{model.name}-{size.name}-{digest[:12]}"
    paths = [_write(directory / name, content) for name, content in (("inputs.npz", arrays), ("synthetic.npz", twin))]
    new = float(arrays["max_new_tokens"].mean()) if "max_new_tokens" in arrays else None
    lengths = arrays["prompt_length"] if "prompt_length" in arrays else arrays["attention_mask"].sum(1)
    shortest, longest, width = int(lengths.min()), int(lengths.max()), arrays["input_ids"].shape[1]
    if dataset is not None:
        padded = f", padded to {width}" if model.task == "predict" else ""
        notes = (f"{dataset.name}: {len(lengths)} prompts of {shortest} to {longest} tokens{padded} ({reader.name})", *notes)
        if size.name == "user" and own is None:
            notes = (*notes, "the weights bring no tokenizer, so each byte is a token: speeds hold, and the answers mean nothing")
    uneven = "max_new_tokens" in arrays and any(len(set(arrays[k].tolist())) > 1 for k in ("prompt_length", "max_new_tokens"))
    count, lengths_told = len(arrays["input_ids"]), (shortest, longest)
    return Inputs(paths[0], paths[1], warmup_rows, digest, count, config, lengths_told, width, uneven, new, notes)


def _synthetic(model: Model, size: Size, samples: int, stream: int) -> Arrays:
    ids = _random_ids(size, (samples, size.sequence_length or size.prompt_length), stream)
    if model.task == "predict":
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {
        "input_ids": ids,
        "prompt_length": np.full(samples, size.prompt_length, np.int32),
        "max_new_tokens": np.full(samples, size.new_tokens, np.int32),
    }


def _random_ids(size: Size, shape: tuple[int, int], stream: int) -> np.ndarray:
    usual = np.setdiff1d(np.arange(size.config["vocab_size"]), size.special_ids)
    return usual[np.random.default_rng([_SEED, stream]).integers(0, len(usual), shape)].astype(np.int32)


def _encode(model: Model, size: Size, seq_len: int | None, prompts: Sequence[Prompt], path: Path, reader: Tokenizer) -> Arrays:
    if size.config["vocab_size"] < reader.vocabulary:
        raise UsageError(
            f"--dataset: the byte-level tokenizer needs a vocabulary of {reader.vocabulary}; {model.name} {size.name} has "
            f"{size.config['vocab_size']}: put a tokenizer.json into the folder of the weights"
        )
    rows = [reader.encode(p.text) for p in prompts]
    if empty := next((p for p, row in zip(prompts, rows, strict=True) if not row), None):
        raise UsageError(f"{path}:{empty.line}: {reader.name} makes no token of this prompt: leave it out")
    new = [p.max_new_tokens or size.new_tokens for p in prompts]
    for prompt, row, count in zip(prompts, rows, new, strict=True):
        _check_length(model, size, seq_len, prompt, len(row), count, path)
    width = max(map(len, rows))
    if model.task == "predict":
        width = seq_len or min(-(-width // _WIDTH) * _WIDTH, size.config["max_position_embeddings"])
    pad = _pad_id(size)
    ids = np.array([row + [pad] * (width - len(row)) for row in rows], np.int32)
    lengths = np.array([len(row) for row in rows], np.int32)
    if model.task == "predict":
        return {"input_ids": ids, "attention_mask": (np.arange(width) < lengths[:, None]).astype(np.int32)}
    return {"input_ids": ids, "prompt_length": lengths, "max_new_tokens": np.array(new, np.int32)}


def _pad_id(size: Size) -> int:
    return pad if isinstance(pad := size.config.get("pad_token_id"), int) and 0 <= pad < size.config["vocab_size"] else tokenizer.PAD


def _check_length(model: Model, size: Size, seq_len: int | None, prompt: Prompt, length: int, new: int, path: Path) -> None:
    most = size.config["max_position_embeddings"]
    if model.task == "predict":
        if prompt.max_new_tokens is not None:
            raise UsageError(f"{path}:{prompt.line}: `max_new_tokens` is for generating models; {model.name} predicts: leave it out")
        if length > most:
            raise UsageError(f"{path}:{prompt.line}: the prompt has {length} tokens and {model.name} {size.name} takes {most}: shorten it")
        if seq_len is not None and length > seq_len:
            raise UsageError(f"{path}:{prompt.line}: the prompt has {length} tokens: shorten it, or give --seq-len {length} or more")
    elif length + new > most:
        raise UsageError(
            f"{path}:{prompt.line}: {length} prompt tokens + {new} new ones are more than the {most} positions of {model.name} "
            f"{size.name}: "
            "split the paragraph with an empty line, or ask for fewer max_new_tokens"
        )


def with_sequence_length(model: Model, size: Size, length: int | None) -> Size:
    """`--seq-len`. Raises UsageError where the model has none or fewer positions."""
    if length is None:
        return size
    if model.task != "predict":
        raise UsageError(f"--seq-len is for models that predict; the lengths of {model.name} are those of its prompts (--dataset)")
    most = size.config["max_position_embeddings"]
    if not 2 <= length <= most:
        raise UsageError(f"--seq-len {length}: {model.name} {size.name} takes 2 to {most}")
    return replace(size, sequence_length=length)


def _buckets(lengths: np.ndarray, least: int) -> list[int]:
    """One length: itself. Uneven ones: powers of two, the last cut to the longest, so that a compiled SUT needs few shapes."""
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        return [longest]
    powers = {max(least, 1 << int(n - 1).bit_length()) for n in lengths.tolist()}
    return sorted({min(p, longest) for p in powers})


def _synthetic_like(arrays: Arrays, size: Size, warmup_shapes: np.ndarray | None = None) -> Arrays:
    """Same shapes, other ids. The warm-up rows come first: for generate one of each (prompt, new tokens) bucket."""
    ids = _random_ids(size, arrays["input_ids"].shape, stream=1)
    if warmup_shapes is None:
        mask = arrays["attention_mask"]
        return {"input_ids": np.concatenate([ids[:1], ids * mask]), "attention_mask": np.concatenate([np.ones_like(mask[:1]), mask])}
    lengths = np.concatenate([warmup_shapes[:, 0], arrays["prompt_length"]])
    ids = np.concatenate([_random_ids(size, (len(warmup_shapes), ids.shape[1]), stream=2), ids])
    return {
        "input_ids": np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, 0).astype(np.int32),
        "prompt_length": lengths,
        "max_new_tokens": np.concatenate([warmup_shapes[:, 1], arrays["max_new_tokens"]]),
    }


def _digest(arrays: Arrays) -> str:
    """sha256 over names, dtypes, shapes and bytes; not over the .npz, whose container may change."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        total.update(np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()


def _write(path: Path, arrays: Arrays) -> Path:
    """Always anew, so that the file is what the digest says; atomically, so that another process may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as f:
        np.savez(f, allow_pickle=False, **arrays)
    partial.replace(path)
    return path
