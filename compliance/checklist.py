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
from formats.checks import Check, Checks

Find = Callable[[Subject], Check | Checks]
"""A function that returns a check of one result folder, or several."""


@dataclass(frozen=True)
class CheckGroup:
    """Checks that are computed together. If one of them raises an error, only this group is left
    out.

    Attributes:
        name: the check `audit` reports the error under this name.
        finds: the functions that return the checks.
        of_logs: whether the checks need a detail log. Without one, each of them would only report
            that it is missing.
        of_run, of_record: whether the checks are of the files of a run directory, which a
            submission does not contain, and whether they need its record.json.
    """

    name: str
    finds: tuple[Find, ...]
    of_logs: bool = False
    of_run: bool = False
    of_record: bool = False

    def checks(self, subject: Subject) -> Checks:
        """The checks of one result folder."""
        checks: Checks = []
        for find in self.finds:
            found = find(subject)
            checks += [found] if isinstance(found, Check) else found
        return checks


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


_METADATA = CheckGroup("metadata", (metadata.checks, benchmark.eligibility))
OF_ENDPOINTS = (
    CheckGroup("layout", (layout.endpoints_documents,)),
    _METADATA,
    CheckGroup("scenarios", (benchmark.scenarios,)),
)
"""The groups of a result of mlcommons/endpoints in a submission: its documents and folders have the
rules of LoadGen's results.
"""

_FIGURES = (
    validity.errors,
    latencies.checks,
    validity.parts,
    duration.performance,
    validity.early_stopping,
    duration.accuracy,
    validity.verdict,
    duration.measured,
)
_RECOMPUTED = (sample_order.loaded_sets, trace.checks, sample_order.performance)
_RUN = (metadata.record_json, record.agreement, dates_and_digests.digests)
_RECORD = (
    dates_and_digests.recorded_digests,
    record.checks,
    result.clock,
    result.check,
    score.tolerance,
    score.judged,
)
GROUPS = (
    CheckGroup("layout", (layout.checks,)),
    CheckGroup("inferred", (settings.inferred,), of_logs=True),
    CheckGroup("settings", (_settings,), of_logs=True),
    CheckGroup("validity", _FIGURES, of_logs=True),
    CheckGroup("recomputed", _RECOMPUTED, of_logs=True),
    CheckGroup("batches", (duration.whole_batches,), of_logs=True),
    CheckGroup("provenance", (loadgen_build.checks, dates_and_digests.dates), of_logs=True),
    CheckGroup("run", _RUN, of_logs=True, of_run=True),
    CheckGroup("record", _RECORD, of_logs=True, of_record=True),
    CheckGroup("scores", (_scores,)),
    CheckGroup("evidence", (evidence.checks, precision.checks), of_record=True),
    CheckGroup("watched", (answers_while_measuring.checks,), of_record=True),
    _METADATA,
    CheckGroup("official", (benchmark.checks,), of_logs=True),
    CheckGroup("compliance-tests", (compliance_tests.checks,), of_logs=True),
)
