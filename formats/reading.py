"""Converts JSON documents to the types of this package. Workers do not import this module, because
their environments have no msgspec.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from formats import bounds
from formats import record as records
from formats import result as results
from formats.cell import Cell
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Result

T = TypeVar("T")
_LARGEST_BYTES = 64 << 20  # no document of ours comes near this
_CELL_FIELDS = {field.name for field in dataclasses.fields(Cell)}
_SCHEMAS = {Record: records.SCHEMA, Result: results.SCHEMA}
"""Type of a document with a cell → the schema that it names."""


def from_file(path: Path, kind: type[T]) -> T:
    """The value that a JSON file holds. Raises OSError, or ValueError with one sentence."""
    if (size := path.stat().st_size) > _LARGEST_BYTES:
        raise ValueError(f"it has {size:,} bytes, and at most {_LARGEST_BYTES:,} are read")
    return convert(json.loads(bounds.content(path, bounds.JSON)), kind)


def convert(document: Any, kind: type[T]) -> T:
    """The value that a parsed document holds: a `Record`, `Result`, `Job`, `WorkerOutcome` or
    another dataclass of this package. Raises ValueError with one sentence for anything else.

    That includes a document with another schema, and a key of `cell` that this release does not
    know, because different cells would look equal.
    """
    if isinstance(document, dict):
        if kind in _SCHEMAS:
            _check_cell(document, _SCHEMAS[kind])
        if kind in (Result, WorkerOutcome):
            # Earlier releases wrote `{}` for what is not there.
            document = {key: value for key, value in document.items() if value != {}}
    try:
        return msgspec.convert(document, kind, strict=True, dec_hook=_decode)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise ValueError(re.sub(r" - at `\$\.?(.*)`$", r" in \1", str(e))) from None


def _check_cell(document: dict[str, Any], schema: str) -> None:
    found = document.get("schema")
    if found != schema:
        raise ValueError(
            f"it is of an earlier release (its schema is {str(found)[:40]}, and this release reads"
            f" {schema}): read it with that release, or measure again"
        )
    cell = document.get("cell")
    unknown = sorted(cell.keys() - _CELL_FIELDS) if isinstance(cell, dict) else []
    if unknown:
        raise ValueError(f"its cell has the unknown key {unknown[0][:40]!r}")


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"expected a path, got {type(value).__name__}")
