"""What a log says about early stopping, against what follows from the number of queries (loadgen/early_stopping.cc, results.cc)."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, shorten
from compliance.findings.entries import entry_fault, not_a_number
from compliance.loadgen import counts, latency_limits
from compliance.loadgen.early_stopping import MOST_QUERIES, discards, estimates, lacking, limit_held
from compliance.loadgen.latency_keys import QUERIES, limited
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.subject import Subject


def check(subject: Subject) -> Check:
    """The check of early stopping."""
    return judge(
        "early-stopping",
        _faults(subject.performance.detail, subject.scenario, subject.rules),
        "as re-derived from the number of queries",
        file=subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def _faults(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    if scenario == "Server":
        yield from _server(detail, rules)
        return
    if scenario == "Offline":
        if detail.get("early_stopping_met") is not True:
            value = shorten(detail.get("early_stopping_met"))
            text = f"early_stopping_met is {value}; Offline has no early stopping to fail"
            yield Fault(text, "True", value, line=detail.line("early_stopping_met"))
        return
    # With token latencies LoadGen makes two estimates under one key. That of the first token is made last and stays.
    name = "early_stopping_ttft_result" if counts.has_token_latencies(detail) else "early_stopping_result"
    text = detail.get(name)
    if detail.number("result_query_count") is None or not isinstance(text, str):
        yield f"result_query_count or {name} is missing"
        return
    for percentile, key in estimates(scenario, rules):
        yield from _estimate(detail, scenario, rules, name=name, percentile=percentile, key=key)


def _server(detail: Detail, rules: Rules) -> Iterator[Fault | str]:
    """Server's sentence about each latency. LoadGen leaves out the first token's where later tokens take too long."""
    queries, percentile = detail.number("result_query_count"), rules.scenarios["Server"].percentile / 100
    if queries is None or not 0 < queries <= MOST_QUERIES:
        yield not_a_number(detail, "result_query_count")
        return
    successes = []
    for latency in reversed(limited(detail)):
        text, over = str(detail.get(latency.result)), latency_limits.over(detail, latency)
        if text == "" and False in successes:
            continue
        successes.append(text.startswith(" * Run successful."))
        if over is None:
            yield f"a {latency.name} or its limit is missing"
            continue
        successful = limit_held(int(queries), over, percentile, rules)
        if successful is not None and successful is not successes[-1]:
            expected = "Run successful." if successful else "Run unsuccessful."
            yield Fault(f"{latency.result} does not say `{expected}`", expected, shorten(text), line=detail.line(latency.result))
        elif not successes[-1] and over[0] == over[1]:
            more = lacking(int(queries), over[0], percentile, rules)
            for words in (f"Processed {int(queries)} queries.", f"at least {more} more queries"):
                if words not in text:
                    yield Fault(f"{latency.result} does not say `{words}`", words, shorten(text), line=detail.line(latency.result))
    if detail.get("early_stopping_met") is not all(successes):
        yield entry_fault(detail, "early_stopping_met", all(successes), "what it says of itself makes it")


def _estimate(detail: Detail, scenario: str, rules: Rules, *, name: str, percentile: float, key: str) -> Iterator[Fault | str]:
    text = str(detail.get(name))
    queries, estimate = int(detail.number("result_query_count") or 0), detail.number(key)
    if estimate is None:
        yield not_a_number(detail, key)
        return
    left_out = discards(queries, percentile / 100, rules)
    if left_out is None:
        if estimate != 0:
            text = f"{queries} queries are too few for an estimate of the {percentile:g}th percentile, and there is one: {estimate}"
            yield Fault(text, "0", str(estimate), line=detail.line(key))
        return
    phrases = [f"{percentile:.1f}th percentile estimate: {int(estimate)}"]
    if key == estimates(scenario, rules)[0][1]:
        phrases += [f"({queries})", f"Would discard {left_out} highest"]
    for words in phrases:
        if words not in text:
            yield Fault(f"{name} does not say `{words}`", words, shorten(text), line=detail.line(name))
    latency = QUERIES if scenario == "MultiStream" else limited(detail)[0]
    low, high = detail.number(latency.percentile.format(f"{percentile:.2f}")), detail.number(latency.maximum)
    if low is None or high is None or not low <= estimate <= high:
        sentence = f"the estimate {estimate} is not between the {percentile:g}th percentile {low} and the maximum {high}"
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=detail.line(key))
