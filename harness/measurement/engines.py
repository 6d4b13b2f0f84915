"""The files and limits by which the answers of an engine are judged. An engine returns text and no
logits. So its answers are compared with the text of the reference's tokens, and where they differ,
by the reference's own logits (`compliance.scoring.text`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from harness.inputs import limits, prompt_files
from harness.inputs.models import Model, Size
from harness.inputs.prompt_files import PromptOptions
from harness.inputs.tokenizer import Tokenizer
from harness.request import engines
from harness.request.request import Request

SCORE = "text"
_LIMITS = ("logit_gap", "compared_fraction")
_ANCHOR = "a"
"""A word before a token, because some tokenizers leave out a space at the beginning of a text."""


def not_judged(request: Request) -> str:
    """Why the answers are not judged; empty: they are, or the SUT is no engine."""
    if request.spec.remote and request.sut_options.get("weights") == "other":
        return (
            "no reference: the engine has other weights than --weights (--sut-option weights=other)"
        )
    return ""


def tolerance(model: Model, size: Size, device: str) -> dict[str, float]:
    """The limits of an engine's answers, by name."""
    every = limits.limits(model, size, engines.LIKE, device)
    return {name: every[name] for name in _LIMITS}


def config(request: Request) -> dict[str, Any]:
    """What an engine's SUT needs in addition to `workload_config`: the path of the `tokenizer`, and
    the `conversations` if it gets messages. Empty for other SUTs.
    """
    if not request.spec.remote:
        return {}
    assert request.weights
    path = str(request.weights.path.resolve() / "tokenizer.json")
    if engines.api(request.options) != engines.CHAT:
        return {"tokenizer": path}
    # The ids of each prompt and its messages.
    tokenizer = _tokenizer(request)
    assert request.options.dataset
    options = PromptOptions(field=request.options.field, chat=request.chat)
    prompts, _ = prompt_files.read(request.options.dataset, options)
    encode = tokenizer.encode
    if request.chat and tokenizer.encode_marked:
        encode = tokenizer.encode_marked
    conversations = [(encode(prompt.text), prompt.messages) for prompt in prompts]
    return {"tokenizer": path, "conversations": conversations}


def with_texts(request: Request, reference: Path) -> Path:
    """The file of the reference. For an engine, it is one more file with the text of each token of
    the vocabulary, which is made once.
    """
    if not request.spec.remote:
        return reference
    texts = [text.encode() for text in token_texts(_tokenizer(request))]
    content = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum([0, *map(len, texts)])
    name = hashlib.sha256(starts.tobytes() + content.tobytes()).hexdigest()[:16]
    path = reference.with_name(f"with-texts-{name}.npz")
    if not path.exists():
        partial = path.with_suffix(".partial")
        with np.load(reference) as file, partial.open("wb") as f:
            added = {"token_texts": content, "token_starts": starts}
            np.savez(f, allow_pickle=False, **dict(file), **added)
        partial.replace(path)
    return path


def token_texts(tokenizer: Tokenizer) -> list[str]:
    """The text of each id, in the middle of a text. A part of a character is U+FFFD."""
    decode = tokenizer.decode_marked
    assert decode
    anchor = tokenizer.encode(_ANCHOR)
    start = len(decode(anchor))
    return [decode([*anchor, number])[start:] for number in range(tokenizer.vocabulary)]


def _tokenizer(request: Request) -> Tokenizer:
    assert request.weights and request.weights.tokenizer
    return request.weights.tokenizer
