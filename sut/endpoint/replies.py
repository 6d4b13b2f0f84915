"""Reads the replies of the OpenAI protocol: whole answers and streams of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 200
"""The characters of a wrong reply that an error quotes."""
_FEW_CHARACTERS = 16
_ENDS = ("stop", "length")
"""The reasons that an answer may end for. Others, such as `content_filter`, are errors."""
_REASONING = ("reasoning_content", "reasoning")
"""Engines' names for the text before `content`. Some send one text under both."""
_NOT_READ = ("tool_calls", "function_call", "audio")
"""Kinds of answers that no request here asks for."""


class EndpointError(Exception):
    """The engine did not answer as the protocol says. The message says how.

    `numbers`: see `WorkerOutcome.refused`.
    """

    def __init__(self, message: str, numbers: Mapping[str, float] | None = None):
        super().__init__(message)
        self.numbers = numbers or {}


@dataclass
class Reply:
    """One answer of the engine.

    Attributes:
        finish: `stop` or `length`; empty: it has not ended.
        prompt_tokens, completion_tokens: the engine's own counts; None: it reports none.
        largest_part: the most characters of a stream that arrived at one moment.
        has_reasoning: whether `text` begins with reasoning, which came in a field of its own.
    """

    text: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    largest_part: int = 0
    has_reasoning: bool = False

    @property
    def in_one_part(self) -> bool:
        """Whether more than half of the text of a stream arrived at one moment. A text of a few
        characters has tokens of unequal lengths, so it has to have arrived as a whole.
        """
        least = len(self.text) if len(self.text) < _FEW_CHARACTERS else len(self.text) // 2 + 1
        return self.largest_part >= least

    def add(self, document: Mapping[str, Any], chat: bool, streamed: bool) -> str:
        """Add a document of the engine, and return its text of every kind. A field that is null
        counts as absent. Raises EndpointError.
        """
        error = document.get("error")
        if error is not None:
            raise EndpointError(f"the engine reports an error: {shown(error)}")
        usage = document.get("usage")
        self._count(usage)
        choices = document.get("choices")
        if choices is None and usage and streamed:
            return ""
        if not isinstance(choices, list):
            raise EndpointError(f"a reply without `choices`: {shown(document)}")
        text = ""
        for choice in choices[:1]:  # a stream's last document has the usage and no choice
            reasoning, content = _texts(choice, chat, streamed)
            self.has_reasoning |= bool(reasoning)
            text = reasoning + content
            finish = choice.get("finish_reason")
            if finish and finish not in _ENDS:
                raise EndpointError(f"an answer ended with finish_reason {shown(finish)}")
            self.finish = finish or self.finish
        self.text += text
        return text

    def check(self) -> None:
        """Raises EndpointError if the answer has not ended."""
        if not self.finish:
            raise EndpointError(
                f"a reply ended without a finish_reason, after {len(self.text)} characters"
            )

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        for name in ("prompt_tokens", "completion_tokens"):
            value = usage.get(name)
            if type(value) is int:
                setattr(self, name, value)


def document(raw: bytes) -> dict[str, Any]:
    """The JSON object of a reply. Raises EndpointError."""
    try:
        value = json.loads(raw)
    except ValueError:
        raise EndpointError(f"a reply that is not JSON: {shown(raw)}") from None
    if not isinstance(value, dict):
        raise EndpointError(f"a reply that is no JSON object: {shown(raw)}")
    return value


def event(line: bytes) -> bytes | None:
    """The data of one line of a stream; None: the line has none. Raises EndpointError."""
    line = line.strip()
    if not line or line.startswith((b":", b"event:", b"id:", b"retry:")):
        return None
    if not line.startswith(b"data:"):
        raise EndpointError(f"a stream that has no server-sent events: {shown(line)}")
    return line.removeprefix(b"data:").strip()


def shown(value: Any) -> str:
    """The beginning of a value, on one line."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    elif not isinstance(value, str):
        value = json.dumps(value)
    return " ".join(value[:SHOWN].split())


def _texts(choice: Any, chat: bool, streamed: bool) -> tuple[str, str]:
    """Return (reasoning, other text) of a choice. A part of a stream may have neither."""
    if not isinstance(choice, dict):
        raise EndpointError(f"a choice that is no JSON object: {shown(choice)}")
    holder: Any = choice
    key = "text"
    if chat:
        holder = choice.get("delta" if streamed else "message") or {}
        key = "content"
    if not isinstance(holder, dict):
        raise EndpointError(f"a reply without `{key}`: {shown(choice)}")
    for name in _NOT_READ:
        if holder.get(name):
            raise EndpointError(f"an answer with `{name}`, which no request asks for")
    named = {name: holder.get(name) for name in (*_REASONING, key, "refusal")}
    texts = {name: text for name, text in named.items() if isinstance(text, str)}
    is_text = all(text is None or name in texts for name, text in named.items())
    if not is_text or not (texts or streamed):
        raise EndpointError(f"a reply without `{key}`: {shown(choice)}")
    reasoning = texts.get(_REASONING[0]) or texts.get(_REASONING[1], "")
    return reasoning, texts.get(key, "") + texts.get("refusal", "")
