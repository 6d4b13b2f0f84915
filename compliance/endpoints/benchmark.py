"""The checks of accuracy/accuracy_results.json, and of an official benchmark's rules: whether every
sample was answered, whether it may be measured with mlcommons/endpoints, how many samples its
accuracy needs, its limits on latencies, its accuracy, and its compliance tests
(commands/benchmark/accuracy.py, evaluation/accuracy_results.py).
"""

from __future__ import annotations

from typing import Any

from compliance.endpoints import scores
from compliance.endpoints.result import (
    ACCURACY,
    FIX,
    SUMMARY,
    Result,
    number,
    numeric,
    percentiles,
)
from compliance.findings.check import judge, mismatch, not_applicable, quoted, shorten
from compliance.logs import files
from compliance.logs.strict_json import Document, lookup
from compliance.rules import Benchmark
from formats.checks import Checks, Fault, Faults

# The latency of the whole answer; an estimate may be as long as its limit.
_WHOLE = "latency"
_UNKNOWN = (
    "neither the folder nor config.yaml nor the data set names a benchmark, so its limits are not"
    " known"
)
_PARTS = ("scored", "empty", "missing")
_FIX = "run the test with `inference-endpoint audit`, and put its folder audit/ there"


def checks(result: Result) -> Checks:
    """The checks of accuracy_results.json and of the benchmark's rules, if it can be read. In the
    open division only a result without any score fails the latter.
    """
    if not result.accuracy:
        return []
    file = result.show(ACCURACY)
    answered = f"{total(result.entries):.0f} answers"
    wrong = [*scores.wrong_scores(result), *scores.other_lengths(result)]
    results = [
        judge("accuracy-log", _unanswered(result.entries), answered, file, fix=FIX),
        judge("accuracy-score", wrong, "the mean of its data sets", file, fix=FIX),
    ]
    if not result.summary:
        return results
    row = result.row
    is_open = result.place.division == "open"
    why = f"the open division may differ from {result.official}" if is_open else _UNKNOWN
    faults: list[Fault | str] = [*scores.no_score(result)]
    if row is None or is_open:
        results.append(not_applicable("benchmark", why))
        if not faults:
            return [*results, not_applicable("accuracy-target", why, file), *_tests(result)]
    else:
        good = f"counts and latencies are those of {result.official}"
        results.append(judge("benchmark", _misfits(result, row), good, result.show(SUMMARY)))
        faults += scores.inaccurate(result, row)
    good = ", ".join(f"{metric} {value:g}" for metric, value in scores.values(result).items())
    return [*results, judge("accuracy-target", faults, good, file), *_tests(result)]


def _tests(result: Result) -> Checks:
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
        good = "the mean length is within its limits"
        file = result.show(SUMMARY)
        found.append(judge("test09", faults, good, file, fix="measure again"))
    return found


def _misfits(result: Result, row: Benchmark) -> Faults:
    if result.model is None:
        names = ", ".join(result.rules.endpoints.models)
        yield mismatch("the benchmark", result.official, names, "mlcommons/endpoints may measure")
    whole = row.accuracy_sample_count or row.dataset_size
    issued = total(result.entries)
    if issued != whole:
        file = result.show(ACCURACY)
        who = f"{result.official} requires"
        yield mismatch(
            "the number of samples of the accuracy run", f"{issued:.0f}", whole, who, file=file
        )
    yield from _late(result, row)


def _late(result: Result, row: Benchmark) -> Faults:
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
        estimates = percentiles(result.summary, f"{kind}.early_stopping_percentiles")
        estimate = dict(estimates).get(scenario.percentile)
        if estimate is None or estimate > limit or (estimate == limit and kind != _WHOLE):
            name = f"{kind}: the early-stopping estimate of percentile {scenario.percentile:g}"
            allowed = f"{'at most' if kind == _WHOLE else 'less than'} {limit}"
            yield mismatch(name, estimate, allowed, f"{result.official} has")


def total(entries: list[Document]) -> float:
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


def _unanswered(entries: list[Document]) -> Faults:
    if not entries:
        yield "accuracy_scores has no data set"
    for entry in entries:
        name = shorten(entry.get("dataset_name") or "a data set")
        for key in ("complete", "breakdown.complete"):
            stated = lookup(entry, key)
            if stated is not True and (key == "complete" or stated is not None):
                yield mismatch(f"{name}: {key}", quoted(stated), "True", "a whole score has")
        unit = number(entry, "unit_samples")
        repeats = number(entry, "num_repeats")
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
