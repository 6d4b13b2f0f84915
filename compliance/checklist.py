"""Every family of checks, in the order a report has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compliance.audit_tests import compliance_tests
from compliance.checks import (
    accuracy,
    batches,
    benchmark,
    dates_and_digests,
    duration,
    early_stopping,
    effective_settings,
    evidence,
    latencies,
    layout,
    loadgen_build,
    metadata,
    record,
    sample_order,
    settings,
    trace,
    validity,
)
from compliance.findings.check import Check
from compliance.subject import Subject


@dataclass(frozen=True)
class Family:
    """What is judged together: where one check breaks off, those of its family are left out, and those of the others are not.

    Attributes:
        name: the check `audit-of-<name>` says that it broke off.
        find: the checks of one subject.
        of_logs: whether each check would only say, where there is no detail log, that it is missing.
    """

    name: str
    find: Callable[[Subject], list[Check]]
    of_logs: bool = False


def _settings(s: Subject) -> list[Check]:
    found: list[Check] = []
    for test in s.tests:
        found += [*settings.of_test(test, s), effective_settings.check(test, s), settings.sample_set(test, s)]
    return [*found, settings.user_conf_keys(s), *settings.of_the_round(s)]


def _figures(s: Subject) -> list[Check]:
    return [
        *validity.errors(s),
        *latencies.checks(s),
        validity.parts(s),
        duration.performance(s),
        early_stopping.check(s),
        duration.accuracy(s),
        validity.verdict(s),
        duration.measured(s),
    ]


def _recomputed(s: Subject) -> list[Check]:
    return [*sample_order.loaded_sets(s), *trace.checks(s), sample_order.performance(s)]


def _provenance(s: Subject) -> list[Check]:
    return [
        *loadgen_build.checks(s),
        dates_and_digests.dates(s),
        record.agreement(s),
        *dates_and_digests.digests(s),
        *record.checks(s),
    ]


def _metadata(s: Subject) -> list[Check]:
    return [*metadata.checks(s), benchmark.eligibility(s)]


FAMILIES = (
    Family("layout", layout.checks),
    Family("inferred", settings.inferred, of_logs=True),
    Family("settings", _settings, of_logs=True),
    Family("validity", _figures, of_logs=True),
    Family("recomputed", _recomputed, of_logs=True),
    Family("batches", batches.checks, of_logs=True),
    Family("provenance", _provenance, of_logs=True),
    Family("scores", accuracy.checks),
    Family("evidence", evidence.checks),
    Family("metadata", _metadata),
    Family("official", benchmark.checks, of_logs=True),
    Family("compliance-tests", compliance_tests.checks, of_logs=True),
)
