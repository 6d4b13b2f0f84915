"""The JSON documents of answers, in OpenAI's format."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.serving.protocol import Completion


@dataclass(frozen=True)
class Usage:
    """Tokens of a request."""

    prompt: int
    new: int

    def document(self) -> dict[str, int]:
        """OpenAI's form."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.new,
            "total_tokens": self.prompt + self.new,
        }


class Answers:
    """The JSON documents of one request's answers."""

    def __init__(self, asked: Completion, model: str):
        kind = "chat.completion" if asked.chat else "text_completion"
        if asked.chat and asked.stream:
            kind = "chat.completion.chunk"
        self._chat = asked.chat
        self._head = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def first(self, index: int) -> dict[str, Any]:
        """The first part of a streamed answer of a chat: its role."""
        delta = {"role": "assistant", "content": ""}
        return {**self._head, "choices": [_choice(index, None, delta=delta)]}

    def part(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        """A further part of a streamed answer."""
        content: Mapping[str, Any] = {"delta": {"content": text}} if self._chat else {"text": text}
        return {**self._head, "choices": [_choice(index, reason, **content)]}

    def usage(self, usage: Usage) -> dict[str, Any]:
        """The last part of a stream that reports its tokens."""
        return {**self._head, "choices": [], "usage": usage.document()}

    def whole(self, texts: Sequence[str], reasons: Sequence[str], usage: Usage) -> dict[str, Any]:
        """All answers at once."""
        choices = []
        for index, (text, reason) in enumerate(zip(texts, reasons, strict=True)):
            message = {"role": "assistant", "content": text}
            content = {"message": message} if self._chat else {"text": text}
            choices.append(_choice(index, reason, **content))
        return {**self._head, "choices": choices, "usage": usage.document()}

    def scored(
        self, texts: Sequence[str], scores: Sequence[Mapping[str, Any]], usage: Usage
    ) -> dict[str, Any]:
        """The log probabilities of all prompts, by OpenAI's names."""
        document = self.whole(texts, ["length"] * len(texts), usage)
        for choice, score in zip(document["choices"], scores, strict=True):
            choice["logprobs"] = score
        return document


def _choice(index: int, reason: str | None, **content: Any) -> dict[str, Any]:
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}
