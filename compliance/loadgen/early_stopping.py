"""Early stopping: how many queries it needs, which it leaves out, and whether a log says so (loadgen/early_stopping.cc, results.cc)."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.special import betainc

from compliance.findings.check import Fault, shown
from compliance.findings.entries import no_number, of_entry
from compliance.loadgen import counts, server
from compliance.loadgen.latency_keys import QUERIES, limited
from compliance.logs import Detail
from compliance.rules import Rules

# More than anybody's, and few enough to reckon with.
_MOST_QUERIES = 1 << 40


def discards(queries: int, percentile: float, rules: Rules) -> int | None:
    """How many of the slowest queries early stopping leaves out: the largest t - 1 with queries ≥ h(t) + t; None: too few queries.

    h(t) is the least h with P(Binomial(h + t, 1 - percentile) ≤ t) ≤ 1 - confidence (loadgen/early_stopping.cc), and that probability is
    the regularised incomplete beta function I_percentile(h, t + 1).
    """

    if not enough(queries, 1, percentile, rules):
        return None
    low, high = 1, queries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(queries, middle, percentile, rules) else (low, middle)
    return low - 1


def enough(queries: int, over: int, percentile: float, rules: Rules) -> bool:
    """Whether so many queries, `over` of them over their latency, show that the percentile is not: queries ≥ h(over) + over."""
    h = queries - over
    return h > 0 and bool(betainc(h, over + 1, percentile - rules.early_stopping.tolerance) <= 1 - rules.early_stopping.confidence)


def lacking(queries: int, over: int, percentile: float, rules: Rules) -> int:
    """How many more queries, none of them over, would be enough; 0: they are."""
    if enough(queries, over, percentile, rules):
        return 0
    low, high = 0, 1
    while high < _MOST_QUERIES << 10 and not enough(queries + high, over, percentile, rules):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(queries + middle, over, percentile, rules) else (middle, high)
    return high


def met(d: Detail, scenario: str, rules: Rules) -> bool | None:
    """Whether it is; None: the log's figures do not tell."""
    if scenario == "Offline":
        return True
    found, percentile = d.number("result_query_count"), rules.scenarios[scenario].percentile / 100
    if found is None or not 0 < found <= _MOST_QUERIES:
        return None
    if scenario != "Server":
        return discards(int(found), percentile, rules) is not None
    parts = [_held(int(found), server.over(d, ladder), percentile, rules) for ladder in limited(d)]
    return False if False in parts else None if None in parts else True


def _held(queries: int, over: tuple[int, int] | None, percentile: float, rules: Rules) -> bool | None:
    """Of (at least, at most) so many over their latency."""
    if over is None:
        return None
    if enough(queries, over[1], percentile, rules):
        return True
    return None if enough(queries, over[0], percentile, rules) else False


def faults(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    if scenario == "Server":
        yield from _server(d, rules)
        return
    if scenario == "Offline":
        if d.get("early_stopping_met") is not True:
            value = shown(d.get("early_stopping_met"))
            text = f"early_stopping_met is {value}; Offline has no early stopping to fail"
            yield Fault(text, "True", value, line=d.line("early_stopping_met"))
        return
    # With latencies of tokens there are two estimates, and that of the first token, which is made last, stays.
    name = "early_stopping_ttft_result" if counts.tokens(d) else "early_stopping_result"
    text = d.get(name)
    if d.number("result_query_count") is None or not isinstance(text, str):
        yield f"result_query_count or {name} is missing"
        return
    for percentile, key in estimates(scenario, rules):
        yield from _estimate(d, scenario, name, percentile, key, rules)


def estimates(scenario: str, rules: Rules) -> tuple[tuple[float, str], ...]:
    """(percentile, key) of what is estimated; of SingleStream also the 99th percentile, from which MultiStream may be inferred."""
    own = rules.scenarios[scenario].percentile
    return {
        "SingleStream": ((own, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")),
        "MultiStream": ((own, "early_stopping_latency_ms"),),
    }.get(scenario, ())


def _server(d: Detail, rules: Rules) -> Iterator[Fault | str]:
    """What it says of each latency; that of the first token is not looked at where the times of tokens are too long."""
    queries, percentile = d.number("result_query_count"), rules.scenarios["Server"].percentile / 100
    if queries is None or not 0 < queries <= _MOST_QUERIES:
        yield no_number(d, "result_query_count")
        return
    said = []
    for ladder in reversed(limited(d)):
        text, over = str(d.get(ladder.result)), server.over(d, ladder)
        if text == "" and False in said:
            continue
        said.append(text.startswith(" * Run successful."))
        if over is None:
            yield f"a {ladder.name} or its limit is missing"
            continue
        held = _held(int(queries), over, percentile, rules)
        if held is not None and held is not said[-1]:
            want = "Run successful." if held else "Run unsuccessful."
            yield Fault(f"{ladder.result} does not say `{want}`", want, shown(text), line=d.line(ladder.result))
        elif not said[-1] and over[0] == over[1]:
            more = lacking(int(queries), over[0], percentile, rules)
            for words in (f"Processed {int(queries)} queries.", f"at least {more} more queries"):
                if words not in text:
                    yield Fault(f"{ladder.result} does not say `{words}`", words, shown(text), line=d.line(ladder.result))
    if d.get("early_stopping_met") is not all(said):
        yield of_entry(d, "early_stopping_met", all(said), "what it says of itself makes it")


def _estimate(d: Detail, scenario: str, name: str, percentile: float, key: str, rules: Rules) -> Iterator[Fault | str]:
    text = str(d.get(name))
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
    if key == estimates(scenario, rules)[0][1]:
        said += [f"({queries})", f"Would discard {left_out} highest"]
    for words in said:
        if words not in text:
            yield Fault(f"{name} does not say `{words}`", words, shown(text), line=d.line(name))
    ladder = QUERIES if scenario == "MultiStream" else limited(d)[0]
    low, high = d.number(ladder.percentile.format(f"{percentile:.2f}")), d.number(ladder.maximum)
    if low is None or high is None or not low <= estimate <= high:
        sentence = f"the estimate {estimate} is not between the {percentile:g}th percentile {low} and the maximum {high}"
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=d.line(key))
