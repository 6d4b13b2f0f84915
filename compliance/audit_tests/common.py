"""What every compliance test must satisfy: its files, its log, its settings, and the same run as
the performance test.
"""

from __future__ import annotations

from compliance.audit_tests import check, log, same_run, settings
from compliance.findings import fixes
from compliance.findings.check import judge, not_applicable
from compliance.logs import files
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults

# LoadGen's other logs and these files are tolerated anywhere in the test's folder.
_TOLERATED = ("metadata.json", "accuracy.txt")
# The submission checker looks only for these.
_CHECKED = ("verify_", "performance/run_1/mlperf_log_detail.txt")
_DETAIL = "performance/run_1/mlperf_log_detail.txt"
_COUNT = "min_query_count"


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
    """The checks of a test's files, log and settings. TEST06 may be submitted without its detail
    log.
    """
    folder = check.folder(test, subject)
    results = [
        judge(
            f"{test.slug}-files",
            _files(test, rule, subject),
            "the files that the layout requires, none empty",
            file=folder,
            fix=fixes.FILES_OF_A_TEST,
        )
    ]
    no_log = not test.detail.values and subject.place.run is None
    if no_log and _DETAIL in rule.optional_files:
        why = "the layout does not require its detail log, and there is none"
        results.append(not_applicable(f"{test.slug}-log", why, file=folder))
    else:
        results += _of_log(test, rule, subject, folder)
    if subject.place.run is not None:
        faults = same_run.of_files(test, rule, subject)
        good = "the same job, with the raw logs"
        results.append(check.judge(f"{test.slug}-run", faults, good, folder))
    return results


def _of_log(test: LoadGenRun, rule: ComplianceTest, subject: Subject, folder: str) -> list[Check]:
    return [
        check.judge(
            f"{test.slug}-log",
            log.faults(test, subject),
            "whole, no error, and its figures agree",
            folder,
        ),
        _verdict(test, rule, subject, folder),
        check.judge(
            f"{test.slug}-settings",
            settings.faults(test, rule, subject),
            settings.expected(rule, subject),
            folder,
        ),
        check.judge(
            f"{test.slug}-loadgen",
            same_run.of_logs(test, subject),
            "version, SUT and library are the performance run's, which is earlier",
            folder,
        ),
    ]


def _files(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Faults:
    folder = subject.place.compliance / test.name
    for name in rule.files:
        size, fault = files.attempt(lambda path: path.stat().st_size, folder / name)
        if fault or not (folder / name).is_file() or not size:
            state = "missing" if fault else "empty or no file"
            looked_for = name.startswith(_CHECKED) and subject.place.division != "open"
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
        return not_applicable(check_id, why, file=folder)
    if _COUNT in rule.audit and _only_early_stopping(test):
        why = (
            f"LoadGen says {verdict}, because early stopping needs more queries than the"
            f" {rule.audit[_COUNT]} that it requests"
        )
        return not_applicable(check_id, why, file=folder)
    faults = []
    if verdict != "VALID":
        reasons = " ".join(str(r) for r in test.detail.all("result_invalid_reason")).strip()
        faults.append(f"{verdict}; it must be VALID. {reasons[:200]}".strip())
    return check.judge(check_id, faults, "VALID", folder)


def _only_early_stopping(test: LoadGenRun) -> bool:
    """Whether a test is not VALID only because early stopping was not met."""
    others = ["result_min_duration_met", "result_min_queries_met"]
    if test.detail.get("effective_scenario") == "Server":
        others.append("result_perf_constraints_met")
    if test.detail.get("early_stopping_met") is not False:
        return False
    return all(test.detail.get(key) is True for key in others)
