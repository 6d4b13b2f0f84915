"""LoadGen's verdict, put together again from its own figures, and its errors (loadgen/results.cc). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, shorten
from compliance.findings.entries import entry_fault
from compliance.loadgen import counts, early_stopping, latency_limits
from compliance.loadgen.duration import min_duration_met
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject


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
    return judge("loadgen-verdict", _verdict(subject.performance.detail), "VALID", file=file, fix=fixes.VALID)


def error_lines(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's errors, which LoadGen's own verdict does not look at."""
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
    if test.name == "performance" and (test.detail.get("num_errors") != 0 or test.detail.get("num_errors") is False):
        yield entry_fault(test.detail, "num_errors", 0, "it must be there and")
    if "No errors encountered during test." not in test.summary.text:
        yield "the summary does not say that no errors were encountered"


def _validity(detail: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    parts = {
        "result_min_duration_met": min_duration_met(detail, scenario),
        "result_min_queries_met": counts.min_queries_met(detail, scenario),
        "early_stopping_met": early_stopping.met(detail, scenario, rules),
    }
    if scenario == "Server":
        parts["result_perf_constraints_met"] = latency_limits.constraints_met(detail, rules.scenarios[scenario].percentile)
    for key, derived in parts.items():
        if not isinstance(detail.get(key), bool):
            value = shorten(repr(detail.get(key)))
            yield Fault(f"{key} is {value}; true or false belongs there", "true or false", value, line=detail.line(key))
        elif derived is not None and detail.get(key) is not derived:
            yield entry_fault(detail, key, derived, "the figures say")
    early = next((line for line in detail.occurrences.get("generic_message", ()) if "Ending early" in str(line.value)), None)
    if early and detail.get("result_validity") == "VALID":
        yield Fault(f"VALID, and LoadGen says {shorten(early.value)!r}", "no early end", shorten(early.value), line=early.number)
    verdict = "VALID" if all(detail.get(key) is True for key in parts) else "INVALID"
    if detail.get("result_validity") != verdict:
        value = shorten(repr(detail.get("result_validity")))
        text = f"result_validity is {value}; its parts make it {verdict}"
        yield Fault(text, verdict, value, line=detail.line("result_validity"))


def _verdict(detail: Detail) -> Iterator[Fault | str]:
    if detail.get("result_validity") != "VALID":
        verdict_text = shorten(detail.get("result_validity", "none"))
        reasons = " ".join(str(r) for r in detail.all("result_invalid_reason")).strip()
        yield Fault(f"{verdict_text}{': ' if reasons else ''}{reasons[:300]}", "VALID", verdict_text, line=detail.line("result_validity"))
