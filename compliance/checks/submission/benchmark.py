"""The checks of the official checkers' rules for a benchmark: counts, settings, accuracy,
scenarios.

A result in the open division may differ from these rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from compliance.checks.entries import entry_fault
from compliance.findings.check import judge, manual, not_applicable, quoted, shorten
from compliance.folders import subfolders
from compliance.logs import files
from compliance.rules import Benchmark, ScoredTest
from compliance.subject import Subject
from formats.checks import Check, Checks, Fault, Faults
from formats.record import Official

_SUITES = {
    "datacenter": "datacenter",
    "edge": "edge",
    "datacenter,edge": "both",
    "edge,datacenter": "both",
}
# Every line of accuracy.txt that states a metric is shorter.
_LONGEST_LINE = 4096
# The patterns of metrics have a number like the first expression, which does not match -3, nan and
# 1e9. The second expression matches them too.
_NUMBER = re.compile(r"\[(?:\\d|0-9)\\?\.\]\+")
_ANY_NUMBER = r"[-+]?(?i:nan|inf(?:inity)?|[\d.]+(?:e[-+]?\d+)?)(?!\w)"
_NOT_FINITE = re.compile(r"(?<![\w.])[-+]?(?:nan|inf|infinity)(?![\w.])", re.IGNORECASE)
# A scalar as libraries print it inside a list or a dict. The second group is the number.
_SCALAR = re.compile(r"\b(np\.\w+|tensor|Array)\(([^(),\n]+)[^()\n]*\)")
_PRINTERS = {"np": "NumPy 2", "tensor": "PyTorch", "Array": "JAX"}
# A value in a line of a metric that the audit does not know.
_A_VALUE = re.compile(rf"[=:(]\s*(?:{_NOT_FINITE.pattern})", re.IGNORECASE)
_SCORE_AGAIN = "score the answers again"


def checks(subject: Subject) -> Checks:
    """The checks of a benchmark's own rules. In the open division only impossible values fail, and
    `eligibility` lists the differences.
    """
    row = subject.official_rules
    scored = [
        _scored(name, rule, subject)
        for name, rule in subject.rules.scored_tests.items()
        if _concerns(name, rule, subject)
    ]
    if row is None:  # the check of the model mapping reports it
        faults = list(_not_finite(subject))
        found = [judge("accuracy-target", faults, "", fix=_SCORE_AGAIN)] if faults else []
        return [*found, *scored]
    if subject.is_open:
        why = f"the open division may differ from {subject.official}; see the check `eligibility`"
        accuracies = not_applicable("accuracy-target", why)
        if impossible := list(_impossible(subject, row)):
            accuracies = judge("accuracy-target", impossible, "", fix=_SCORE_AGAIN)
        return [not_applicable("benchmark", why), accuracies, *scenarios(subject), *scored]
    good = f"counts and settings are those of {subject.official}"
    return [
        judge("benchmark", _misfits(subject), good),
        judge("accuracy-target", accuracy(subject, row), "every metric is within its limits"),
        *scenarios(subject),
        *scored,
    ]


def scenarios(subject: Subject) -> Checks:
    """The check that the scenarios of a benchmark are those of the system's suite. None if the
    round has no such benchmark: the check of the model mapping reports it.
    """
    if subject.official_rules is None:
        return []
    if subject.is_open:
        why = f"the open division may differ from {subject.official}; see the check `eligibility`"
        return [not_applicable("scenarios", why)]
    good = "the scenarios of the system's suite"
    return [judge("scenarios", _wrong_scenarios(subject), good)]


def _misfits(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each difference between the tests and the benchmark. There is none for a
    benchmark that the round does not have.
    """
    row = subject.official_rules
    if row is None or not all(test.detail.values for test in subject.tests):
        return
    place = subject.place
    detail = subject.performance.detail
    official = subject.official
    who = f"{official} has"
    counts = {"effective_performance_sample_count": row.performance_sample_count}
    if subject.scenario == "Offline" and place.division == "closed":
        counts["effective_samples_per_query"] = row.offline_samples or 0
    for key, least in counts.items():
        if (detail.number(key) or 0) < least:
            yield entry_fault(detail, key, f"at least {least}", who)
    key = "effective_accuracy_sample_count"
    whole = row.accuracy_sample_count or row.dataset_size
    if subject.accuracy.detail.get(key) != whole:
        yield entry_fault(subject.accuracy.detail, key, whole, who)
    # LoadGen logs a requested count even if the library has fewer samples.
    key = "qsl_reported_total_count"
    for test in subject.tests:
        count = test.detail.number(f"effective_{test.name}_sample_count") or 0
        if (test.detail.number(key) or 0) < count:
            yield entry_fault(test.detail, key, f"at least {count}", "the settings request")
    if row.token_latencies and not detail.has_tokens:
        yield Fault(f"token latencies are not measured, and {official} requires them")
    yield from _late(subject, row)
    if subject.is_open and subject.accuracy_text is not None:
        first = next(iter(row.accuracy))
        if not list(_values(subject, first)):
            rule = f"it is the metric of {official}"
            yield _no_line(subject, first, rule, "a number")


