"""The scores of accuracy/accuracy_results.json: the metrics that it gives, and their faults
(commands/benchmark/accuracy.py, evaluation/scoring.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compliance.endpoints.result import LENGTHS, Result, number, numeric
from compliance.findings.check import mismatch
from compliance.logs.digits import close
from compliance.logs.strict_json import Document, lookup
from compliance.rules import Benchmark
from formats.checks import Fault, Faults

_TOKENS = "TOKENS_PER_SAMPLE"
# An average is written with all digits.
_DIGITS = 1e-9
# The means of two runs of a data set, whose lengths the rules limit to 10 %, differ by less.
_OTHER_LENGTH = 0.25


def values(result: Result) -> dict[str, float]:
    """Metric → its value in accuracy_results.json, as that file has it."""
    row = result.row
    model = result.model
    found: dict[str, float] = {}
    entries = result.entries
    for metric in row.metrics if row else ():
        keys = model.score_keys.get(metric, ()) if model else ()
        value = average(entries, keys, scalar=metric == _first_metric(row))
        if value is not None:
            found[metric] = value
    tokens = sum(number(e, f"{LENGTHS}.total") or 0 for e in entries)
    scored = sum(number(e, "response_counts.scored") or 0 for e in entries)
    if row and tokens and scored:
        found[_TOKENS] = tokens / scored
    return found


def _first_metric(row: Benchmark | None) -> str:
    """The metric of a score that is one value."""
    return next(iter(row.accuracy)) if row else ""


def _factor(result: Result, metric: str) -> float:
    """A value of accuracy_results.json times this is in the unit of the metric's limits."""
    return result.model.score_factor if result.model and metric != _TOKENS else 1.0


def inaccurate(result: Result, row: Benchmark) -> Faults:
    """Yield a fault for each metric of the benchmark that is missing or outside its limits. The
    checker compares the score of some models only.
    """
    given = values(result)
    for metric in row.metrics:
        factor = _factor(result, metric)
        least = row.accuracy.get(metric, -math.inf)
        most = row.accuracy_at_most.get(metric, math.inf)
        value = given.get(metric)
        stricter = metric == _TOKENS or result.model is None or not result.model.score_checked
        if value is None and metric in row.accuracy and metric != _TOKENS:
            text = f"{metric} is missing; {result.official} requires at least {least / factor:.12g}"
            yield Fault(text, stricter=stricter)
        elif value is not None and not least <= value * factor <= most:
            limit = f"at least {least / factor:.12g}"
            if value * factor > most:
                limit = f"at most {most / factor:.12g}"
            text = f"{metric} is {value}; {result.official} requires {limit}"
            yield Fault(text, limit, str(value), stricter=stricter)


def no_score(result: Result) -> Faults:
    """Yield a sentence if there is no score, which the checker requires in every division."""
    scores = lookup(result.accuracy, "accuracy_scores")
    entries = scores if isinstance(scores, list) else []
    if all(lookup(entry, "score") is None for entry in entries):
        yield "accuracy_scores has no score"


def average(entries: list[Document], keys: Sequence[str], *, scalar: bool = True) -> float | None:
    """The mean of a metric, weighted by the sizes of the data sets; None if no score has it.

    Args:
        keys: the keys of the metric in a score that has several values.
        scalar: whether a score that is one value is the metric's.
    """
    scores = 0.0
    sizes = 0.0
    for entry in entries:
        score = entry.get("score")
        size = number(entry, "unit_samples")
        value = numeric(score) if scalar else None
        if isinstance(score, dict):
            each_value = (numeric(score.get(key)) for key in keys)
            value = next((each for each in each_value if each is not None), None)
        if value is not None and size is not None and size > 0:
            scores += value * size
            sizes += size
    return scores / sizes if sizes else None


def wrong_scores(result: Result) -> Faults:
    """Yield a fault for an average that the scores do not give, and for each value that its metric
    cannot have. Scores of several values have no average (commands/benchmark/accuracy.py).
    """
    model = result.model
    stated = number(result.accuracy, "average_accuracy")
    keys = model.score_keys.get(_first_metric(result.row), ()) if model else ()
    expected = average(result.entries, keys)
    several = any(isinstance(entry.get("score"), dict) for entry in result.entries)
    if expected is None:
        if stated is not None and not several:
            yield f"average_accuracy is {stated}; no score is a number"
    elif stated is None:
        if not several:
            yield mismatch("average_accuracy", stated, expected, "the scores give")
    elif not close(stated, expected, _DIGITS):
        yield mismatch("average_accuracy", stated, expected, "the scores give")
    for metric, value in values(result).items():
        most = result.rules.accuracy_most.get(metric, math.inf) / _factor(result, metric)
        if not 0 <= value <= most:
            yield f"{metric} is {value}; it must be a number from 0 to {most:g}"


def other_lengths(result: Result) -> Faults:
    """Yield a fault if answers are longer or shorter while measuring than in the accuracy run, for
    a benchmark that limits the length of answers.
    """
    row = result.row
    measured = number(result.summary, f"{LENGTHS}.avg")
    scored = values(result).get(_TOKENS)
    if row is None or _TOKENS not in row.accuracy or measured is None or scored is None:
        return
    if not close(measured, scored, _OTHER_LENGTH):
        who = "the answers of the accuracy run have on average"
        yield mismatch(f"{LENGTHS}.avg", measured, f"{scored:g}", who)
