"""The checks of all compliance tests of a round, and which tests apply to a job."""

from __future__ import annotations

from typing import Protocol

from compliance.audit_tests import check, common, repeats, test01, test04, test06
from compliance.findings import fixes
from compliance.findings.check import judge, not_applicable
from compliance.rules import ComplianceTest, Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check
from formats.job import Job


class Judge(Protocol):
    """The module of one compliance test."""

    def inapplicable(self, job: Job, samples: int) -> str:
        """Why the test does not apply to a job; empty if it applies. `samples` is the size of
        the loaded set.
        """

    def checks(self, test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
        """The checks that only this test has."""


_JUDGES: dict[str, Judge] = {"TEST01": test01, "TEST04": test04, "TEST06": test06}


def checks(subject: Subject) -> list[Check]:
    """The checks of every compliance test of the round, even of a missing one, and of repeated
    samples.
    """
    results: list[Check] = []
    for name, rule in subject.rules.compliance_tests.items():
        test = subject.compliance.get(name)
        if test is None:
            results.append(_absent(name, rule, subject))
        elif fault := _not_run(test, subject):
            folder = check.folder(test, subject)
            results.append(check.judge(f"{test.slug}-run", [fault], "", folder))
        else:
            results += common.checks(test, rule, subject)
            results += _JUDGES[name].checks(test, rule, subject)
    return [*results, repeats.check(subject)]


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
    return _JUDGES[name].inapplicable(job, samples)


def _absent(name: str, rule: ComplianceTest, subject: Subject) -> Check:
    """The check of a missing test. It fails if the division and the benchmark require the test."""
    check_id = name.lower()
    folder = subject.place.show(subject.place.compliance / name)
    division = subject.place.division
    if division != "open" and subject.official in rule.required_by:
        fault = f"missing; the {division} division requires it for {subject.official}"
        return judge(check_id, [fault], "", file=folder, fix=fixes.MISSING_TEST)
    why = f"missing, and {subject.official} does not require it"
    if division == "open":
        why = "missing, and the open division does not require it"
    job = subject.performance.job
    if job:
        samples = subject.performance.detail.number("effective_performance_sample_count") or 0
        why = inapplicable(name, job, int(samples)) or why
    return not_applicable(check_id, why, file=folder)


def _not_run(test: LoadGenRun, subject: Subject) -> str:
    """Why there is no finished test to judge; empty if there is one."""
    if test.outcome is None and not (subject.place.compliance / test.name).exists():
        return "it was not finished"
    if test.outcome is not None and test.outcome.status != "ok":
        return f"it ended with status {test.outcome.status}: {test.outcome.reason}"
    return ""
