"""The checks of all compliance tests of a round, and which tests apply to a job. Every test must
satisfy some: its files, its log, its settings, and the same run as the performance test.
"""

from __future__ import annotations

from dataclasses import replace

from compliance.audit_tests import same_run, test01, test04, test06
from compliance.checks.logs import duration, latencies, validity
from compliance.checks.logs import trace as checks_of_trace
from compliance.checks.submission import layout
from compliance.findings.check import failed, judge, not_applicable
from compliance.logs import files
from compliance.logs import trace as traces
from compliance.rules import ComplianceTest, Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Checks, Fault, Faults
from formats.job import Job

# LoadGen's other logs and these files are tolerated anywhere in the test's folder.
_TOLERATED = ("metadata.json", "accuracy.txt")
_DETAIL = "performance/run_1/mlperf_log_detail.txt"
# The submission checker looks only for these.
_CHECKED = ("verify_", _DETAIL)
_COUNT = "min_query_count"
_TRACE = "mlperf_log_trace.json.gz"


_CHECKS = {"TEST01": test01.checks, "TEST04": test04.checks, "TEST06": test06.checks}
"""Compliance test → the checks that only this test has."""


def checks(subject: Subject) -> Checks:
    """The checks of every compliance test of the round, even of a missing one."""
    results: Checks = []
    for name, rule in subject.rules.compliance_tests.items():
        test = subject.compliance.get(name)
        if test is None:
            results.append(_absent(name, rule, subject))
        elif fault := _not_run(test, subject):
            results.append(failed(f"{test.slug}-run", fault, subject.test_folder(name)))
        else:
            results += _of_every_test(test, rule, subject)
            results += _CHECKS[name](test, rule, subject)
    return results


def applicable(job: Job, rules: Rules) -> tuple[str, ...]:
    """The compliance tests of a round that apply to the job of the performance test."""
    samples = job.limits.performance_sample_count
    return tuple(name for name in rules.compliance_tests if not inapplicable(name, job, samples))


def inapplicable(name: str, job: Job, samples: int) -> str:
    """Why a compliance test does not apply to a job; empty if it applies.

    Args:
        name: the test, for example TEST01.
        job: the job of the performance test.
        samples: the size of the loaded set.
    """
    if name == "TEST04":
        return test04.inapplicable(job, samples)
    generates = job.workload.task == "generate"
    return "" if generates or name != "TEST06" else "the model generates no tokens"


def _absent(name: str, rule: ComplianceTest, subject: Subject) -> Check:
    """The check of a missing test. It fails if the division and the benchmark require the test."""
    folder = subject.test_folder(name)
    division = subject.place.division
    official = subject.official
    if division != "open" and official in rule.required_by:
        fault = f"missing; the {division} division requires it for {official}"
        return failed(name.lower(), fault, folder)
    why = f"missing, and {official} does not require it"
    if division == "open":
        why = "missing, and the open division does not require it"
    job = subject.performance.job
    if job:
        samples = subject.performance.detail.number("effective_performance_sample_count") or 0
        why = inapplicable(name, job, int(samples)) or why
    return not_applicable(name.lower(), why, folder)


def _not_run(test: LoadGenRun, subject: Subject) -> str:
    """Why there is no finished test to judge; empty if there is one."""
    if test.outcome is None and not (subject.place.compliance / test.name).exists():
        return "it was not finished"
    if test.outcome is not None and test.outcome.status != "ok":
        return f"it ended with status {test.outcome.status}: {test.outcome.reason}"
    return ""