def _late(subject: Subject, row: Benchmark) -> Iterator[Fault]:
    """Yield a fault for each latency over the benchmark's limits.

    Server is judged by the limit that LoadGen was given, other scenarios by their measured latency
    (performance_check.py, latency_check, llm_check).
    """
    detail = subject.performance.detail
    scenario = subject.place.scenario
    who = f"{subject.official} has"
    key = "result_99.00_percentile_latency_ns"
    if scenario == "Server":
        key = "effective_target_latency_ns"
    most = row.latency_ns.get(scenario)
    value = detail.number(key)
    if most is not None:
        # LoadGen logs a limit of 0 if only tokens have one.
        has_limit = value is not None and (value > 0 or row.token_latencies)
        if value is None or not has_limit or value > most:
            yield entry_fault(detail, key, f"at most {most}", who)
    keys = {
        "ttft": "result_first_token_99.00_percentile_latency_ns",
        "tpot": "result_time_per_output_token_99.00_percentile_ns",
    }
    for kind, limit in row.token_latency_ns.get(scenario, {}).items():
        if not 0 < (detail.number(keys[kind]) or 0) < limit:
            yield entry_fault(detail, keys[kind], f"less than {limit}", who)


def accuracy(subject: Subject, row: Benchmark) -> Faults:
    """Yield a fault for each metric of the benchmark that is missing in accuracy.txt, and for each
    value outside the limits (accuracy_check.py, accuracy_result_check).
    """
    yield from _impossible(subject, row)
    file = subject.accuracy_file
    for metric in row.metrics:
        least = row.accuracy.get(metric, -math.inf)
        most = row.accuracy_at_most.get(metric, math.inf)
        limits = [f"at least {least}"] if metric in row.accuracy else []
        if metric in row.accuracy_at_most:
            limits.append(f"at most {most}")
        expected = " and ".join(limits)
        rule = f"{subject.official} requires {expected}"
        values = list(_values(subject, metric))
        if not values and metric in row.accuracy:
            yield _no_line(subject, metric, rule, expected)
        for line, text in values:
            if not least <= _number(text) <= most:
                value = text[:40]
                yield Fault(f"{metric} is {value}; {rule}", expected, value, file, line)


def _no_line(subject: Subject, metric: str, rule: str, expected: str) -> Fault:
    """The fault of an accuracy.txt without a line that the checker's pattern of a metric matches.
    It names the library whose scalar hides the number, if there is one.
    """
    file = subject.accuracy_file
    text = subject.accuracy_text or ""
    lines = text.splitlines()
    pattern = subject.rules.accuracy_patterns[metric]
    for number, value, _ in _matches(_SCALAR.sub(r"\2", text), pattern):
        for scalar in _SCALAR.finditer(lines[number - 1]):
            if scalar[2] == value:
                printer = _PRINTERS[scalar[1].partition(".")[0]]
                sentence = (
                    f"{metric} is {scalar[0]}, in which MLCommons' checker finds no number:"
                    f" {printer} prints a scalar so inside a dict; print float() of it"
                )
                return Fault(sentence, value, scalar[0], file, number)
    return Fault(f"accuracy.txt has no line of {metric}; {rule}", expected, "none", file)


