"""What a generating model answered, in words: words.json of a run directory, made where there is a tokenizer."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.scoring.tokens import TOKEN_BYTES
from harness.inputs.tokenizer import Tokenizer
from scenarios.worker.job import write_json

FILE = "words.json"
_SAMPLES = 8


@dataclass(frozen=True, kw_only=True)
class Words:
    """One sample.

    Attributes:
        prompt, answer, reference: the texts; the last two without the prompt.
        tokens: how many tokens the answer has.
        differs_at: the first token, from 1, that is not the reference's; None where all are.
    """

    prompt: str
    answer: str
    reference: str
    tokens: int
    differs_at: int | None

    @property
    def shared(self) -> str:
        """The beginning that answer and reference have in common."""
        return os.path.commonprefix([self.answer, self.reference])


def write(directory: Path, inputs: Path, tokenizer: Tokenizer) -> None:
    """Write words.json: the first eight samples of the accuracy test beside the reference's answers. No reference: no file.

    Args:
        directory: of a run whose accuracy test ended well.
        inputs: the .npz that every SUT read.
    """
    if not (directory / "reference.npz").exists():
        return
    answers = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").payloads
    with np.load(inputs) as arrays, np.load(directory / "reference.npz") as reference:
        rows = [
            _words(
                tokenizer,
                arrays["input_ids"][i, : arrays["prompt_length"][i]].tolist(),
                np.frombuffer(answers[i][: len(answers[i]) // TOKEN_BYTES * TOKEN_BYTES], np.int32).tolist(),
                reference["tokens"][i, : reference["n_tokens"][i]].tolist(),
            )
            for i in range(min(_SAMPLES, len(arrays["input_ids"])))
            if i in answers
        ]
    write_json(directory / FILE, {"tokenizer": tokenizer.name, "samples": [asdict(row) for row in rows]})


def read(directory: Path) -> list[Words]:
    """The samples of a run directory; none where it has no words.json, or one that cannot be read."""
    try:
        document: Any = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return [Words(**sample) for sample in document["samples"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _words(tokenizer: Tokenizer, prompt: Sequence[int], answer: Sequence[int], reference: Sequence[int]) -> Words:
    shared = len(os.path.commonprefix([list(answer), list(reference)]))
    differs = shared < max(len(answer), len(reference))
    prompt_text, answer_text, reference_text = (
        tokenizer.decode([i for i in ids if 0 <= i < tokenizer.vocabulary]) for ids in (prompt, answer, reference)
    )
    return Words(
        prompt=prompt_text,
        answer=answer_text,
        reference=reference_text,
        tokens=len(answer),
        differs_at=shared + 1 if differs else None,
    )
