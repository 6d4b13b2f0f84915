"""Early stopping: how many queries it needs, which it leaves out, and whether a log says so (loadgen/early_stopping.cc, results.cc)."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.special import betainc

from compliance.check import Fault, shown
from compliance.entries import no_number
from compliance.logs import Detail
from compliance.rules import Rules


def discards(queries: int, percentile: float, rules: Rules) -> int | None:
    """How many of the slowest queries early stopping leaves out: the largest t - 1 with queries ≥ h(t) + t; None: too few queries.

    h(t) is the least h with P(Binomial(h + t, 1 - percentile) ≤ t) ≤ 1 - confidence (loadgen/early_stopping.cc), and that probability is
    the regularised incomplete beta function I_percentile(h, t + 1).
    """

    def enough(t: int) -> bool:
        h = queries - t
        return h > 0 and bool(betainc(h, t + 1, percentile - rules.early_stopping.tolerance) <= 1 - rules.early_stopping.confidence)

    if not enough(1):
        return None
    low, high = 1, queries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low - 1


def faults(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    if scenario == "Offline":
        if d.get("early_stopping_met") is not True:
            value = shown(d.get("early_stopping_met"))
            text = f"early_stopping_met is {value}; Offline has no early stopping to fail"
            yield Fault(text, "True", value, line=d.line("early_stopping_met"))
        return
    text = d.get("early_stopping_result")
    if d.number("result_query_count") is None or not isinstance(text, str):
        yield "result_query_count or early_stopping_result is missing"
        return
    # LoadGen also estimates the 99th percentile, from which MultiStream may be inferred.
    for percentile, key in ((rules.scenarios[scenario].percentile, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")):
        yield from _estimate(d, text, percentile, key, rules)


def _estimate(d: Detail, text: str, percentile: float, key: str, rules: Rules) -> Iterator[Fault | str]:
    queries, estimate = int(d.number("result_query_count") or 0), d.number(key)
    if estimate is None:
        yield no_number(d, key)
        return
    left_out = discards(queries, percentile / 100, rules)
    if left_out is None:
        if estimate != 0:
            text = f"{queries} queries are too few for an estimate of the {percentile:g}th percentile, and there is one: {estimate}"
            yield Fault(text, "0", str(estimate), line=d.line(key))
        return
    said = [f"{percentile:.1f}th percentile estimate: {int(estimate)}"]
    if key == "early_stopping_latency_ss":
        said += [f"({queries})", f"Would discard {left_out} highest"]
    for words in said:
        if words not in text:
            yield Fault(f"early_stopping_result does not say `{words}`", words, shown(text), line=d.line("early_stopping_result"))
    low, high = d.number(f"result_{percentile:.2f}_percentile_latency_ns"), d.number("result_max_latency_ns")
    if low is None or high is None or not low <= estimate <= high:
        sentence = f"the estimate {estimate} is not between the {percentile:g}th percentile {low} and the maximum {high}"
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=d.line(key))
