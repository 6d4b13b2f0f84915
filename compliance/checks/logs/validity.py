"""The checks of LoadGen's verdict, computed again from its own figures and early stopping, and of
its errors (results.cc, early_stopping.cc).
"""

from __future__ import annotations

from compliance import explanation
from compliance.findings.check import judge, mismatch, quoted, shorten
from compliance.findings.entries import entry_fault, not_a_number
from compliance.loadgen import counts, latency_limits
from compliance.loadgen import early_stopping as stopping
from compliance.loadgen.duration import min_duration_met
from compliance.loadgen.early_stopping import MOST_QUERIES, discards, estimates, lacking, limit_held
from compliance.loadgen.latency_keys import QUERIES, limited
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults


def errors(subject: Subject) -> list[Check]:
    """The checks of both tests' errors."""
    return [error_lines(test, subject) for test in subject.tests]


def parts(subject: Subject) -> Check:
    """The check that the verdict and its parts follow from the log's figures."""
    detail = subject.performance.detail
    return judge(
        "validity",
        _validity(detail, subject.scenario, subject.rules),
        f"{detail.get('result_validity')}, which follows from duration, counts and early stopping",
        file=subject.detail_file(subject.performance),
    )


def verdict(subject: Subject) -> Check:
    """The check that LoadGen calls the performance test VALID."""
    file = subject.detail_file(subject.performance)
    good = f"VALID; {explanation.ended(subject)}"
    return judge(
        "loadgen-verdict",
        _verdict(subject),
        good,
        file=file,
    )


