"""The checks of accuracy/accuracy_results.json, and of an official benchmark's rules: whether every
sample was answered, whether it may be measured with mlcommons/endpoints, how many samples its
accuracy needs, its limits on latencies, its accuracy, and its compliance tests
(commands/benchmark/accuracy.py, evaluation/accuracy_results.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from compliance.endpoints.result import (
    ACCURACY,
    FIX,
    SUMMARY,
    Result,
    lookup,
    number,
    numeric,
    percentiles,
)
from compliance.findings.check import judge, mismatch, not_applicable, quoted, shorten
from compliance.logs import files
from compliance.logs.digits import close
from compliance.rules import Benchmark
from formats.checks import Check, Fault, Faults

_TOKENS = "TOKENS_PER_SAMPLE"
# The latency of the whole answer; an estimate may be as long as its limit.
_WHOLE = "latency"
_UNKNOWN = (
    "neither the folder nor config.yaml nor the data set names a benchmark, so its limits are not"
    " known"
)
_PARTS = ("scored", "empty", "missing")
# An average is written with all digits.
_DIGITS = 1e-9
# The means of two runs of a data set, whose lengths the rules limit to 10 %, differ by less.
_OTHER_LENGTH = 0.25
_FIX = "run the test with `inference-endpoint audit`, and put its folder audit/ there"


def checks(result: Result) -> list[Check]:
    """The checks of accuracy_results.json and of the benchmark's rules, if it can be read. In the
    open division only a result without any score fails the latter.
    """
    if not result.accuracy:
        return []
    file, answered = result.show(ACCURACY), f"{total(result.entries):.0f} answers"
    scores = [*_wrong_scores(result), *_other_lengths(result)]
    results = [
        judge("accuracy-log", _unanswered(result.entries), answered, file, fix=FIX),
        judge("accuracy-score", scores, "the mean of its data sets", file, fix=FIX),
    ]
    if not result.summary:
        return results
    row = result.row
    is_open = result.place.division == "open"
    why = f"the open division may differ from {result.official}" if is_open else _UNKNOWN
    faults: list[Fault | str] = [*_no_score(result)]
    if row is None or is_open:
        results.append(not_applicable("benchmark", why))
        if not faults:
            return [*results, not_applicable("accuracy-target", why, file), *_tests(result)]
    else:
        good = f"counts and latencies are those of {result.official}"
        results.append(judge("benchmark", _misfits(result, row), good, result.show(SUMMARY)))
        faults += _inaccurate(result, row)
    good = ", ".join(f"{metric} {value:g}" for metric, value in _values(result).items())
    return [*results, judge("accuracy-target", faults, good, file), *_tests(result)]


def _tests(result: Result) -> list[Check]:
    """The checks of the compliance tests that mlcommons/endpoints has for the benchmark
    (submission_checker: checks/compliance_check.py, compliance_endpoints_check); none in the open
    division. Without a submission around the result there is no place for the files of a test.
    """
    model = result.model
    if model is None or result.place.division == "open":
        return []
    found = []
    for check_id, name in model.audit_tests.items() if result.place.benchmark else ():
        file = f"audit/audit_{name}.json"
        faults = _not_passed(result, file, name)
        found.append(judge(check_id, faults, "passed", result.show(file), fix=_FIX))
    if limits := model.mean_output_tokens:
        faults = _other_length(result, *limits)
        good, file = "the mean length is within its limits", result.show(SUMMARY)
        found.append(judge("test09", faults, good, file, fix="measure again"))
    return found


def _misfits(result: Result, row: Benchmark) -> Faults:
    if result.model is None:
        names = ", ".join(result.rules.endpoints.models)
        yield mismatch("the benchmark", result.official, names, "mlcommons/endpoints may measure")
    whole, issued = row.accuracy_sample_count or row.dataset_size, total(result.entries)
    if issued != whole:
        file, who = result.show(ACCURACY), f"{result.official} requires"
        yield mismatch(
            "the number of samples of the accuracy run", f"{issued:.0f}", whole, who, file=file
        )
    yield from _late(result, row)


def _late(result: Result, row: Benchmark) -> Iterator[Fault]:
    """Yield a fault for each early-stopping estimate over the benchmark's limits. A benchmark with
    limits on tokens has none on the whole answer (performance_check.py, latency_check, llm_check).
    """
    scenario = result.rules.scenarios.get(result.scenario)
    if scenario is None:
        return
    limits = row.token_latency_ns.get(result.scenario, {})
    whole = row.latency_ns.get(result.scenario)
    if whole is not None and not row.token_latencies:
        limits = {_WHOLE: whole}
    for kind, limit in limits.items():
        block = lookup(result.summary, f"{kind}.early_stopping_percentiles")
        estimate = dict(percentiles(block)).get(scenario.percentile)
        if estimate is None or estimate > limit or (estimate == limit and kind != _WHOLE):
            name = f"{kind}: the early-stopping estimate of percentile {scenario.percentile:g}"
            allowed = f"{'at most' if kind == _WHOLE else 'less than'} {limit}"
            yield mismatch(name, estimate, allowed, f"{result.official} has")


def _values(result: Result) -> dict[str, float]:
    """Metric → its value in accuracy_results.json, as that file has it."""
    row, model = result.row, result.model
    values: dict[str, float] = {}
    for metric in _metrics(row):
        keys = model.score_keys.get(metric, ()) if model else ()
        value = average(result.entries, keys, scalar=metric == _first_metric(row))
        if value is not None:
            values[metric] = value
    tokens = sum(number(e, "output_sequence_lengths.total") or 0 for e in result.entries)
    scored = sum(number(e, "response_counts.scored") or 0 for e in result.entries)
    if row and tokens and scored:
        values[_TOKENS] = tokens / scored
    return values


def _metrics(row: Benchmark | None) -> list[str]:
    """The metrics of a benchmark, in order, each once."""
    return [*dict.fromkeys((*row.accuracy, *row.accuracy_at_most))] if row else []


def _first_metric(row: Benchmark | None) -> str:
    """The metric of a score that is one value."""
    return next(iter(row.accuracy)) if row else ""


def _factor(result: Result, metric: str) -> float:
    """A value of accuracy_results.json times this is in the unit of the metric's limits."""
    return result.model.score_factor if result.model and metric != _TOKENS else 1.0