def _impossible(subject: Subject, row: Benchmark) -> Faults:
    """Yield a fault for each value that a metric cannot have in any division: no number, infinite,
    below 0, or above the metric's largest.
    """
    rules = subject.rules
    file = subject.accuracy_file
    plain = _SCALAR.sub(r"\2", subject.accuracy_text or "")
    for metric in row.metrics:
        most = rules.accuracy_most.get(metric, math.inf)
        pattern = _NUMBER.sub(lambda _: _ANY_NUMBER, rules.accuracy_patterns[metric])
        expected = "a number from 0" if math.isinf(most) else f"a number from 0 to {most:g}"
        for line, text, whole in _matches(plain, pattern):
            value = _number(text)
            match = _NOT_FINITE.search(whole)
            if match or not 0 <= value <= most or math.isinf(value):
                excerpt = match[0] if match else text[:40]
                sentence = f"{metric}: accuracy.txt says {excerpt}; it must be {expected}"
                yield Fault(sentence, expected, excerpt, file, line)


def _not_finite(subject: Subject) -> Faults:
    """Yield a fault for each line of accuracy.txt with a value that is no finite number, for a
    model without an official benchmark.
    """
    for number, line in enumerate((subject.accuracy_text or "").splitlines(), 1):
        if match := _A_VALUE.search(line[:_LONGEST_LINE]):
            excerpt = shorten(line.strip(), 60)
            text = f"accuracy.txt says {excerpt!r}; a score is a finite number"
            yield Fault(text, "a number", match[0], subject.accuracy_file, number)


