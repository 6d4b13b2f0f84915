"""Writes JSON files."""

from __future__ import annotations

import dataclasses
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


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not belong into a JSON file")
