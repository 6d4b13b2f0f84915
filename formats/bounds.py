"""Refuses a file before it is read if reading it may need more memory than is available.

A reader states how many bytes of memory it may need for each byte of the file, or for each byte
that a member of an archive unpacks to. Those of JSON and of tokenizers were measured on files of
the worst content. The others are counts of the copies that a reader makes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PLAIN = 1
"""The bytes themselves."""
LOG = 2
ARRAYS = 3
COPIED = 3
"""Answers of a log; arrays that are brought into the dtype of an input; weights that are saved
again.
"""
MERGED = 4
"""Weights of two bytes into which an adapter is merged in float32 (3.0 were measured)."""
TEXT = 12
"""Prompts: text of four bytes a character, in three copies."""
PROMPT = 1000
"""The bytes of memory of a prompt, without its text."""
TOKENIZER = 20
"""A tokenizer with its vocabulary (16 were measured)."""
JSON = 30
"""Values of a JSON document (27 were measured, of a list of empty lists)."""

_ALWAYS_BYTES = 16 << 20


class TooLarge(Exception):
    """The error for a file that is not read. The message is a whole sentence."""


def _unknown() -> int | None:
    return None


available_bytes: Callable[[], int | None] = _unknown
"""Returns the bytes of memory that are available. The command line sets it (harness/cli.py)."""


def check(name: Path | str, size_bytes: int, multiple: int) -> None:
    """Raises TooLarge if `size_bytes`, each of which may need `multiple` bytes of memory, need more
    than is available. Nothing is checked below 16 MiB, or if the system does not report its memory.
    """
    need_bytes = size_bytes * multiple
    if need_bytes <= _ALWAYS_BYTES:
        return
    available = available_bytes()
    if available is not None and need_bytes > available:
        raise TooLarge(
            f"{name}: reading its {size_bytes / 1e6:,.0f} MB may need {need_bytes / 1e9:.1f} GB of"
            f" memory, and {available / 1e9:.1f} GB are available: give a smaller file, or use a"
            " machine with more memory"
        )


def content(path: Path, multiple: int) -> bytes:
    """The bytes of a file. Raises OSError, and TooLarge as `check` does."""
    check(path, path.stat().st_size, multiple)
    return path.read_bytes()
