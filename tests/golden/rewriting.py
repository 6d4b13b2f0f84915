"""Changes the form of golden run directories, as a commit changes the form of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from formats.writing import write_json


def main(folder: Path, name: Path, *changes: str) -> int:
    """Apply the changes to each file of that name below the folder."""
    count = 0
    for path in sorted(folder.rglob(name.name)):
        document = json.loads(path.read_text(encoding="utf-8"))
        before = json.dumps(document)
        for change in changes:
            rewrite(document, change)
        if json.dumps(document) != before:
            write_json(path, document)
            count += 1
    print(f"{count} files are changed")
    return 0


def rewrite(document: dict[str, Any], change: str) -> None:
    """Apply `FIELD=FIELD` (move), `FIELD=` (remove) or `FIELD:=JSON` (set). A document that lacks
    the field, or the object that holds it, stays as it is.
    """
    field, _, target = change.partition("=")
    if field.endswith(":"):
        _put(document, field.removesuffix(":"), json.loads(target))
        return
    holder, key = _place(document, field)
    if holder is None or key not in holder:
        return
    value = holder.pop(key)
    if target:
        _put(document, target, value)


def _put(document: dict[str, Any], field: str, value: Any) -> None:
    holder, key = _place(document, field)
    if holder is not None:
        holder[key] = value


def _place(document: dict[str, Any], field: str) -> tuple[dict[str, Any] | None, str]:
    """The object that has the field, and its key there. None: there is no such object."""
    *parents, key = field.split(".")
    holder: Any = document
    for parent in parents:
        holder = holder.get(parent) if isinstance(holder, dict) else None
    return (holder if isinstance(holder, dict) else None), key
