"""llama3.1-8b and llama3.1-8b-edge: the articles of CNN/DailyMail, which are tokens of Llama 3.1,
and the tokenizer of the user's model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from compliance.rules import OfficialWorkload
from compliance.scoring.summaries import SETTINGS, TARGETS, TOKENIZER
from formats import bounds
from harness.errors import UsageError
from harness.inputs.architectures import causal_lm
from harness.inputs.dataset import UserInputs
from harness.inputs.models import Size
from harness.inputs.user_weights import Folder
from harness.request.options import Options

_OF_TOKENS = ("Server", "Interactive")
"""The scenarios whose limits are of tokens."""
_COMPARED = 8
"""So many texts are compared with their tokens."""
_Tokens = Annotated[
    list[Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]], msgspec.Meta(min_length=1)
]


class _Row(msgspec.Struct):
    """An article in the file: its text, its prompt as tokens, and the summary by people."""

    input: str
    tok_input: _Tokens
    output: str


@dataclass(frozen=True, eq=False)
class _Articles:
    """The articles of a file.

    Attributes:
        texts: the texts of the first ones.
        prompts: the tokens of each prompt, int32.
        targets: the summary of each article by people.
        digest: the md5 of the file.
    """

    texts: tuple[str, ...]
    prompts: tuple[np.ndarray, ...]
    targets: tuple[str, ...]
    digest: str


def check(options: Options, workload: OfficialWorkload) -> None:
    """Raises UsageError for flags of prompts, lengths and limits, which the benchmark decides."""
    contradicts = {
        f"--new-tokens {options.new_tokens}": options.new_tokens not in (None, workload.new_tokens),
        "--eos ignore": options.eos == "ignore",
        "--chat": options.chat is not None,
        f"--field {options.field}": options.field is not None,
        f"--max-latency-ms {options.max_latency_ms}": options.max_latency_ms is not None,
        f"--max-ttft-ms {options.max_ttft_ms}": options.max_ttft_ms is not None,
        f"--max-tpot-ms {options.max_tpot_ms}": options.max_tpot_ms is not None,
        "--stream off": options.stream == "off" and options.scenario in _OF_TOKENS,
    }
    for flag, is_given in contradicts.items():
        if is_given:
            raise UsageError(
                f"{flag}: {options.benchmark} decides the prompts, the end of an answer (at an end"
                f" token, or after {workload.new_tokens} tokens) and the limits of latency: leave"
                " it out"
            )


def read(options: Options, workload: OfficialWorkload, size: Size, weights: Folder) -> UserInputs:
    """The prompts of the file, which are tokens. Raises UsageError."""
    path = options.dataset
    assert path
    new_tokens = workload.new_tokens
    assert new_tokens
    # The audit reads tokenizer.json too.
    if weights.tokenizer is None or weights.tokenizer.name != TOKENIZER:
        raise UsageError(
            f"--weights {weights.path}: there is no {TOKENIZER} in it, by which answers become"
            " text: write one with"
            f' AutoTokenizer.from_pretrained(DIR).backend_tokenizer.save("{TOKENIZER}")'
        )
    articles = _articles_of(path)
    vocabulary = size.config["vocab_size"]
    most = size.config["max_position_embeddings"]
    prompts = articles.prompts
    for number, prompt in enumerate(prompts, 1):
        if prompt.max() >= vocabulary:
            raise UsageError(
                f"--dataset {path}: article {number} has the token {prompt.max()}, and the model of"
                f" --weights has {vocabulary} tokens: give the file for the model's tokenizer"
            )
        if len(prompt) + new_tokens > most:
            raise UsageError(
                f"--dataset {path}: article {number} has {len(prompt)} tokens, and with"
                f" {new_tokens} new ones they are more than the {most} positions of"
                " --weights: give a model with more positions"
            )
    _check_texts(path, articles, weights)
    lengths = [len(prompt) for prompt in prompts]
    note = (
        f"{path.name} (md5 {articles.digest}): {len(lengths):,} articles of {min(lengths)} to"
        f" {max(lengths)} tokens"
    )
    new = [new_tokens] * len(lengths)
    return UserInputs(causal_lm.arrays_of(prompts, new, size), (note,))


def files(options: Options, workload: OfficialWorkload, weights: Folder) -> dict[str, bytes]:
    """The summaries by people, and the tokenizer, by which answers become text."""
    assert options.dataset
    targets = _articles_of(options.dataset).targets
    found = {
        TARGETS: json.dumps(targets, ensure_ascii=False).encode(),
        TOKENIZER: (weights.path / TOKENIZER).read_bytes(),
    }
    settings = weights.path / SETTINGS
    if settings.is_file():
        found[SETTINGS] = settings.read_bytes()
    return found


def other_model(
    workload: OfficialWorkload,
    weights: Folder,
    files: Mapping[str, bytes],
    differences: Sequence[str],
) -> Sequence[str]:
    """A phrase if the model has the sizes of the benchmark's, and is not the Instruct model. Raises
    UsageError if no end token is known.
    """
    if not weights.end_tokens:
        raise UsageError(
            f"--weights {weights.path}: neither config.json nor generation_config.json has an"
            " eos_token_id, at which an answer ends: add it"
        )
    if differences or weights.end_tokens == workload.end_tokens:
        return ()
    tokens = ", ".join(map(str, weights.end_tokens))
    closed = ", ".join(map(str, workload.end_tokens))
    return (
        (
            f"its answers end at the tokens {tokens}, and those of the Instruct model end at"
            f" {closed}"
        ),
    )


def _check_texts(path: Path, articles: _Articles, weights: Folder) -> None:
    """Raises UsageError if no text of the first articles is that of its tokens."""
    assert weights.tokenizer
    decode = weights.tokenizer.decode
    pairs = zip(articles.texts, articles.prompts, strict=False)
    if not any(text.strip() in decode(prompt.tolist()) for text, prompt in pairs):
        raise UsageError(
            f"--dataset {path}: `tok_input` is not `input` in the tokens of --weights"
            f" {weights.path}: the file was made with the tokenizer of another model"
        )


def _articles_of(path: Path) -> _Articles:
    """The articles of a file. Raises UsageError if it has another format."""
    stat = path.stat()
    return _parse(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1)
def _parse(path: Path, size: int, modified_ns: int) -> _Articles:
    """The articles of a file of this size and time. The file is read once."""
    try:
        content = bounds.content(path, bounds.JSON)
        rows = msgspec.json.decode(content, type=Annotated[list[_Row], msgspec.Meta(min_length=1)])
    except (OSError, msgspec.DecodeError) as e:
        raise UsageError(
            f"--dataset {path}: is not a JSON list of articles with `input`, `tok_input` and"
            f" `output`, as cnn_eval.json is ({e}): give the file that MLCommons provides"
        ) from None
    return _Articles(
        texts=tuple(row.input for row in rows[:_COMPARED]),
        prompts=tuple(np.array(row.tok_input, np.int32) for row in rows),
        targets=tuple(row.output for row in rows),
        digest=hashlib.md5(content, usedforsecurity=False).hexdigest(),
    )
