"""The checks of accuracy/accuracy_results.json: whether every sample was answered, and whether the
counts and the average agree (commands/benchmark/accuracy.py, evaluation/accuracy_results.py).
"""

from __future__ import annotations

from typing import Any

from compliance.endpoints.result import ACCURACY, FIX, Result, lookup, number
from compliance.findings.check import judge, mismatch, shorten
from compliance.logs.digits import close
from formats.checks import Check, Fault, Faults

_PARTS = ("scored", "empty", "missing")
# An average is written with all digits.
_DIGITS = 1e-9


def checks(result: Result) -> list[Check]:
    """The checks of accuracy_results.json."""
    where = {"file": result.show(ACCURACY), "fix": FIX}
    answered = f"{total(result.entries):.0f} answers"
    return [
        judge("accuracy-log", _unanswered(result.entries), answered, **where),
        judge("accuracy-score", _other_average(result), "the mean of its data sets", **where),
    ]


def total(entries: list[dict[str, Any]]) -> float:
    """The samples that all data sets issued."""
    return sum(number(entry, "total_samples") or 0 for entry in entries)


def average(entries: list[dict[str, Any]]) -> float | None:
    """The mean of the scores, weighted by the sizes of the data sets; None if none is a number."""
    scores, sizes = 0.0, 0.0
    for entry in entries:
        score, size = number(entry, "score"), number(entry, "unit_samples")
        if score is not None and size is not None and size > 0:
            scores += score * size
            sizes += size
    return scores / sizes if sizes else None


def _unanswered(entries: list[dict[str, Any]]) -> Faults:
    if not entries:
        yield "accuracy_scores has no data set"
    for entry in entries:
        name = shorten(entry.get("dataset_name"))
        for key in ("complete", "breakdown.complete"):
            stated = lookup(entry, key)
            if stated is not True and (key == "complete" or stated is not None):
                yield mismatch(f"{name}: {key}", repr(stated), "True", "a whole score has")
        unit, repeats = number(entry, "unit_samples"), number(entry, "num_repeats")
        issued = number(entry, "total_samples")
        if unit is None or repeats is None or issued != unit * repeats:
            product = f"unit_samples × num_repeats, {unit} × {repeats}"
            yield mismatch(f"{name}: total_samples", issued, product, "it must be")
        yield from _responses(name, entry.get("response_counts"), issued)


def _responses(name: str, counts: Any, issued: float | None) -> Faults:
    """Yield a fault for each count of answers that is wrong. An empty answer is a failed query, but
    only the rules' text refuses one.
    """
    parts = [number(counts, key) for key in _PARTS]
    if any(part is None for part in parts):
        yield Fault(f"{name}: response_counts is missing, or has no numbers", stricter=True)
        return
    scored, empty, missing = (part or 0 for part in parts)
    for stated, who in (
        (scored + empty + missing, "the sum of its answers"),
        (issued, "total_samples"),
    ):
        if number(counts, "issued") != stated:
            own = number(counts, "issued")
            yield mismatch(f"{name}: response_counts.issued", own, stated, f"{who} is")
    if missing:
        yield mismatch(f"{name}: missing answers", missing, 0)
    if empty:
        text = f"{name}: {empty:.0f} of {issued or 0:.0f} answers are empty"
        yield Fault(text, "0", f"{empty:.0f}", stricter=True)


def _other_average(result: Result) -> Faults:
    stated, expected = number(result.accuracy, "average_accuracy"), average(result.entries)
    if stated is None and expected is None:
        return
    if stated is None or expected is None or not close(stated, expected, _DIGITS):
        yield mismatch("average_accuracy", stated, expected, "the scores give")
