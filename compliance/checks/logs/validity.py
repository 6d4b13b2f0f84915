"""The checks of LoadGen's verdict, computed again from its own figures and early stopping, and of
its errors (results.cc, early_stopping.cc).
"""

from __future__ import annotations

from compliance import explanation
from compliance.checks.entries import entry_fault, not_a_number
from compliance.findings.check import judge, mismatch, quoted, shorten
from compliance.loadgen.early_stopping import discards, lacking
from compliance.loadgen.latency_keys import FIRST_TOKENS, LATER_TOKENS
from compliance.loadgen.log import Log
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Checks, Fault, Faults

# LoadGen's own sentences are shorter.
_LONGEST = 400
_NOT_MET = {FIRST_TOKENS: "TTFT constrain not met", LATER_TOKENS: "TPOT constrain not met"}


def errors(subject: Subject) -> Checks:
    """The checks of both tests' errors."""
    return [error_lines(test, subject) for test in subject.tests]


def parts(subject: Subject) -> Check:
    """The check that the verdict and its parts follow from the log's figures."""
    log = subject.log
    file = subject.performance.file
    good = "which follows from duration, counts and early stopping"
    return judge("validity", _validity(log), f"{log.get('result_validity')}, {good}", file)


def verdict(subject: Subject) -> Check:
    """The check that LoadGen calls the performance test VALID."""
    file = subject.performance.file
    good = f"VALID; {explanation.ended(subject)}"
    return judge("loadgen-verdict", _verdict(subject), good, file)


