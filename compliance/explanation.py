"""Explains LoadGen's verdict on a performance test: its parts, their limits with the lines of the
log and of user.conf, and the setting that ended the test.

Source: loadgen/results.cc, LogSummary; loadgen/issue_query_controller.cc, IssueQueriesInternal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compliance.findings.check import shorten
from compliance.loadgen import early_stopping
from compliance.loadgen.latency_keys import LatencyKeys
from compliance.loadgen.log import Log
from compliance.logs import Detail
from compliance.logs.user_conf import parse, trap
from compliance.subject import Subject, conf_entry

_ENDED_EARLY = "Ending early"
_END_UNKNOWN = "the log does not show what ended the test: a count is missing"
# LoadGen's words for the end of a test → the setting that ended it.
_ENDS = {
    "Max query count": "max_query_count",
    "Max test duration": "max_duration",
    "Ran out of generated queries": "the number of generated queries, which the target decides,",
    "Too many outstanding queries": "max_async_queries",
}


@dataclass(frozen=True)
class Part:
    """One part of LoadGen's verdict.

    Attributes:
        met: whether LoadGen says that it is met.
        text: the figure, the limit and their lines, as a sentence.
        line: the line of LoadGen's word on it in the detail log.
    """

    met: bool
    text: str
    line: int | None


def parts(subject: Subject) -> list[Part]:
    """The parts of LoadGen's verdict that are in the log, met or not."""
    log = subject.log
    found = []
    for key, explain in _PARTS.items():
        value = log.get(key)
        if isinstance(value, bool):
            texts = "; ".join(explain(log, subject))
            found.append(Part(value, f"{key} is {value}: {texts}", log.line(key)))
    return found


def sentences(subject: Subject) -> Iterator[str]:
    """Yield the explanation of a performance test, a sentence for each part."""
    log = subject.log
    verdict = shorten(log.get("result_validity", "no verdict"))
    yield f"{_at(log, 'result_validity')}LoadGen says {verdict}"
    for part in parts(subject):
        yield f"{_line(part.line)}{part.text}"
    yield from without_figure(log, subject)
    yield ended(subject)


def without_figure(log: Log, subject: Subject) -> Iterator[str]:
    """Yield a sentence if LoadGen logs the official figure as 0, because early stopping had too few
    queries for an estimate.
    """
    key = subject.rules.scenarios[subject.place.scenario].metric.key
    queries = int(log.number("result_query_count") or 0)
    if key in log.estimates and log.number(key) == 0 < queries:
        percentile = log.estimates[key]
        least = queries + early_stopping.lacking(queries, 1, percentile / 100, log.rules)
        yield (
            f"{_at(log, key)}{key} is 0, which is no figure: early stopping estimates the"
            f" {percentile:g}th percentile from {least} queries on, and there were {queries}; set"
            f" min_query_count to {least}"
        )


def ended(subject: Subject) -> str:
    """The sentence that says which setting ended the test."""
    log = subject.log
    for line in (*log.errors, *log.occurrences.get("generic_message", ())):
        message = str(line.value)
        if _ENDED_EARLY in message:
            names = (name for words, name in _ENDS.items() if words in message)
            quoted = shorten(message.strip())
            name = next(names, "another limit")
            return f"line {line.number}: {name} ended the test early: {quoted!r}"
    if log.scenario == "Offline":
        if log.samples is None:
            return _END_UNKNOWN
        return (
            f"Offline has one query of {log.samples:.0f} samples"
            f" ({_at(log, 'effective_samples_per_query')}the larger of min_query_count and 1.1 x"
            " min_duration x target_qps): the test ended when all were answered"
        )
    issued = log.number("result_query_count")
    least = log.number("effective_min_query_count")
    if issued is None or least is None:
        return _END_UNKNOWN
    if issued > least:
        return (
            f"min_duration ended the test: {issued:.0f} queries were issued, and"
            f" {_setting(subject, 'min_query_count')} was reached before"
        )
    return (
        f"min_query_count ended the test, at {issued:.0f} queries:"
        f" {_setting(subject, 'min_duration')} was reached before"
    )


def _duration(log: Log, subject: Subject) -> Iterator[str]:
    text = "the last query was issued"
    if log.scenario == "Offline":
        text = "the last sample was answered"
    passed_ns = log.last_issue_ns
    after = "at an unknown time" if passed_ns is None else f"after {passed_ns[1] / 1e9:.3f} s"
    yield f"{text} {after}; the limit is {_setting(subject, 'min_duration')}"


def _queries(log: Log, subject: Subject) -> Iterator[str]:
    queries = _plural(log.get("result_query_count"), "query", "queries")
    samples = _plural(log.samples, "sample", "samples")
    was = "was" if log.get("result_query_count") == 1 else "were"
    yield (
        f"{queries} of {samples} {was} issued; the limits are"
        f" {_setting(subject, 'min_query_count')} and"
        f" effective_min_sample_count {shorten(log.get('effective_min_sample_count'))}"
    )
    most = log.number("effective_max_query_count")
    if most and most < (log.number("effective_min_query_count") or 0):
        yield f"{_setting(subject, 'max_query_count')} is less than min_query_count"
    yield from equal_issue(log, subject)


