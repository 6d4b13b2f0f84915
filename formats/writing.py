"""Writes and reads JSON files, and names folders by the digest of a JSON value."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write a dataclass or JSON value atomically. The final name never has half a file."""
    temporary = path.with_name(path.name + ".tmp")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, default=_plain, indent=1, ensure_ascii=False) + "\n"
    # A path that is not UTF-8 is written with escapes.
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The JSON value in one of this project's own files. Raises OSError, and ValueError if the file
    has none.
    """
    return json.loads(path.read_text(encoding="utf-8"))


def json_digest(value: Any, digits: int) -> str:
    """The first hex digits of the sha256 of a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:digits]


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not belong into a JSON file")
