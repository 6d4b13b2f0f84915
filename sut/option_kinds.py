"""Readers of options of a SUT that are neither words nor numbers. They raise ValueError, with one
sentence.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


def http_url(text: str) -> str:
    """The address of an OpenAI-compatible API, without a slash at its end."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not an address such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "contains more than host, port and path; a key is given by key-env or key-file"
        )
    return text.rstrip("/")


def file(text: str) -> str:
    """The absolute path of a file that exists."""
    path = Path(text).absolute()
    if not path.is_file():
        raise ValueError("there is no such file")
    return str(path)


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError("is not a number above 0")
    return value


def count(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("is not a whole number above 0")
    return int(text)


def several(text: str) -> int:
    """A whole number above 1."""
    if not text.isdecimal() or int(text) < 2:
        raise ValueError("is not a whole number above 1")
    return int(text)