def _inaccurate(result: Result, row: Benchmark) -> Iterator[Fault]:
    """Yield a fault for each metric of the benchmark that is missing or outside its limits. The
    checker compares the score of some models only.
    """
    values = _values(result)
    for metric in _metrics(row):
        factor = _factor(result, metric)
        least = row.accuracy.get(metric, -math.inf)
        most = row.accuracy_at_most.get(metric, math.inf)
        value = values.get(metric)
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


def _no_score(result: Result) -> Iterator[str]:
    """Yield a sentence if there is no score, which the checker requires in every division."""
    scores = lookup(result.accuracy, "accuracy_scores")
    entries = scores if isinstance(scores, list) else []
    if all(lookup(entry, "score") is None for entry in entries):
        yield "accuracy_scores has no score"


def total(entries: list[dict[str, Any]]) -> float:
    """The samples that all data sets issued, as the checker counts them (endpoints_parser.py,
    _endpoint_accuracy_sample_count).
    """
    counts = []
    for entry in entries:
        stated = entry.get("total_samples")
        if stated is None:
            stated = lookup(entry, "response_counts.issued")
        counts.append(numeric(stated) or 0)
    return sum(counts)


def average(
    entries: list[dict[str, Any]], keys: Sequence[str], *, scalar: bool = True
) -> float | None:
    """The mean of a metric, weighted by the sizes of the data sets; None if no score has it.

    Args:
        keys: the keys of the metric in a score that has several values.
        scalar: whether a score that is one value is the metric's.
    """
    scores, sizes = 0.0, 0.0
    for entry in entries:
        score, size = entry.get("score"), number(entry, "unit_samples")
        value = numeric(score) if scalar else None
        if isinstance(score, dict):
            values = (numeric(score.get(key)) for key in keys)
            value = next((each for each in values if each is not None), None)
        if value is not None and size is not None and size > 0:
            scores += value * size
            sizes += size
    return scores / sizes if sizes else None


def _unanswered(entries: list[dict[str, Any]]) -> Faults:
    if not entries:
        yield "accuracy_scores has no data set"
    for entry in entries:
        name = shorten(entry.get("dataset_name") or "a data set")
        for key in ("complete", "breakdown.complete"):
            stated = lookup(entry, key)
            if stated is not True and (key == "complete" or stated is not None):
                yield mismatch(f"{name}: {key}", quoted(stated), "True", "a whole score has")
        unit, repeats = number(entry, "unit_samples"), number(entry, "num_repeats")
        issued = number(entry, "total_samples")
        if unit is None or repeats is None or issued != unit * repeats:
            product = f"unit_samples × num_repeats, {shorten(unit)} × {shorten(repeats)}"
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
        yield mismatch(f"{name}: response_counts.missing", missing, 0)
    if empty:
        text = f"{name}: response_counts.empty is {empty:.0f}; an empty answer is a failed query"
        yield Fault(text, "0", f"{empty:.0f}", stricter=True)


def _wrong_scores(result: Result) -> Faults:
    """Yield a fault for an average that the scores do not give, and for each value that its metric
    cannot have. Scores of several values have no average (commands/benchmark/accuracy.py).
    """
    model, stated = result.model, number(result.accuracy, "average_accuracy")
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
    for metric, value in _values(result).items():
        most = result.rules.accuracy_most.get(metric, math.inf) / _factor(result, metric)
        if not 0 <= value <= most:
            yield f"{metric} is {value}; it must be a number from 0 to {most:g}"


def _other_lengths(result: Result) -> Faults:
    """Yield a fault if answers are longer or shorter while measuring than in the accuracy run, for
    a benchmark that limits the length of answers.
    """
    row, measured = result.row, number(result.summary, "output_sequence_lengths.avg")
    scored = _values(result).get(_TOKENS)
    if row is None or _TOKENS not in row.accuracy or measured is None or scored is None:
        return
    if not close(measured, scored, _OTHER_LENGTH):
        who = "the answers of the accuracy run have on average"
        yield mismatch("output_sequence_lengths.avg", measured, f"{scored:g}", who)


def _not_passed(result: Result, file: str, name: str) -> Faults:
    outcome, why = files.attempt(files.json_object, result.place.folder / file)
    if outcome is None:
        yield why
    elif outcome.get("test") != name:
        yield mismatch("test", quoted(outcome.get("test")), repr(name), "the file is of")
    elif outcome.get("passed") is not True:
        yield mismatch("passed", quoted(outcome.get("passed")), "True", "a passed test has")


def _other_length(result: Result, least: float, most: float) -> Faults:
    mean = number(result.summary, "output_sequence_lengths.avg")
    if mean is None or not least <= mean <= most:
        who = f"{result.official} requires"
        yield mismatch("output_sequence_lengths.avg", mean, f"{least} to {most}", who)