def _plural(value: Any, one: str, several: str) -> str:
    """A count with its noun."""
    count = "an unknown number of" if value is None else shorten(value)
    return f"{count} {one if value == 1 else several}"


def equal_issue(log: Log, subject: Subject) -> Iterator[str]:
    """Yield a sentence if max_query_count ends the test before equal issue has issued each loaded
    sample once.
    """
    most = log.number("effective_max_query_count")
    loaded = log.loaded_samples()
    if not (log.equal_issue and most and loaded) or log.scenario == "Offline":
        return
    if most * log.per_query < loaded:
        yield (
            "equal issue (sample_concatenate_permutation) needs a multiple of the"
            f" {loaded:.0f} loaded samples, and {_setting(subject, 'max_query_count')} ends the"
            " test before each was issued once"
        )


def _constraints(log: Log, subject: Subject) -> Iterator[str]:
    of_round = log.rules.scenarios[log.scenario].percentile
    percentile = log.percentile
    for latency in log.limited:
        key = latency.percentile.format(f"{percentile:.2f}")
        value = log.number(key)
        limit = log.number(latency.limit)
        name = f"the {percentile:g}th percentile of the {latency.name}"
        setting = f"the limit {_setting(subject, _conf_key(latency))}"
        if limit is None:
            yield f"the limit of the {latency.name} is missing"
        elif value is None:
            yield f"{name}, which LoadGen does not log, is compared with {setting}"
        else:
            word = "within" if value <= limit else "over"
            text = f"{name} is {_ms(value)} (line {log.line(key)}), {word} {setting}"
            yield text + _of_the_round(subject, latency)
    if percentile != of_round:
        yield f"{subject.rules.round} judges the {of_round:g}th percentile of {log.scenario}"


def _of_the_round(subject: Subject, latency: LatencyKeys) -> str:
    """The round's own limit for the official benchmark, if there is one."""
    row = subject.official_rules
    scenario = subject.place.scenario
    if row is None:
        return ""
    key = _conf_key(latency).removesuffix("_latency")
    limits = {**row.token_latency_ns.get(scenario, {}), "target": row.latency_ns.get(scenario)}
    limit = limits.get(key)
    if limit is None:
        return ""
    return f"; {subject.rules.round} allows {subject.official} {_ms(limit)}"


def _stopping(log: Log, subject: Subject) -> Iterator[str]:
    said = []
    for latency in log.limited:
        text = log.get(latency.result)
        if isinstance(text, str) and text.strip():
            said.append(" ".join(text.split()))
        over = log.over(latency) if latency.limit in log.values else None
        if over and log.scenario == "Server":
            least, most = over
            count = _plural(least, "query is", "queries are")
            if least != most:
                count = f"{least} to {most} queries are"
            said.append(f"{count} over the limit of the {latency.name}")
    yield shorten("; ".join(said) or "LoadGen has none in this scenario", 400)


_PARTS = {
    "result_min_duration_met": _duration,
    "result_min_queries_met": _queries,
    "result_perf_constraints_met": _constraints,
    "early_stopping_met": _stopping,
}


def _conf_key(latency: LatencyKeys) -> str:
    """The name in user.conf of the limit on a kind of latency."""
    name = latency.limit.removeprefix("requested_server_")
    return name if name in ("ttft_latency", "tpot_latency") else "target_latency"


def _setting(subject: Subject, key: str) -> str:
    """A setting: its effective value with the line of the log, and its line of user.conf."""
    detail = subject.performance.detail
    text = subject.performance.user_conf
    requested = subject.rules.user_conf[key].logged_as(subject.scenario) or ""
    names = (name for name in _effective_names(requested) if name in detail.values)
    logged = next(names, requested)
    value = f"{key} (the log does not have it"
    if logged in detail.values:
        value = f"{key} {_with_unit(logged, detail)} (line {detail.line(logged)}"
    conf = parse(text or "")
    entry = conf_entry(conf, key, subject)
    if entry is None:
        origin = "there is no user.conf" if text is None else "no line of user.conf sets it"
        if text == "":
            origin = "user.conf is empty"
        if conf.refused:
            origin = "LoadGen refuses user.conf"
        return f"{value}; {origin})"
    file = subject.place.show(subject.place.measurements / "user.conf")
    name, word = entry
    line = f"{file} line {conf.lines[name]}: {shorten(name)} = {shorten(word)}"
    if why := trap(subject.scenario, key, word):
        line += f", which {why.partition(':')[0]}"
    return f"{value}; {line})"


def _effective_names(requested: str) -> tuple[str, ...]:
    effective = requested.replace("requested_", "effective_", 1)
    return effective, effective.replace("effective_server_", "effective_", 1)


def _with_unit(key: str, detail: Detail) -> str:
    value = detail.number(key)
    if value is None:
        return shorten(detail.get(key))
    if key.endswith(("_ns", "_latency")):
        return _ms(value)
    return f"{value:.10g} ms" if key.endswith("_ms") else f"{value:.10g}"


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:g} ms"


def _at(log: Log, key: str) -> str:
    return _line(log.line(key))


def _line(number: int | None) -> str:
    return "" if number is None else f"line {number}: "
