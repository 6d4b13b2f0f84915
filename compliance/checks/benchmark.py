"""The checks of the official checkers' rules for a benchmark: counts, settings, accuracy,
scenarios.

A result in the open division may differ from these rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

from compliance.findings.check import judge, manual, not_applicable, shorten
from compliance.findings.entries import entry_fault
from compliance.folders import subfolders
from compliance.loadgen.counts import has_token_latencies
from compliance.logs import files
from compliance.rules import Benchmark, ScoredTest
from compliance.subject import Subject
from formats.checks import Check, Fault
from formats.record import Record

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
_NUMBER, _ANY_NUMBER = (
    re.compile(r"\[(?:\\d|0-9)\\?\.\]\+"),
    r"[-+]?(?i:nan|inf(?:inity)?|[\d.]+(?:e[-+]?\d+)?)(?!\w)",
)
_NOT_FINITE = re.compile(r"(?<![\w.])[-+]?(?:nan|inf|infinity)(?![\w.])", re.IGNORECASE)


def checks(subject: Subject) -> list[Check]:
    """The checks of a benchmark's own rules. In the open division only impossible values fail, and
    `eligibility` lists the differences.
    """
    row = subject.rules.benchmarks.get(subject.official or "")
    scored = [
        _scored(name, rule, subject)
        for name, rule in subject.rules.scored_tests.items()
        if _concerns(name, rule, subject)
    ]
    if row is None:
        return scored  # the check of the model mapping reports it
    by_id: dict[str, tuple[Callable[[Subject], Iterator[Fault]], str]] = {
        "benchmark": (_misfits, f"counts and settings are those of {subject.official}"),
        "accuracy-target": (accuracy, "every metric is within its limits"),
        "scenarios": (_scenarios, "those of the system's suite"),
    }
    if subject.place.division == "open":
        why = (
            f"the open division may differ from {subject.official}; eligibility says where it does"
        )
        free = [not_applicable(check_id, why) for check_id in by_id]
        impossible = judge(
            "accuracy-target", _impossible(subject), "", fix="score the answers again"
        )
        return [
            *(impossible if c.id == impossible.id and impossible.faults else c for c in free),
            *scored,
        ]
    fix = "measure what the benchmark asks for, or submit to the open division"
    return [
        *(
            judge(check_id, find(subject), good, fix=fix)
            for check_id, (find, good) in by_id.items()
        ),
        *scored,
    ]


def _misfits(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each difference between the tests and the benchmark. There is none for a
    benchmark that the round does not have.
    """
    row = subject.rules.benchmarks.get(subject.official or "")
    if row is None or not all(test.detail.values for test in subject.tests):
        return
    row, detail = row.of(subject.place.scenario), subject.performance.detail
    counts = [
        (subject.performance, "effective_performance_sample_count", row.performance_sample_count)
    ]
    if subject.scenario == "Offline" and subject.place.division == "closed":
        counts.append(
            (subject.performance, "effective_samples_per_query", row.offline_samples or 0)
        )
    for test, key, least in counts:
        if (test.detail.number(key) or 0) < least:
            yield entry_fault(test.detail, key, f"at least {least}", f"{subject.official} has")
    whole = row.accuracy_sample_count or row.dataset_size
    if subject.accuracy.detail.get("effective_accuracy_sample_count") != whole:
        yield entry_fault(
            subject.accuracy.detail,
            "effective_accuracy_sample_count",
            whole,
            f"{subject.official} has",
        )
    if row.token_latencies and not has_token_latencies(detail):
        yield Fault(f"token latencies are not measured, which {subject.official} asks for")
    yield from _late(subject, row)
    if subject.place.division == "open" and subject.accuracy_text is not None:
        first = next(iter(row.accuracy))
        if not list(_values(subject, first)):
            yield Fault(f"accuracy.txt has no line of the metric of {subject.official}")


