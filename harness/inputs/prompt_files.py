"""Read the prompts of a user's file (`--dataset FILE`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError


@dataclass(frozen=True)
class Prompt:
    """One prompt of a file. `line`: its first line, from 1. `label`: the value in the file."""

    text: str
    line: int
    max_new_tokens: int | None = None
    label: Any = None


def read(path: Path, labels: bool = False) -> tuple[list[Prompt], tuple[str, ...]]:
    """Read the prompts of a .jsonl file (one object with `prompt` a line) or of any other text (one
    prompt a paragraph). Also returns notes about the file.

    Args:
        labels: whether labels are used; if not, a note says so.

    Raises UsageError with file and line for anything that is not a prompt. Nothing is skipped.
    """
    if path.suffix.lower() in (".json", ".csv", ".tsv"):
        raise UsageError(
            f"--dataset {path}: is neither text nor JSON Lines (.jsonl, one object with `prompt` a"
            " line): convert the file"
        )
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise UsageError(f"--dataset {path}: cannot be read ({e.strerror})") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: not UTF-8 (byte 0x{raw[e.start]:02x}): convert the file"
        ) from None
    lines = path.suffix.lower() in (".jsonl", ".ndjson")
    prompts, notes = _json_lines(path, text, labels) if lines else (_paragraphs(text), ())
    if not lines and len(prompts) == 1 and (count := prompts[0].text.count("\n") + 1) > 1:
        notes = (f"the {count} lines of {path.name} are one prompt: an empty line ends a prompt",)
    if not prompts:
        raise UsageError(
            f"--dataset {path}: no prompt in it: one paragraph of text, or one JSON object with"
            " `prompt` a line (.jsonl)"
        )
    return prompts, notes


def _paragraphs(text: str) -> list[Prompt]:
    prompts: list[Prompt] = []
    block: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            block.append(line.rstrip("\r"))
        elif block:
            prompts.append(Prompt("\n".join(block), number - len(block)))
            block = []
    return prompts


def _json_lines(path: Path, text: str, labels: bool) -> tuple[list[Prompt], tuple[str, ...]]:
    prompts, other = [], set()
    if not text.strip():
        return [], ()
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"{path}:{number}"
        if not line.strip():
            raise UsageError(f"{where}: an empty line: each line is an object with `prompt`")
        try:
            row = json.loads(line)
        except ValueError as e:
            raise UsageError(
                f'{where}: not JSON ({e}): each line is an object such as {{"prompt": "…"}}'
            ) from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"]:
            raise UsageError(
                f"{where}: each line is an object with a non-empty string `prompt`; found"
                f" {line[:60]!r}"
            )
        if not _encodable(row["prompt"]):
            raise UsageError(
                f"{where}: the prompt holds half of a surrogate pair, which is no character: write"
                " it as UTF-8"
            )
        new = row.get("max_new_tokens")
        if new is not None and (not isinstance(new, int) or isinstance(new, bool) or new < 1):
            raise UsageError(
                f"{where}: `max_new_tokens` is a whole number from 1 on; found {new!r}"
            )
        other |= set(row) - {"prompt", "max_new_tokens", *(("label",) if labels else ())}
        prompts.append(Prompt(row["prompt"], number, new, row.get("label")))
    return prompts, (
        (f"fields of {path.name} that are not used: {', '.join(sorted(other))}",) if other else ()
    )


def _encodable(text: str) -> bool:
    """False if the text contains half of a surrogate pair, which JSON allows and UTF-8 cannot
    encode.
    """
    return not any("\ud800" <= character <= "\udfff" for character in text)


def count(path: Path) -> int:
    """The number of prompts in a file. Raises UsageError as `read` does."""
    return len(read(path)[0])