def _number(text: str) -> float:
    """The number in a text; NaN if it is no number, such as 1.2.3."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _values(subject: Subject, metric: str) -> Iterator[tuple[int, str]]:
    """(line, value as text) of each line of accuracy.txt that gives the metric."""
    pattern = subject.rules.accuracy_patterns[metric]
    for number, value, _ in _matches(subject.accuracy_text, pattern):
        yield number, value


def far_apart(subject: Subject, texts: Sequence[str | None]) -> Faults:
    """Yield a sentence if TEST01's accuracy is too far from the accuracy run's, for a SUT that is
    not deterministic (get_delta_perc).

    Args:
        texts: the content of baseline_accuracy.txt and compliance_accuracy.txt.
    """
    row = subject.official_rules
    if row is None:
        return
    usual_percent = 0.1 if "99.9" in str(subject.official) else 1.0
    for metric in row.accuracy:
        allowed = row.accuracy_delta_percent.get(metric, usual_percent)
        pattern = subject.rules.accuracy_patterns[metric]
        first, second = (_last(text, pattern) for text in texts)
        if first is None or second is None:
            yield f"baseline_accuracy.txt or compliance_accuracy.txt has no line of {metric}"
        elif not (first > 0 and second > 0 and abs(1 - first / second) * 100 <= allowed):
            yield (
                f"{metric} is {first:g} in baseline_accuracy.txt, {second:g} in"
                f" compliance_accuracy.txt; they may differ by {allowed:g} %"
            )


def _last(text: str | None, pattern: str) -> float | None:
    """The number in the last line that matches; None if no line does."""
    values = [value for _, value, _ in _matches(text, pattern)]
    return _number(values[-1]) if values else None


def _matches(text: str | None, pattern: str) -> Iterator[tuple[int, str, str]]:
    """(number, first group, whole match) of each line that matches."""
    compiled = re.compile(pattern, re.ASCII)
    for number, line in enumerate((text or "").splitlines(), 1):
        if match := compiled.match(line[:_LONGEST_LINE]):
            yield number, match[1], match[0]


def _unsuited(subject: Subject) -> Iterator[Fault]:
    """Yield a fault if the benchmark does not belong to the suite that the system description
    names.
    """
    row = subject.official_rules
    if row and _suite(subject) not in row.required:
        system_type = (subject.system or {}).get("system_type")
        suites = ", ".join(row.required)
        text = (
            f"{subject.official} is not a benchmark of this system's suite {quoted(system_type)};"
            f" its suites are {suites}"
        )
        yield Fault(text, suites, shorten(system_type))


def _suite(subject: Subject) -> str:
    system_type = (subject.system or {}).get("system_type")
    return _SUITES.get(system_type, "") if isinstance(system_type, str) else ""


def _wrong_scenarios(subject: Subject) -> Faults:
    """Yield a fault for each missing or foreign scenario. All required scenarios must be there, and
    only the optional ones may be there too. Some benchmarks need Server or Interactive (loader.py,
    check_scenarios).
    """
    if faults := list(_unsuited(subject)):
        yield from faults
        return
    official = subject.official
    row = subject.rules.benchmarks[official or ""]
    suite = _suite(subject)
    of_suite = f"for a system of the suite {shorten((subject.system or {}).get('system_type'))}"
    there = {folder.name.lower() for folder in subfolders(subject.place.folder.parent)}
    required = row.required[suite]
    optional = row.optional.get(suite, ())
    for name in required:
        if name.lower() not in there:
            text = f"{name} is missing; {official} requires it {of_suite}"
            yield Fault(text, name, "missing")
    scenario = subject.place.scenario
    if scenario not in (*required, *optional):
        allowed = ", ".join((*required, *optional))
        text = f"{scenario} is not a scenario of {official} {of_suite}"
        yield Fault(text, allowed, scenario)
    if {"Server", "Interactive"} <= set(optional) and not there & {"server", "interactive"}:
        either = "Server or Interactive"
        text = f"{either} is missing; {official} requires one of them"
        yield Fault(text, either, "neither")


def _concerns(name: str, rule: ScoredTest, subject: Subject) -> bool:
    required = not subject.is_open and subject.official in rule.required_by
    return required or (subject.place.compliance / name).exists()


def _scored(name: str, rule: ScoredTest, subject: Subject) -> Check:
    """The check of a test that a benchmark's own script scores. Only the script's text is there, so
    a failure in it counts, but a pass is for a person to judge.
    """
    verdict_file = rule.verdict_file
    path = subject.place.compliance / name / verdict_file
    file = subject.place.show(path)
    text, fault = files.attempt(files.text, path)
    if text is None or "TEST PASS" not in text:
        faults = [fault or f"{verdict_file} does not say TEST PASS"]
        return judge(name.lower(), faults, "", file)
    why = (
        f"{verdict_file} of the benchmark's own script says TEST PASS: ask the submitter for"
        " the logs of the test"
    )
    return manual(name.lower(), why, file=file)


def eligibility(subject: Subject) -> Check:
    """The check with the reasons why this is no MLPerf submission. It is for people and never fails
    a level.
    """
    reasons = list(_ineligible(subject))
    if not reasons:
        why = "people have to judge data set, model and review; until then it is unverified"
        return manual("eligibility", why)
    why = f"not eligible as an MLPerf submission because {'; '.join(reasons)}"
    return manual("eligibility", why, reasons=reasons)


def _ineligible(subject: Subject) -> Iterator[str]:
    if subject.record:
        record = subject.record
        if record.qsl.synthetic:
            yield "its inputs are synthetic"
        cell = record.cell
        if "seeded" in (record.digests.weights_source, cell.weights):
            yield "its weights are random"
        if cell.size not in ("full", "user"):
            yield f"the model has size {shorten(cell.size)}"
        if cell.sut == "mock":
            yield "the SUT is a mock"
        if record.mode == "quick":
            yield "it is a quick run"
    if subject.is_open:
        yield from (fault.text for fault in (*_misfits(subject), *_unsuited(subject)))
    official = subject.record.official if subject.record else None
    if official:
        yield from _other_files(subject, official)
    elif subject.place.run is not None:
        yield (
            "its accuracy is judged against a reference of the same weights, not by the benchmark's"
            " own metric"
        )


def _other_files(subject: Subject, official: Official) -> Iterator[str]:
    """Yield a phrase for each file that is not the one that the round publishes."""
    row = subject.official_rules
    workload = subject.rules.workloads.get(row.workload if row else "")
    if workload is None:
        yield f"{shorten(str(subject.official))} is not run with a user's files"
        return
    for name, md5 in workload.files.items():
        if official.files.get(name) != md5:
            yield f"its {name} is not the published one"