def _late(subject: Subject, row: Benchmark) -> Iterator[Fault]:
    """Yield a fault for each latency over the benchmark's limits.

    Server is judged by the limit that LoadGen was given, other scenarios by their measured latency
    (performance_check.py, latency_check, llm_check).
    """
    detail, most = subject.performance.detail, row.latency_ns.get(subject.place.scenario)
    asked = (
        "effective_target_latency_ns"
        if subject.place.scenario == "Server"
        else "result_99.00_percentile_latency_ns"
    )
    logged_limit = detail.number(asked)  # LoadGen logs a limit of 0 if only tokens have one
    if most is not None and (
        logged_limit is None
        or logged_limit > most
        or (logged_limit <= 0 and not row.token_latencies)
    ):
        yield entry_fault(detail, asked, f"at most {most}", f"{subject.official} has")
    keys = {
        "ttft": "result_first_token_99.00_percentile_latency_ns",
        "tpot": "result_time_per_output_token_99.00_percentile_ns",
    }
    for kind, limit in row.token_latency_ns.get(subject.place.scenario, {}).items():
        if not 0 < (detail.number(keys[kind]) or 0) < limit:
            yield entry_fault(detail, keys[kind], f"less than {limit}", f"{subject.official} has")


def accuracy(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each metric of the benchmark that is missing in accuracy.txt, and for each
    value outside the limits (accuracy_check.py, accuracy_result_check).
    """
    yield from _impossible(subject)
    row = subject.rules.benchmarks[subject.official or ""].of(subject.place.scenario)
    file = subject.place.show(subject.accuracy.folder / "accuracy.txt")
    for metric in dict.fromkeys((*row.accuracy, *row.accuracy_at_most)):
        least, most = row.accuracy.get(metric), row.accuracy_at_most.get(metric)
        expected = " and ".join(
            f"{word} {limit}"
            for word, limit in (("at least", least), ("at most", most))
            if limit is not None
        )
        values = list(_values(subject, metric))
        if not values and least is not None:
            yield Fault(
                f"accuracy.txt has no line of {metric}; {subject.official} wants {expected}",
                expected,
                "none",
                file,
            )
        for line, text in values:
            if (
                not (-math.inf if least is None else least)
                <= _number(text)
                <= (math.inf if most is None else most)
            ):
                yield Fault(
                    f"{metric} is {text[:40]}; {subject.official} wants {expected}",
                    expected,
                    text[:40],
                    file,
                    line,
                )


def _impossible(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each value that a metric cannot have in any division: no number, infinite,
    below 0, or above the metric's largest.
    """
    row, file = (
        subject.rules.benchmarks[subject.official or ""].of(subject.place.scenario),
        subject.place.show(subject.accuracy.folder / "accuracy.txt"),
    )
    for metric in dict.fromkeys((*row.accuracy, *row.accuracy_at_most)):
        most = subject.rules.accuracy_most.get(metric, math.inf)
        pattern = _NUMBER.sub(lambda _: _ANY_NUMBER, subject.rules.accuracy_patterns[metric])
        for line, text, whole in _matches(subject.accuracy_text, pattern):
            value, match = _number(text), _NOT_FINITE.search(whole)
            if match or not 0 <= value <= most or math.isinf(value):
                expected = f"a number from 0{'' if math.isinf(most) else f' to {most:g}'}"
                excerpt = match[0] if match else text[:40]
                yield Fault(
                    f"{metric}: accuracy.txt says {excerpt}; it can only be {expected}",
                    expected,
                    excerpt,
                    file,
                    line,
                )


def _number(text: str) -> float:
    """The number in a text; NaN if it is no number, such as 1.2.3."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _values(subject: Subject, metric: str) -> Iterator[tuple[int, str]]:
    """(line, value as text) of each line of accuracy.txt that gives the metric."""
    yield from (
        (number, value)
        for number, value, _ in _matches(
            subject.accuracy_text, subject.rules.accuracy_patterns[metric]
        )
    )


def far_apart(subject: Subject, texts: Sequence[str | None]) -> Iterator[str]:
    """Yield a sentence if TEST01's accuracy is too far from the accuracy run's, for a SUT that is
    not deterministic (get_delta_perc).

    Args:
        texts: the content of baseline_accuracy.txt and compliance_accuracy.txt.
    """
    row = subject.rules.benchmarks.get(subject.official or "")
    for metric in row.accuracy if row else ():
        numbers = [
            [
                _number(value)
                for _, value, _ in _matches(text, subject.rules.accuracy_patterns[metric])
            ]
            for text in texts
        ]
        allowed = (
            row.accuracy_delta_percent.get(metric, 0.1 if "99.9" in str(subject.official) else 1.0)
            if row
            else 0.0
        )
        if not all(numbers):
            yield f"baseline_accuracy.txt or compliance_accuracy.txt has no line of {metric}"
        elif not (
            numbers[0][-1] > 0
            and numbers[1][-1] > 0
            and abs(1 - numbers[0][-1] / numbers[1][-1]) * 100 <= allowed
        ):
            first, second = numbers[0][-1], numbers[1][-1]
            yield (
                f"{metric} is {first:g} in baseline_accuracy.txt, {second:g} in"
                f" compliance_accuracy.txt; they may differ by {allowed:g} %"
            )


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
    row, system_type = (
        subject.rules.benchmarks.get(subject.official or ""),
        (subject.system or {}).get("system_type"),
    )
    if row and _suite(subject) not in row.required:
        named = ", ".join(row.required)
        yield Fault(
            f"{subject.official} is no benchmark of the suite {system_type!r} of this system:"
            f" {named}",
            named,
            str(system_type),
        )


def _suite(subject: Subject) -> str:
    system_type = (subject.system or {}).get("system_type")
    return _SUITES.get(system_type, "") if isinstance(system_type, str) else ""


def _scenarios(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each missing or foreign scenario. All required scenarios must be there, and
    only the optional ones may be there too. Some benchmarks need Server or Interactive (loader.py,
    check_scenarios).
    """
    if faults := list(_unsuited(subject)):
        yield from faults
        return
    row, suite, system_type = (
        subject.rules.benchmarks[subject.official or ""],
        _suite(subject),
        (subject.system or {}).get("system_type"),
    )
    there = {folder.name.lower() for folder in subfolders(subject.place.folder.parent)}
    required, optional = row.required[suite], row.optional.get(suite, ())
    for name in required:
        if name.lower() not in there:
            yield Fault(
                f"{name} is missing; {subject.official} asks for it of a system of the suite"
                f" {system_type}",
                name,
                "missing",
            )
    if subject.place.scenario not in (*required, *optional):
        allowed = ", ".join((*required, *optional))
        yield Fault(
            f"{subject.place.scenario} is no scenario of {subject.official} for the suite"
            f" {system_type}: {allowed}",
            allowed,
            subject.place.scenario,
        )
    if {"Server", "Interactive"} <= set(optional) and not there & {"server", "interactive"}:
        yield Fault(
            f"Server or Interactive is missing; {subject.official} asks for one of them",
            "Server or Interactive",
            "neither",
        )


def _concerns(name: str, rule: ScoredTest, subject: Subject) -> bool:
    return (subject.place.division != "open" and subject.official in rule.required_by) or (
        subject.place.compliance / name
    ).exists()


def _scored(name: str, rule: ScoredTest, subject: Subject) -> Check:
    """The check of a test that a benchmark's own script scores. Only the script's text is there, so
    a failure in it counts, but a pass is for a person to judge.
    """
    path = subject.place.compliance / name / rule.verdict_file
    file = subject.place.show(path)
    text, fault = files.attempt(files.text, path)
    if text is None or "TEST PASS" not in text:
        return judge(
            name.lower(),
            [fault or f"{rule.verdict_file} does not say TEST PASS"],
            "",
            file=file,
            fix="run the test again",
        )
    why = (
        f"{rule.verdict_file} says TEST PASS, by the benchmark's own script: ask the submitter for"
        " its logs"
    )
    return manual(name.lower(), why, file=file)


def eligibility(subject: Subject) -> Check:
    """The check with the reasons why this is no MLPerf submission. It is for people and never fails
    a level.
    """
    reasons = list(_ineligible(subject))
    if not reasons:
        return manual(
            "eligibility",
            "data set, model and review are for people to judge; unverified by MLCommons until they"
            " have",
        )
    return manual(
        "eligibility",
        f"not eligible as an MLPerf submission because {'; '.join(reasons)}",
        reasons=reasons,
    )


def _of_the_record(record: Record) -> Iterator[str]:
    if record.qsl.synthetic:
        yield "its inputs are synthetic"
    if "seeded" in (record.digests.weights_source, record.cell.weights):
        yield "its weights are random"
    if record.cell.size not in ("full", "user", "own"):  # own: a user's weights in older records
        yield f"the model is the {shorten(record.cell.size)} one"
    if record.cell.sut == "mock":
        yield "the SUT is a mock"
    if record.mode == "quick":
        yield "it is a quick run"


def _ineligible(subject: Subject) -> Iterator[str]:
    if subject.record:
        yield from _of_the_record(subject.record)
    if subject.place.division == "open":
        yield from (fault.text for fault in (*_misfits(subject), *_unsuited(subject)))
    if subject.place.run is not None:
        yield (
            "its accuracy is judged against a reference of the same weights, not by the benchmark's"
            " own metric"
        )
