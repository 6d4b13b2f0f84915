"""Converts JSON documents to the types of this package. Workers do not import this module, because
their environments have no msgspec.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from formats import bounds
from formats import record as records
from formats import result as results
from formats.cell import Cell
from formats.job import Job
from formats.limits import Measured
from formats.outcome import WorkerOutcome
from formats.profile import StepProfile
from formats.record import Record
from formats.result import Result
from formats.work import Counted

T = TypeVar("T")
_LARGEST_BYTES = 64 << 20  # no document of ours comes near this
_CELL_FIELDS = {field.name for field in dataclasses.fields(Cell)}


def record(document: Any) -> Record:
    """The record that a parsed record.json holds. Raises ValueError with one sentence for anything
    else.
    """
    return _of_a_cell(document, Record, records.SCHEMA)


def result(document: Any) -> Result:
    """The result that a parsed result.json holds. Raises ValueError with one sentence for anything
    else.
    """
    return _of_a_cell(_without_empty(document), Result, results.SCHEMA)


def job(document: Any) -> Job:
    """The job that a parsed job.json holds. Raises ValueError with one sentence for anything
    else.
    """
    return _converted(document, Job)


def outcome(document: Any) -> WorkerOutcome:
    """The outcome that a parsed outcome.json holds. Raises ValueError with one sentence for
    anything else.
    """
    return _converted(_without_empty(document), WorkerOutcome)


def counted(document: Any) -> Counted:
    """The work that a parsed work.json holds. Raises ValueError with one sentence for anything
    else.
    """
    return _converted(document, Counted)


def step_profile(document: Any) -> StepProfile:
    """The profile that a worker wrote. Raises ValueError with one sentence for anything else."""
    return _converted(document, StepProfile)


def limits(document: Any) -> Measured:
    """The limits that a parsed limits.json holds. Raises ValueError with one sentence for anything
    else.
    """
    return _converted(document, Measured)


def from_file(path: Path, read: Callable[[Any], T]) -> T:
    """The result of `read` for the content of a JSON file. Raises OSError, or ValueError with one
    sentence.
    """
    if (size := path.stat().st_size) > _LARGEST_BYTES:
        raise ValueError(f"it has {size:,} bytes, and at most {_LARGEST_BYTES:,} are read")
    return read(json.loads(bounds.content(path, bounds.JSON)))


def _of_a_cell(document: Any, kind: type[T], schema: str) -> T:
    """Convert a document. Also raises ValueError for another schema than `schema`, and for a key of
    `cell` that this release does not know, because different cells would look equal.
    """
    if isinstance(document, dict) and (found := document.get("schema")) != schema:
        raise ValueError(
            f"it is of an earlier release (its schema is {str(found)[:40]}, and this release reads"
            f" {schema}): read it with that release, or measure again"
        )
    cell = document.get("cell") if isinstance(document, dict) else None
    unknown = sorted(cell.keys() - _CELL_FIELDS) if isinstance(cell, dict) else []
    if unknown:
        raise ValueError(f"its cell has the unknown key {unknown[0][:40]!r}")
    return _converted(document, kind)


def _without_empty(document: Any) -> Any:
    """The document without the parts that are `{}`: earlier releases wrote it for what is not
    there.
    """
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if value != {}}


def _converted(document: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind, strict=True, dec_hook=_decode)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise ValueError(re.sub(r" - at `\$\.?(.*)`$", r" in \1", str(e))) from None


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"expected a path, got {type(value).__name__}")