def error_lines(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's errors, which LoadGen's own verdict ignores."""
    return judge(
        f"{test.name}-errors",
        _errors(test),
        "no error line, and LoadGen counted no error",
        file=subject.detail_file(test),
    )


def _errors(test: LoadGenRun) -> Faults:
    for line in test.detail.errors:
        text = f"line {line.number}: {shorten(line.key)}: {str(line.value)[:120]}"
        yield Fault(text, "no error line", shorten(line.value), line=line.number)
    if not test.detail.values:
        yield f"the {test.name} log has no entry that shows whether there were errors"
    count = test.detail.get("num_errors")
    if test.name == "performance" and (count != 0 or count is False):
        yield entry_fault(test.detail, "num_errors", 0, "it must be there and")
    if test.summary.text and "No errors encountered during test." not in test.summary.text:
        text = "the summary does not say that no errors were encountered"
        yield Fault(text, stricter=True)


def _validity(detail: Detail, scenario: str, rules: Rules) -> Faults:
    parts = {
        "result_min_duration_met": min_duration_met(detail, scenario),
        "result_min_queries_met": counts.min_queries_met(detail, scenario),
        "early_stopping_met": stopping.met(detail, scenario, rules),
    }
    if scenario == "Server":
        percentile = counts.percentile(detail, rules.scenarios[scenario].percentile)
        parts["result_perf_constraints_met"] = latency_limits.constraints_met(detail, percentile)
    for key, derived in parts.items():
        logged = detail.get(key)
        if not isinstance(logged, bool):
            yield mismatch(
                key, quoted(logged), "true or false", "it must be", line=detail.line(key)
            )
        elif derived is not None and logged is not derived:
            yield entry_fault(detail, key, derived, "the figures say")
    verdict, key = detail.get("result_validity"), "result_validity"
    for line in detail.occurrences.get("generic_message", ()):
        if verdict == "VALID" and "Ending early" in str(line.value):
            message = shorten(line.value)
            text = f"VALID, and LoadGen says {message!r}"
            yield Fault(text, "no early end", message, line=line.number)
            break
    expected = "VALID" if all(detail.get(part) is True for part in parts) else "INVALID"
    if verdict != expected:
        yield mismatch(key, quoted(verdict), expected, "its parts say", line=detail.line(key))


def _verdict(subject: Subject) -> Faults:
    """Yield LoadGen's verdict and each part that is not met, if the verdict is not VALID, and a
    sentence if there is no figure.
    """
    detail = subject.performance.detail
    if detail.get("result_validity") == "VALID":
        yield from explanation.without_figure(subject)
        return
    verdict = shorten(detail.get("result_validity", "none"))
    reasons = " ".join(str(r) for r in detail.all("result_invalid_reason"))
    reasons = " ".join(reasons.split())
    text = f"{verdict}: {reasons[:300]}" if reasons else verdict
    yield Fault(text, "VALID", verdict, line=detail.line("result_validity"))
    for part in explanation.parts(subject):
        if not part.met:
            yield Fault(part.text, line=part.line)
    yield from explanation.without_figure(subject)
    yield explanation.ended(subject)


def early_stopping(subject: Subject) -> Check:
    """The check that the log's statements on early stopping follow from the number of queries."""
    return judge(
        "early-stopping",
        _stopping(subject.performance.detail, subject.scenario, subject.rules),
        "it follows from the number of queries",
        file=subject.detail_file(subject.performance),
    )


def _stopping(detail: Detail, scenario: str, rules: Rules) -> Faults:
    if scenario == "Server":
        yield from _server(detail, rules)
        return
    if scenario == "Offline":
        if detail.get("early_stopping_met") is not True:
            value = shorten(detail.get("early_stopping_met"))
            text = f"early_stopping_met is {value}; Offline has no early stopping, so it is True"
            yield Fault(text, "True", value, line=detail.line("early_stopping_met"))
        return
    # With token latencies LoadGen logs two estimates under one key. The estimate of the first token
    # comes last and stays.
    name = "early_stopping_result"
    if counts.has_token_latencies(detail):
        name = "early_stopping_ttft_result"
    text = detail.get(name)
    if detail.number("result_query_count") is None or not isinstance(text, str):
        yield f"result_query_count or {name} is missing"
        return
    for percentile, key in estimates(detail, scenario, rules):
        yield from _estimate(detail, scenario, rules, name=name, percentile=percentile, key=key)


def _server(detail: Detail, rules: Rules) -> Faults:
    """Yield the faults of Server's sentence about each latency. LoadGen leaves out the sentence
    about the first token if later tokens take too long.
    """
    queries = detail.number("result_query_count")
    percentile = counts.percentile(detail, rules.scenarios["Server"].percentile) / 100
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
            words = "Run successful." if successful else "Run unsuccessful."
            yield _does_not_say(detail, latency.result, words)
        elif not successes[-1] and over[0] == over[1]:
            more = lacking(int(queries), over[0], percentile, rules)
            for words in (f"Processed {int(queries)} queries.", f"at least {more} more queries"):
                if words not in text:
                    yield _does_not_say(detail, latency.result, words)
    if detail.get("early_stopping_met") is not all(successes):
        yield entry_fault(detail, "early_stopping_met", all(successes), "its sentences say")


def _does_not_say(detail: Detail, key: str, words: str) -> Fault:
    """The fault of a sentence on early stopping that lacks these words."""
    text = f"{key} does not say `{words}`"
    return Fault(text, words, shorten(detail.get(key)), line=detail.line(key))


def _estimate(
    detail: Detail, scenario: str, rules: Rules, *, name: str, percentile: float, key: str
) -> Faults:
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
    if key == estimates(detail, scenario, rules)[0][1]:
        phrases += [f"({queries})", f"Would discard {left_out} highest"]
    for words in phrases:
        if words not in text:
            yield _does_not_say(detail, name, words)
    latency = QUERIES if scenario == "MultiStream" else limited(detail)[0]
    shares = latency.percentiles(detail)
    low = max((value for _, share, value in shares if 100 * share <= percentile), default=None)
    high = detail.number(latency.maximum)
    if low is None or high is None or not low <= estimate <= high:
        sentence = (
            f"the estimate {estimate} of the {percentile:g}th percentile is not between {low},"
            f" which the percentile cannot be below, and the maximum {high}"
        )
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=detail.line(key))
