"""Reads the messages of a chat in OpenAI's form, from a user's file or from a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Messages = list[dict[str, Any]]
"""A conversation."""
_SHOWN = 60


def read(value: Any) -> Messages:
    """Return the messages, each with the string `role` and one text as its `content`. Raises
    ValueError for anything else.

    Args:
        value: a list of messages. Their `content` is a string or a list of text parts, which are
            joined. An assistant's may be null, as that of a call of a tool is.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("at least one message is needed")
    return [_message(each) for each in value]


def _message(value: Any) -> dict[str, Any]:
    message = value if isinstance(value, Mapping) else {}
    content = message.get("content")
    if content is None and message.get("role") == "assistant":
        content = ""
    if isinstance(content, list) and content:
        content = "".join(map(_text, content))
    if not (isinstance(message.get("role"), str) and isinstance(content, str)):
        raise ValueError(
            "each message is an object with the string `role` and with `content`, a string or a"
            f" list of text parts; found {shown(value)}"
        )
    return {**message, "content": content}


def _text(part: Any) -> str:
    """The text of a part of a message."""
    if not isinstance(part, Mapping) or part.get("type") != "text":
        kind = part.get("type") if isinstance(part, Mapping) else part
        raise ValueError(f"only text parts are read, and one is of the type {shown(kind)}")
    text = part.get("text")
    if not isinstance(text, str):
        raise ValueError(f"a text part has a string `text`; found {shown(part)}")
    return text


def shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    return repr(value)[:_SHOWN]
