"""The checks of accuracy/accuracy_results.json, and of an official benchmark's rules: whether every
sample was answered, whether it may be measured with mlcommons/endpoints, how many samples its
accuracy needs, its limits on latencies, its accuracy, and its compliance tests
(commands/benchmark/accuracy.py, evaluation/accuracy_results.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from compliance.endpoints.result import (
    ACCURACY,
    FIX,
    SUMMARY,
    Result,
    lookup,
    number,
    percentiles,
)
from compliance.findings.check import judge, mismatch, not_applicable, shorten
from compliance.logs import files
from compliance.logs.digits import close
from compliance.rules import Benchmark, EndpointsModel
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
_FIX = "run the test with `inference-endpoint audit`, and put its folder audit/ there"


def checks(result: Result) -> list[Check]:
    """The checks of accuracy_results.json and of the benchmark's rules, if it can be read. In the
    open division only impossible scores fail the latter.
    """
    if not result.accuracy:
        return []
    file, answered = result.show(ACCURACY), f"{total(result.entries):.0f} answers"
    results = [
        judge("accuracy-log", _unanswered(result.entries), answered, file, fix=FIX),
        judge("accuracy-score", _other_average(result), "the mean of its data sets", file, fix=FIX),
    ]
    if not result.summary:
        return results
    row, model = result.row, result.model
    is_open = result.place.division == "open"
    why = f"the open division may differ from {result.official}" if is_open else _UNKNOWN
    faults: list[Fault | str] = [*_impossible(result, row, model)]
    if row is None or is_open:
        results.append(not_applicable("benchmark", why))
        if not faults:
            return [*results, not_applicable("accuracy-target", why, file), *_tests(result)]
    else:
        good = f"counts and latencies are those of {result.official}"
        results.append(judge("benchmark", _misfits(result, row), good, result.show(SUMMARY)))
        faults += _inaccurate(result, row, model)
    good = ", ".join(f"{metric} {value:g}" for metric, value in _values(result, row, model))
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
        yield mismatch("the samples of the accuracy run", f"{issued:.0f}", whole, who, file=file)
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


def _values(
    result: Result, row: Benchmark | None, model: EndpointsModel | None
) -> Iterator[tuple[str, float]]:
    """(metric, value) of each metric that accuracy_results.json gives."""
    if row is None:
        return
    factor = model.score_factor if model else 1.0
    score = average(result.entries)
    if score is not None:
        yield next(iter(row.accuracy)), score * factor
    score_keys = model.score_keys if model else {}
    for metric, key in score_keys.items():
        value = number(result.entries[0] if result.entries else {}, f"score.{key}")
        if value is not None:
            yield metric, value
    tokens = sum(number(e, "output_sequence_lengths.total") or 0 for e in result.entries)
    scored = sum(number(e, "response_counts.scored") or 0 for e in result.entries)
    if tokens and scored:
        yield _TOKENS, tokens / scored


def _inaccurate(result: Result, row: Benchmark, model: EndpointsModel | None) -> Iterator[Fault]:
    """Yield a fault for each metric of the benchmark that is missing or outside its limits."""
    values = dict(_values(result, row, model))
    for metric in dict.fromkeys((*row.accuracy, *row.accuracy_at_most)):
        least = row.accuracy.get(metric, -math.inf)
        most = row.accuracy_at_most.get(metric, math.inf)
        value = values.get(metric)
        stricter = metric == _TOKENS or model is None or not model.score_checked
        if value is None and metric in row.accuracy and metric != _TOKENS:
            yield Fault(f"{metric} is missing; {result.official} requires at least {least}")
        elif value is not None and not least <= value <= most:
            limit = f"at least {least}" if value < least else f"at most {most}"
            text = f"{metric} is {value}; {result.official} requires {limit}"
            yield Fault(text, limit, str(value), stricter=stricter)


def _impossible(
    result: Result, row: Benchmark | None, model: EndpointsModel | None
) -> Iterator[str]:
    """Yield a sentence for a score that no division allows."""
    scores = [entry.get("score") for entry in result.entries]
    if not any(isinstance(score, dict | int | float) for score in scores):
        yield "accuracy_scores has no score"
    for metric, value in _values(result, row, model):
        most = result.rules.accuracy_most.get(metric, math.inf)
        if not 0 <= value <= most:
            yield f"{metric} is {value}; it must be a number from 0 to {most:g}"


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


def _not_passed(result: Result, file: str, name: str) -> Faults:
    outcome, why = files.attempt(files.json_object, result.place.folder / file)
    if outcome is None:
        yield why
    elif outcome.get("test") != name:
        yield mismatch("test", repr(outcome.get("test")), repr(name), "the file is of")
    elif outcome.get("passed") is not True:
        yield mismatch("passed", repr(outcome.get("passed")), "True", "a passed test has")


def _other_length(result: Result, least: float, most: float) -> Faults:
    mean = number(result.summary, "output_sequence_lengths.avg")
    if mean is None or not least <= mean <= most:
        who = f"{result.official} requires"
        yield mismatch("output_sequence_lengths.avg", mean, f"{least} to {most}", who)
