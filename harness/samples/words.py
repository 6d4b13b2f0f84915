"""The first answers of a generating model in words, in `words.json` of a run directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.scoring.tokens import TOKEN_BYTES
from formats.writing import write_json

FILE = "words.json"
_SAMPLES = 8

Decode = Callable[[Sequence[int]], str]
"""Token ids → text."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """One sample.

    Attributes:
        prompt, answer, reference: the texts; the last two without the prompt.
        tokens: the number of tokens in the answer.
        differs_at: the number, from 1, of the first token that differs from the reference's; None
            if all are equal.
        ended: whether the answer ended at an end token; None: end tokens were ignored.
    """

    prompt: str
    answer: str
    reference: str
    tokens: int
    differs_at: int | None
    ended: bool | None = None

    @property
    def shared(self) -> str:
        """The beginning that answer and reference share."""
        return os.path.commonprefix([self.answer, self.reference])


def write(
    directory: Path,
    inputs: Path,
    tokenizer: str,
    decode: Decode,
    decode_prompt: Decode,
    end_tokens: Collection[int],
) -> None:
    """Write words.json: the first eight samples of the accuracy test and the reference's answers.

    Without a reference no file is written.

    Args:
        directory: folder of a run whose accuracy test ended well.
        inputs: the .npz that every SUT read.
        tokenizer: name of the tokenizer that computed the ids.
        decode: the tokenizer's decoder to text, which takes any ids; `decode_prompt` keeps the
            marks of a chat template.
        end_tokens: the ids at which answers end. Empty if they are ignored.
    """
    if not (directory / "reference.npz").exists():
        return
    log = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json")
    rows = []
    with np.load(inputs) as arrays, np.load(directory / "reference.npz") as reference:
        for i in range(min(_SAMPLES, len(arrays["input_ids"]))):
            if i not in log.payloads:
                continue
            prompt = arrays["input_ids"][i, : arrays["prompt_length"][i]].tolist()
            expected = reference["tokens"][i, : reference["n_tokens"][i]].tolist()
            answer = _tokens(log.payloads[i])
            words = _words(decode, decode_prompt(prompt), answer, expected)
            if end_tokens:
                words = replace(words, ended=bool(answer) and answer[-1] in end_tokens)
            rows.append(words)
    samples = [asdict(row) for row in rows]
    write_json(directory / FILE, {"tokenizer": tokenizer, "samples": samples})


def read(directory: Path) -> list[Words]:
    """Return the samples of a run directory. Empty if words.json is missing or cannot be read."""
    try:
        document: Any = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return [Words(**sample) for sample in document["samples"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _tokens(payload: bytes) -> list[int]:
    """Return the ids of an answer. Bytes at its end that are not a whole token are left out."""
    whole = len(payload) // TOKEN_BYTES * TOKEN_BYTES
    ids: list[int] = np.frombuffer(payload[:whole], np.int32).tolist()
    return ids


def _words(decode: Decode, prompt: str, answer: list[int], reference: list[int]) -> Words:
    shared = len(os.path.commonprefix([answer, reference]))
    differs = shared < max(len(answer), len(reference))
    return Words(
        prompt=prompt,
        answer=decode(answer),
        reference=decode(reference),
        tokens=len(answer),
        differs_at=shared + 1 if differs else None,
    )