def _of_every_test(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Checks:
    """The checks of a test's files, log and settings. TEST06 may be submitted without its detail
    log.
    """
    folder = subject.test_folder(test.name)
    good = "the files that the layout requires, none empty"
    slug = test.slug
    results = [judge(f"{slug}-files", _files(test, rule, subject), good, folder)]
    if not test.detail.values and subject.place.run is None and _DETAIL in rule.optional_files:
        why = "the layout does not require its detail log, and there is none"
        results.append(not_applicable(f"{slug}-log", why, folder))
    else:
        results += _of_log(test, rule, subject, folder)
    if subject.place.run is not None:
        faults = same_run.of_files(test, rule, subject)
        results.append(judge(f"{slug}-run", faults, "the same job, with the raw logs", folder))
    return results


def _of_log(test: LoadGenRun, rule: ComplianceTest, subject: Subject, folder: str) -> Checks:
    config = rule.settings(subject.official)
    listed = ", ".join(f"{key} {value}" for key, value in config.items())
    settings = f"the performance run's, and those of audit.config: {listed}"
    same = "version, SUT and library are the performance run's, which is earlier"
    faults = same_run.of_settings(test, rule, subject)
    figures = "whole, no error, and its figures agree"
    slug = test.slug
    return [
        judge(f"{slug}-log", _log_faults(test, subject), figures, folder),
        _verdict(test, rule, subject, folder),
        judge(f"{slug}-settings", faults, settings, folder),
        judge(f"{slug}-loadgen", same_run.of_logs(test, subject), same, folder),
    ]


def _files(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Faults:
    folder = subject.place.compliance / test.name
    for name in rule.files:
        size, fault = files.attempt(lambda path: path.stat().st_size, folder / name)
        if fault or not (folder / name).is_file() or not size:
            state = "missing" if fault else "empty or no file"
            looked_for = name.startswith(_CHECKED) and not subject.is_open
            yield Fault(f"{name} is {state}", stricter=not looked_for)
    expected = {folder / name for name in (*rule.files, *rule.optional_files)}
    expected |= {parent for path in expected for parent in path.parents}
    for path in files.under(folder):
        tolerated = path.name in _TOLERATED or path.name.startswith("mlperf_log_")
        if path not in expected and not (path.is_file() and tolerated):
            text = f"{path.relative_to(folder).as_posix()} does not belong there"
            yield Fault(text, stricter=True)


def _verdict(test: LoadGenRun, rule: ComplianceTest, subject: Subject, folder: str) -> Check:
    """The check of LoadGen's verdict. A quick run with a shorter duration need not be VALID. A test
    whose audit.config requests few queries may have too few for early stopping, as TEST06 in
    Server.
    """
    check_id = f"{test.slug}-verdict"
    verdict = test.detail.get("result_validity", "none")
    duration_ms = subject.performance.detail.get("effective_min_duration_ms")
    required_ms = subject.rules.scenarios[subject.scenario].min_duration_ms
    is_quick = subject.record is not None and subject.record.mode == "quick"
    if is_quick and duration_ms != required_ms:
        why = f"a quick run need not be VALID; LoadGen says {verdict}"
        return not_applicable(check_id, why, folder)
    if _COUNT in rule.audit and _only_early_stopping(test):
        why = (
            f"LoadGen says {verdict}, because early stopping needs more queries than the"
            f" {rule.audit[_COUNT]} that it requests"
        )
        return not_applicable(check_id, why, folder)
    faults = []
    if verdict != "VALID":
        reasons = " ".join(str(r) for r in test.detail.all("result_invalid_reason")).strip()
        faults.append(f"{verdict}; it must be VALID. {reasons[:200]}".strip())
    return judge(check_id, faults, "VALID", folder)


def _only_early_stopping(test: LoadGenRun) -> bool:
    """Whether a test is not VALID only because early stopping was not met."""
    others = ["result_min_duration_met", "result_min_queries_met"]
    detail = test.detail
    if detail.get("effective_scenario") == "Server":
        others.append("result_perf_constraints_met")
    if detail.get("early_stopping_met") is not False:
        return False
    return all(detail.get(key) is True for key in others)


def _log_faults(test: LoadGenRun, subject: Subject) -> Faults:
    """Yield the faults of a test's logs and, in a run directory, of its trace. They are judged like
    those of the performance run, by the rules that do not depend on audit.config.

    If the performance run has a trace, the test must have one too.
    """
    as_run = replace(subject, performance=replace(test, name="performance"))
    results = [
        *layout.of_test(as_run.performance, as_run),
        validity.error_lines(as_run.performance, as_run),
        *latencies.checks(as_run),
        validity.parts(as_run),
        duration.performance(as_run),
        validity.early_stopping(as_run),
    ]
    raw = subject.place.raw(test.name)
    unread = ""
    if raw and subject.trace:
        shown = subject.place.show(raw / _TRACE)
        trace, fault = files.attempt(traces.read, raw / _TRACE)
        if trace is None:
            unread = f"{shown}: {fault}; the performance run has its trace"
        else:
            results += checks_of_trace.checks(replace(as_run, trace=trace, trace_file=shown))
    for check in results:
        name = check.name.removeprefix("performance ")
        for each in check.faults:
            yield replace(each, text=f"{name}: {each.text}")
    if unread:
        yield Fault(unread)