def error_lines(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's errors, which LoadGen's own verdict ignores."""
    good = "no error line, and LoadGen counted no error"
    return judge(f"{test.name}-errors", _errors(test), good, test.file)


def _errors(test: LoadGenRun) -> Faults:
    detail = test.detail
    for line in detail.errors:
        text = f"line {line.number}: {shorten(line.key)}: {shorten(line.value, _LONGEST)}"
        yield Fault(text, "no error line", shorten(line.value), line=line.number)
    if not detail.values:
        yield f"the {test.name} log has no entry that shows whether there were errors"
    count = detail.get("num_errors")
    if test.name == "performance" and (count != 0 or count is False):
        yield entry_fault(detail, "num_errors", 0, "it must be there and")
    if test.summary.text and "No errors encountered during test." not in test.summary.text:
        text = "the summary does not say that no errors were encountered"
        yield Fault(text, stricter=True)


def _validity(log: Log) -> Faults:
    parts = {
        "result_min_duration_met": log.min_duration_met,
        "result_min_queries_met": log.min_queries_met,
        "early_stopping_met": log.early_stopping_met,
    }
    if log.scenario == "Server":
        parts["result_perf_constraints_met"] = log.constraints_met
    for key, derived in parts.items():
        logged = log.get(key)
        if not isinstance(logged, bool):
            yield mismatch(key, quoted(logged), "true or false", "it must be", line=log.line(key))
        elif derived is not None and logged is not derived:
            yield entry_fault(log, key, derived, "the figures say")
    verdict = log.get("result_validity")
    key = "result_validity"
    for line in log.occurrences.get("generic_message", ()):
        if verdict == "VALID" and "Ending early" in str(line.value):
            message = shorten(line.value)
            text = f"VALID, and LoadGen says {message!r}"
            yield Fault(text, "no early end", message, line=line.number)
            break
    are_met = all(log.get(part) is True for part in parts)
    expected = "VALID" if are_met else "INVALID"
    if verdict != expected:
        yield mismatch(key, quoted(verdict), expected, "its parts say", line=log.line(key))
    yield from _reasons(log)


def _reasons(log: Log) -> Faults:
    """Yield a fault for each latency of tokens about which LoadGen's reasons say another thing than
    the figures (results.cc, PerfConstraintsMet).
    """
    key = "result_invalid_reason"
    reasons = " ".join(map(str, log.all(key)))
    if not reasons or log.scenario != "Server" or not log.has_tokens:
        return
    for latency, words in _NOT_MET.items():
        within = log.within(latency)
        if within is None or within is not (words in reasons):
            continue
        says = "says" if within else "does not say"
        where = "within" if within else "over"
        text = f"{key} {says} {words!r}; the {latency.name} is {where} its limit"
        yield Fault(text, line=log.line(key))


def _verdict(subject: Subject) -> Faults:
    """Yield LoadGen's verdict and each part that is not met, if the verdict is not VALID, and a
    sentence if there is no figure.
    """
    log = subject.log
    if log.get("result_validity") == "VALID":
        yield from explanation.without_figure(log, subject)
        return
    verdict = shorten(log.get("result_validity", "none"))
    reasons = " ".join(str(r) for r in log.all("result_invalid_reason"))
    reasons = " ".join(reasons.split())
    text = f"{verdict}: {shorten(reasons, _LONGEST)}" if reasons else verdict
    yield Fault(text, "VALID", verdict, line=log.line("result_validity"))
    for part in explanation.parts(subject):
        if not part.met:
            yield Fault(part.text, line=part.line)
    yield from explanation.without_figure(log, subject)
    yield explanation.ended(subject)


def early_stopping(subject: Subject) -> Check:
    """The check that the log's statements on early stopping follow from the number of queries."""
    file = subject.performance.file
    good = "it follows from the number of queries"
    return judge("early-stopping", _stopping(subject.log), good, file)


def _stopping(log: Log) -> Faults:
    if log.scenario == "Server":
        yield from _server(log)
        return
    if log.scenario == "Offline":
        key = "early_stopping_met"
        if log.get(key) is not True:
            value = shorten(log.get(key))
            text = f"{key} is {value}; Offline has no early stopping, so it is True"
            yield Fault(text, "True", value, line=log.line(key))
        return
    # With token latencies LoadGen logs two estimates under one key. The estimate of the first token
    # comes last and stays.
    name = "early_stopping_ttft_result" if log.has_tokens else "early_stopping_result"
    if log.number("result_query_count") is None or not isinstance(log.get(name), str):
        yield f"result_query_count or {name} is missing"
        return
    for key, percentile in log.estimates.items():
        yield from _estimate(log, name, percentile, key)


def _server(log: Log) -> Faults:
    """Yield the faults of Server's sentence about each latency. LoadGen leaves out the sentence
    about the first token if later tokens take too long.
    """
    queries = log.queries
    if queries is None:
        yield not_a_number(log, "result_query_count")
        return
    successes = []
    for latency in reversed(log.limited):
        result = latency.result
        text = str(log.get(result))
        over = log.over(latency)
        if text == "" and False in successes:
            continue
        successes.append(text.startswith(" * Run successful."))
        if over is None:
            yield f"a {latency.name} or its limit is missing"
            continue
        successful = log.limit_held(latency)
        if successful is not None and successful is not successes[-1]:
            words = "Run successful." if successful else "Run unsuccessful."
            yield _does_not_say(log, result, words)
        elif not successes[-1] and over[0] == over[1]:
            more = lacking(queries, over[0], log.percentile / 100, log.rules)
            for words in (f"Processed {queries} queries.", f"at least {more} more queries"):
                if words not in text:
                    yield _does_not_say(log, result, words)
    if log.get("early_stopping_met") is not all(successes):
        yield entry_fault(log, "early_stopping_met", all(successes), "its sentences say")


def _does_not_say(log: Log, key: str, words: str) -> Fault:
    """The fault of a sentence on early stopping that lacks these words."""
    text = f"{key} does not say `{words}`"
    return Fault(text, words, shorten(log.get(key)), line=log.line(key))


def _estimate(log: Log, name: str, percentile: float, key: str) -> Faults:
    text = str(log.get(name))
    queries = int(log.number("result_query_count") or 0)
    estimate = log.number(key)
    if estimate is None:
        yield not_a_number(log, key)
        return
    left_out = discards(queries, percentile / 100, log.rules)
    if left_out is None:
        if estimate != 0:
            text = (
                f"{queries} queries are too few for an estimate of the {percentile:g}th percentile,"
                f" and there is one: {estimate}"
            )
            yield Fault(text, "0", str(estimate), line=log.line(key))
        return
    phrases = [f"{percentile:.1f}th percentile estimate: {int(estimate)}"]
    if key == next(iter(log.estimates)):
        phrases += [f"({queries})", f"Would discard {left_out} highest"]
    for words in phrases:
        if words not in text:
            yield _does_not_say(log, name, words)
    latency = log.estimated
    shares = latency.percentiles(log)
    low = max((value for _, share, value in shares if 100 * share <= percentile), default=None)
    high = log.number(latency.maximum)
    if low is None or high is None or not low <= estimate <= high:
        sentence = (
            f"the estimate {estimate} of the {percentile:g}th percentile is not between {low},"
            f" which the percentile cannot be below, and the maximum {high}"
        )
        yield Fault(sentence, f"{low} to {high}", str(estimate), line=log.line(key))
