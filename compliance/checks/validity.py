"""LoadGen's verdict, taken apart and put together again from its own figures (loadgen/results.cc). Pure: parsed logs → checks."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, shown
from compliance.findings.entries import of_entry
from compliance.loadgen import counts, early_stopping, latency_limits
from compliance.loadgen.duration import min_duration_met
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.subject import Subject, Test


def errors(s: Subject) -> list[Check]:
    return [error_lines(test, s) for test in s.tests]


def parts(s: Subject) -> Check:
    d = s.performance.detail
    return judge(
        "validity",
        _validity(d, s.scenario, s.rules),
        f"{d.get('result_validity')}, as re-derived from duration, counts and early stopping",
        file=s.place.show(s.performance.folder / "mlperf_log_detail.txt"),
        fix=fixes.FIGURES,
    )


def verdict(s: Subject) -> Check:
    file = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    return judge("loadgen-verdict", _verdict(s.performance.detail), "VALID", file=file, fix=fixes.VALID)


def error_lines(test: Test, s: Subject) -> Check:
    """C2: LoadGen's own verdict does not look at errors."""
    return judge(
        f"{test.name}-errors",
        _errors(test),
        "no error line, none counted",
        file=s.place.show(test.folder / "mlperf_log_detail.txt"),
        fix="see the line in the log, and measure again",
    )


def _errors(test: Test) -> Iterator[Fault | str]:
    for line in test.detail.errors:
        text = f"line {line.number}: {shown(line.key)}: {str(line.value)[:120]}"
        yield Fault(text, "no error line", shown(line.value), line=line.number)
    if not test.detail.values:
        yield f"the {test.name} log shows nothing, neither errors nor their absence"
    if test.name == "performance" and (test.detail.get("num_errors") != 0 or test.detail.get("num_errors") is False):
        yield of_entry(test.detail, "num_errors", 0, "it must be there and")
    if "No errors encountered during test." not in test.summary.text:
        yield "the summary does not say that no errors were encountered"


def _validity(d: Detail, scenario: str, rules: Rules) -> Iterator[Fault | str]:
    parts = {
        "result_min_duration_met": min_duration_met(d, scenario),
        "result_min_queries_met": counts.min_queries_met(d, scenario),
        "early_stopping_met": early_stopping.met(d, scenario, rules),
    }
    if scenario == "Server":
        parts["result_perf_constraints_met"] = latency_limits.constraints_met(d, rules.scenarios[scenario].percentile)
    for key, derived in parts.items():
        if not isinstance(d.get(key), bool):
            value = shown(repr(d.get(key)))
            yield Fault(f"{key} is {value}; true or false belongs there", "true or false", value, line=d.line(key))
        elif derived is not None and d.get(key) is not derived:
            yield of_entry(d, key, derived, "the figures say")
    early = next((line for line in d.occurrences.get("generic_message", ()) if "Ending early" in str(line.value)), None)
    if early and d.get("result_validity") == "VALID":
        yield Fault(f"VALID, and LoadGen says {shown(early.value)!r}", "no early end", shown(early.value), line=early.number)
    verdict = "VALID" if all(d.get(key) is True for key in parts) else "INVALID"
    if d.get("result_validity") != verdict:
        value = shown(repr(d.get("result_validity")))
        text = f"result_validity is {value}; its parts make it {verdict}"
        yield Fault(text, verdict, value, line=d.line("result_validity"))


def _verdict(d: Detail) -> Iterator[Fault | str]:
    if d.get("result_validity") != "VALID":
        found = shown(d.get("result_validity", "none"))
        reasons = " ".join(str(r) for r in d.all("result_invalid_reason")).strip()
        yield Fault(f"{found}{': ' if reasons else ''}{reasons[:300]}", "VALID", found, line=d.line("result_validity"))
