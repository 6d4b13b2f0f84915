"""The check that result.json and record.json follow from the other files of their run, which are
derived again here.

The harness hands in how it derives them. So nothing of the harness is needed to audit the
directories of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from compliance import sources
from compliance.checks.run.record import differing
from compliance.findings.check import failed, judge, mismatch, not_applicable, quoted
from compliance.findings.verdict import Audit
from compliance.logs import files
from compliance.scoring import value
from compliance.scoring.value import Accuracy
from compliance.sources import Sources
from compliance.training import losses, run_directory
from formats.checks import Check, Fault, Faults, Verdict
from formats.record import Record
from formats.result import Result

_ID = "derived-files"
_SENTENCES = ("reason", "warnings", "unranked", "evidence.sentence")
"""Sentences, which another release may word otherwise. Of those it is compared how many there
are.
"""


@dataclass(frozen=True)
class Harness:
    """How the harness derives its files.

    Attributes:
        result: (files of a run, audit of its directory without result.json) → result.json.
        facts: what the harness says of record.json: field → (its value, the one that follows).
        revision: that of the harness; None: it is not known.
    """

    result: Callable[[Sources, Audit], Result]
    facts: Callable[[Sources], Iterable[tuple[str, tuple[Any, Any]]]]
    revision: Callable[[], str | None]


def check(run: Path, audit: Audit, harness: Harness) -> Check:
    """The check of result.json.

    Args:
        audit: the audit of the run directory without its result.json.
    """
    file = "result.json"
    record, why = files.attempt(files.record, run / "record.json")
    if record is None:
        return not_applicable(_ID, f"it cannot be derived again: {why}", file)
    stated, why = files.attempt(files.result, run / "result.json")
    if stated is None:
        return failed(_ID, why, file)
    faults, why = files.reckon(partial(_faults, run, record, stated, audit, harness))
    if faults is None:
        return failed(_ID, f"it cannot be derived again: {why}", file)
    return judge(_ID, faults, "it follows from the other files of the run", file)


def _faults(
    run: Path, record: Record, stated: Result, audit: Audit, harness: Harness
) -> list[Fault | str]:
    found = sources.read(run, record, _score(run, record))
    who = "the harness and the other files give"
    faults = list(differing(dict(harness.facts(found)), who, "record.json"))
    same = record.git.revision == harness.revision()
    follows = _compared(harness.result(found, audit), same)
    faults += _differences("", _compared(stated, same), follows, () if same else _SENTENCES)
    return faults


def _score(run: Path, record: Record) -> Accuracy | str:
    """The accuracy, as accuracy.txt states it. Another check computes it again."""
    text = sources.accuracy_text(run, record)
    if text:
        lines = text.split("\n")
        return value.stated(lines[1] if record.official else lines[0])
    return losses.stated(run_directory.read(run))


def _compared(result: Result, same: bool) -> dict[str, Any]:
    """The values that are compared. The folder may have been moved, and another release may have
    more checks that pass. `same`: whether this release wrote them.
    """
    values = asdict(result)
    del values["directory"]
    if not same:
        values["audit"] = values["audit"].get(Verdict.FAIL.value, 0)
    return values


def _differences(name: str, stated: Any, follows: Any, other_words: Collection[str]) -> Faults:
    """Yield a fault for each value that differs. Sentences of `other_words` are counted."""
    if isinstance(stated, Mapping) and isinstance(follows, Mapping):
        for key in sorted({*stated, *follows}):
            inner = f"{name}.{key}" if name else key
            yield from _differences(inner, stated.get(key), follows.get(key), other_words)
        return
    if name in other_words:
        stated = _count(stated)
        follows = _count(follows)
    are_lists = isinstance(stated, list | tuple) and isinstance(follows, list | tuple)
    if are_lists and len(stated) == len(follows):
        for number, (one, other) in enumerate(zip(stated, follows, strict=True)):
            yield from _differences(f"{name}[{number}]", one, other, other_words)
    elif not _equal(name, stated, follows):
        yield mismatch(f"result.json: {name}", quoted(stated), quoted(follows), "it follows that")


def _count(sentences: Any) -> int:
    """How many sentences there are. A text is one, and an empty text none."""
    if isinstance(sentences, str):
        return int(bool(sentences))
    return len(sentences or ())


def _equal(name: str, stated: Any, follows: Any) -> bool:
    if isinstance(stated, float | int) and isinstance(follows, float):
        # accuracy.txt has five digits.
        digits = 1e-4 if name.startswith("accuracy.") else 1e-6
        return math.isclose(stated, follows, rel_tol=digits, abs_tol=1e-12)
    return bool(stated == follows)
