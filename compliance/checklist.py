"""The list of all groups of checks, in the order of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compliance import logs
from compliance.audit_tests import compliance_tests
from compliance.checks.logs import (
    duration,
    effective_settings,
    latencies,
    loadgen_build,
    sample_order,
    settings,
    trace,
    validity,
)
from compliance.checks.run import answers_while_measuring, evidence, precision, record, result
from compliance.checks.submission import (
    accuracy,
    benchmark,
    dates_and_digests,
    layout,
    metadata,
    score,
)
from compliance.logs import files
from compliance.subject import Subject
from formats.checks import Checks


@dataclass(frozen=True)
class CheckGroup:
    """Checks that are computed together. If one of them raises an error, only this group is left
    out.

    Attributes:
        name: the check `audit` reports the error under this name.
        find: the function that returns the checks of one result folder.
        of_logs: whether the checks need a detail log. Without one, each of them would only report
            that it is missing.
        of_run, of_record: whether the checks are of the files of a run directory, which a
            submission does not contain, and whether they need its record.json.
    """

    name: str
    find: Callable[[Subject], Checks]
    of_logs: bool = False
    of_run: bool = False
    of_record: bool = False


def _settings(subject: Subject) -> Checks:
    checks: Checks = []
    for test in subject.tests:
        checks += [
            *settings.of_test(test, subject),
            effective_settings.check(test, subject),
            effective_settings.percentile(test, subject),
            settings.sample_set(test, subject),
        ]
    return [*checks, settings.user_conf_keys(subject), *settings.of_the_round(subject)]


def _figures(subject: Subject) -> Checks:
    return [
        *validity.errors(subject),
        *latencies.checks(subject),
        validity.parts(subject),
        duration.performance(subject),
        validity.early_stopping(subject),
        duration.accuracy(subject),
        validity.verdict(subject),
        duration.measured(subject),
    ]


def _recomputed(subject: Subject) -> Checks:
    return [
        *sample_order.loaded_sets(subject),
        *trace.checks(subject),
        sample_order.performance(subject),
    ]


def _provenance(subject: Subject) -> Checks:
    return [*loadgen_build.checks(subject), dates_and_digests.dates(subject)]


def _run(subject: Subject) -> Checks:
    return [
        metadata.record_json(subject),
        record.agreement(subject),
        *dates_and_digests.digests(subject),
    ]


def _record(subject: Subject) -> Checks:
    return [
        dates_and_digests.recorded_digests(subject),
        *record.checks(subject),
        result.clock(subject),
        result.check(subject),
        score.tolerance(subject),
        score.judged(subject),
    ]


def _scores(subject: Subject) -> Checks:
    """The checks that need the log of answers. The log may have a million rows, so it is read only
    once.
    """
    whole = accuracy.whole_log(subject)
    if whole is None:
        why = (
            "the log is truncated, and a submission does not contain the original: ask the"
            " submitter for it"
        )
        return [
            *accuracy.checks(subject),
            *accuracy.checks_of_truncated(subject, why),
            score.unverified(subject, why),
        ]
    answers, fault = files.attempt(logs.read_accuracy, whole)
    return [
        *accuracy.checks(subject),
        *accuracy.checks_of_whole(subject, whole, answers, fault),
        score.check(subject, answers, fault),
    ]


def _evidence(subject: Subject) -> Checks:
    return [*evidence.checks(subject), *precision.checks(subject)]


def _metadata(subject: Subject) -> Checks:
    return [*metadata.checks(subject), benchmark.eligibility(subject)]


OF_ENDPOINTS = (
    CheckGroup("layout", layout.endpoints_documents),
    CheckGroup("metadata", _metadata),
    CheckGroup("scenarios", benchmark.scenarios),
)
"""The groups of a result of mlcommons/endpoints in a submission: its documents and folders have the
rules of LoadGen's results.
"""

GROUPS = (
    CheckGroup("layout", layout.checks),
    CheckGroup("inferred", settings.inferred, of_logs=True),
    CheckGroup("settings", _settings, of_logs=True),
    CheckGroup("validity", _figures, of_logs=True),
    CheckGroup("recomputed", _recomputed, of_logs=True),
    CheckGroup("batches", lambda subject: [duration.whole_batches(subject)], of_logs=True),
    CheckGroup("provenance", _provenance, of_logs=True),
    CheckGroup("run", _run, of_logs=True, of_run=True),
    CheckGroup("record", _record, of_logs=True, of_record=True),
    CheckGroup("scores", _scores),
    CheckGroup("evidence", _evidence, of_record=True),
    CheckGroup("watched", answers_while_measuring.checks, of_record=True),
    CheckGroup("metadata", _metadata),
    CheckGroup("official", benchmark.checks, of_logs=True),
    CheckGroup("compliance-tests", compliance_tests.checks, of_logs=True),
)
