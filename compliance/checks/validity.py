"""The checks of LoadGen's verdict, computed again from its own figures and early stopping, and of
its errors (results.cc, early_stopping.cc).
"""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import judge, shorten
from compliance.findings.entries import entry_fault, not_a_number
from compliance.loadgen import counts, latency_limits
from compliance.loadgen import early_stopping as stopping
from compliance.loadgen.duration import min_duration_met
from compliance.loadgen.early_stopping import MOST_QUERIES, discards, estimates, lacking, limit_held
from compliance.loadgen.latency_keys import QUERIES, limited
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault


def errors(subject: Subject) -> list[Check]:
    """The checks of both tests' errors."""
    return [error_lines(test, subject) for test in subject.tests]


def parts(subject: Subject) -> Check:
    """The check that the verdict and its parts follow from the log's figures."""
    detail = subject.performance.detail
    return judge(
        "validity",
        _validity(detail, subject.scenario, subject.rules),
        f"{detail.get('result_validity')}, as re-derived from duration, counts and early stopping",
        file=subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def verdict(subject: Subject) -> Check:
    """The check that LoadGen calls the performance test VALID."""
    file = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    return judge(
        "loadgen-verdict", _verdict(subject.performance.detail), "VALID", file=file, fix=fixes.VALID
    )


def error_lines(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's errors, which LoadGen's own verdict ignores."""
    return judge(
        f"{test.name}-errors",
        _errors(test),
        "no error line, none counted",
        file=subject.place.show(test.folder / "mlperf_log_detail.txt"),
        fix="see the line in the log, and measure again",
    )


def _errors(test: LoadGenRun) -> Iterator[Fault | str]:
    for line in test.detail.errors:
        text = f"line {line.number}: {shorten(line.key)}: {str(line.value)[:120]}"
        yield Fault(text, "no error line", shorten(line.value), line=line.number)
    if not test.detail.values:
        yield f"the {test.name} log shows nothing, neither errors nor their absence"
    if test.name == "performance" and (
        test.detail.get("num_errors") != 0 or test.detail.get("num_errors") is False
    ):
        yield entry_fault(test.detail, "num_errors", 0, "it must be there and")
    if "No errors encountered during test." not in test.summary.text:
        yield "the summary does not say that no errors were encountered"


def _validity(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    parts = {
        "result_min_duration_met": min_duration_met(detail, scenario),
        "result_min_queries_met": counts.min_queries_met(detail, scenario),
        "early_stopping_met": stopping.met(detail, scenario, rules),
    }
    if scenario == "Server":
        parts["result_perf_constraints_met"] = latency_limits.constraints_met(
            detail, rules.scenarios[scenario].percentile
        )
    for key, derived in parts.items():
        if not isinstance(detail.get(key), bool):
            value = shorten(repr(detail.get(key)))
            yield Fault(
                f"{key} is {value}; true or false belongs there",
                "true or false",
                value,
                line=detail.line(key),
            )
        elif derived is not None and detail.get(key) is not derived:
            yield entry_fault(detail, key, derived, "the figures say")
    early = next(
        (
            line
            for line in detail.occurrences.get("generic_message", ())
            if "Ending early" in str(line.value)
        ),
        None,
    )
    if early and detail.get("result_validity") == "VALID":
        yield Fault(
            f"VALID, and LoadGen says {shorten(early.value)!r}",
            "no early end",
            shorten(early.value),
            line=early.number,
        )
    verdict = "VALID" if all(detail.get(key) is True for key in parts) else "INVALID"
    if detail.get("result_validity") != verdict:
        value = shorten(repr(detail.get("result_validity")))
        text = f"result_validity is {value}; its parts make it {verdict}"
        yield Fault(text, verdict, value, line=detail.line("result_validity"))


def _verdict(detail: Detail) -> Iterator[Fault | str]:
    if detail.get("result_validity") != "VALID":
        verdict_text = shorten(detail.get("result_validity", "none"))
        reasons = " ".join(str(r) for r in detail.all("result_invalid_reason")).strip()
        yield Fault(
            f"{verdict_text}{': ' if reasons else ''}{reasons[:300]}",
            "VALID",
            verdict_text,
            line=detail.line("result_validity"),
        )


def early_stopping(subject: Subject) -> Check:
    """The check that the log's statements on early stopping follow from the number of queries."""
    return judge(
        "early-stopping",
        _stopping(subject.performance.detail, subject.scenario, subject.rules),
        "as re-derived from the number of queries",
        file=subject.place.show(subject.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def _stopping(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    if scenario == "Server":
        yield from _server(detail, rules)
        return
    if scenario == "Offline":
        if detail.get("early_stopping_met") is not True:
            value = shorten(detail.get("early_stopping_met"))
            text = f"early_stopping_met is {value}; Offline has no early stopping to fail"
            yield Fault(text, "True", value, line=detail.line("early_stopping_met"))
        return
    # With token latencies LoadGen logs two estimates under one key. The estimate of the first token
    # comes last and stays.
    name = (
        "early_stopping_ttft_result"
        if counts.has_token_latencies(detail)
        else "early_stopping_result"
    )
    text = detail.get(name)
    if detail.number("result_query_count") is None or not isinstance(text, str):
        yield f"result_query_count or {name} is missing"
        return
    for percentile, key in estimates(scenario, rules):
        yield from _estimate(detail, scenario, rules, name=name, percentile=percentile, key=key)


def _server(detail: Detail, rules: Rules) -> Iterator[Fault | str]:
    """Yield the faults of Server's sentence about each latency. LoadGen leaves out the sentence
    about the first token if later tokens take too long.
    """
    queries, percentile = (
        detail.number("result_query_count"),
        rules.scenarios["Server"].percentile / 100,
    )
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
            yield Fault(
                f"{latency.result} does not say `{expected}`",
                expected,
                shorten(text),
                line=detail.line(latency.result),
            )
        elif not successes[-1] and over[0] == over[1]:
            more = lacking(int(queries), over[0], percentile, rules)
            for words in (f"Processed {int(queries)} queries.", f"at least {more} more queries"):
                if words not in text:
                    yield Fault(
                        f"{latency.result} does not say `{words}`",
                        words,
                        shorten(text),
                        line=detail.line(latency.result),
                    )
    if detail.get("early_stopping_met") is not all(successes):
        yield entry_fault(
            detail, "early_stopping_met", all(successes), "what it says of itself makes it"
        )


def _estimate(
    detail: Detail, scenario: str, rules: Rules, *, name: str, percentile: float, key: str
) -> Iterator[Fault | str]:
    text = str(detail.get(name))
    queries, estimate = int(detail.number("result_query_count") or 0), detail.number(key)
    if estimate is None:
        yield not_a_number(detail, key)
        return
    left_out = discards(queries, percentile / 100, rules)
    if left_out is None:
        if estimate != 0:
            text = (
                f"{queries} queries are too few for an estimate of the {percentile:g}th percentile,"
                f" and there is one: {estimate}"
            )
            yield Fault(text, "0", str(estimate), line=detail.line(key))
        return
    phrases = [f"{percentile:.1f}th percentile estimate: {int(estimate)}"]
    if key == estimates(scenario, rules)[0][1]:
        phrases += [f"({queries})", f"Would discard {left_out} highest"]
    for words in phrases:
        if words not in text:
            yield Fault(
                f"{name} does not say `{words}`", words, shorten(text), line=detail.line(name)
            )
    latency = QUERIES if scenario == "MultiStream" else limited(detail)[0]
    low, high = (
        detail.number(latency.percentile.format(f"{percentile:.2f}")),
        detail.number(latency.maximum),
    )
    if low is None or high is None or not low <= estimate <= high:
        sentence = (
            f"the estimate {estimate} is not between the {percentile:g}th percentile {low} and the"
            f" maximum {high}"
        )
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=detail.line(key))
