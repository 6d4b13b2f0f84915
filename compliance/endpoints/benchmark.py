"""The checks of an official benchmark's rules: whether it may be measured with mlcommons/endpoints,
how many samples its accuracy needs, its limits on latencies, and its accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compliance.endpoints.accuracy import average, total
from compliance.endpoints.result import (
    ACCURACY,
    SUMMARY,
    Result,
    lookup,
    number,
    percentiles,
)
from compliance.findings.check import judge, mismatch, not_applicable
from compliance.rules import Benchmark, EndpointsModel
from formats.checks import Check, Fault, Faults

_TOKENS = "TOKENS_PER_SAMPLE"
# The latency of the whole answer; an estimate may be as long as its limit.
_WHOLE = "latency"
_UNKNOWN = (
    "neither the folder nor config.yaml nor the data set names a benchmark, so its limits are not"
    " known"
)


def checks(result: Result) -> list[Check]:
    """The checks of the benchmark's rules. In the open division only impossible scores fail."""
    row, model = result.row, result.model
    is_open = result.place.division == "open"
    why = f"the open division may differ from {result.official}" if is_open else _UNKNOWN
    if row is None or is_open:
        judged = [not_applicable("benchmark", why)]
    else:
        good = f"counts and latencies are those of {result.official}"
        file = result.show(SUMMARY)
        judged = [judge("benchmark", _misfits(result, row), good, file=file)]
    faults: list[Fault | str] = [*_impossible(result, row, model)]
    if row is not None and not is_open:
        faults += _inaccurate(result, row, model)
    file = result.show(ACCURACY)
    if not faults and (row is None or is_open):
        return [*judged, not_applicable("accuracy-target", why, file=file)]
    good = ", ".join(f"{metric} {value:g}" for metric, value in _values(result, row, model))
    return [*judged, judge("accuracy-target", faults, good, file=file)]


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
