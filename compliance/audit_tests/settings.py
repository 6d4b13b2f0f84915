"""The settings of a compliance test: those of audit.config, and else the performance run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compliance.checks.logs.settings import ORDINARY, has_audit_config
from compliance.findings.check import mismatch
from compliance.loadgen import counts
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Faults

# Effective settings that LoadGen computes from the requested counts and durations.
_DERIVED = (
    "samples_per_query",
    "min_query_count",
    "min_sample_count",
    "target_duration_ms",
    "target_qps",
)
_RESHAPING = ("min_query_count", "min_duration", "sample_concatenate_permutation")
"""Keys of audit.config that change the counts of the test."""
_TARGETS = (
    "offline_expected_qps",
    "single_stream_expected_latency_ns",
    "multi_stream_expected_latency_ns",
    "server_target_qps",
)


def expected(rule: ComplianceTest, subject: Subject) -> str:
    """The sentence that says which settings the test must have."""
    config = rule.settings(subject.official)
    listed = ", ".join(f"{key} {value}" for key, value in config.items())
    return f"the performance run's, and those of audit.config: {listed}"


def faults(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Faults:
    """Yield a fault for each setting that is neither the performance run's nor
    audit.config's.
    """
    detail, reference = test.detail, subject.performance.detail
    if not has_audit_config(detail):
        yield ORDINARY.format(name=test.name)
    reshaped = any(key in rule.settings(subject.official) for key in _RESHAPING)
    audited = _audited(rule, subject)
    keys = {key for log in (detail, reference) for key in log.values if _is_setting(key)}
    for key in sorted(keys - set(audited) - _free(reshaped, subject)):
        if detail.get(key) != reference.get(key):
            yield mismatch(key, detail.get(key), reference.get(key), "the performance run has")
    for key, expected_value in audited.items():
        value = detail.get(key)
        if not isinstance(value, int) or value != expected_value:
            who = f"audit.config of {test.name} sets it to"
            yield mismatch(key, value, expected_value, who)
    mode = detail.get("effective_test_mode")
    if mode != "PerformanceOnly":
        yield mismatch("effective_test_mode", mode, "PerformanceOnly", "it must be")
    if reshaped:
        yield from _counts(test, subject)


def _is_setting(key: str) -> bool:
    return key.startswith(("requested_", "effective_"))


def _free(reshaped: bool, subject: Subject) -> set[str]:
    """The keys that may differ from the performance run's.

    Args:
        reshaped: whether audit.config changes the counts of the test.
    """
    free = {f"effective_{key}" for key in _DERIVED} if reshaped else set()
    if subject.place.run is None:  # another submitter's tests may have other targets
        free |= {f"effective_{key}" for key in (*_DERIVED, "max_query_count")}
        free |= {f"requested_{key}" for key in (*_TARGETS, "min_query_count", "max_query_count")}
    return free


def _audited(rule: ComplianceTest, subject: Subject) -> Mapping[str, int]:
    """Key of the detail log → its value from audit.config. `mode` is left out, because it is
    compared with the performance run's.
    """
    values: dict[str, int] = {}
    for key, value in rule.settings(subject.official).items():
        known = subject.rules.user_conf.get(key)
        logged = known.logged_as(subject.scenario) if known else None
        if logged is None:
            continue
        values[logged] = value
        if key != "min_query_count":  # the effective one follows, see _counts
            values[logged.replace("requested_", "effective_", 1)] = value
    return values


def _counts(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each effective count that does not follow from the requested ones,
    without equal issue (test_settings_internal.cc).
    """
    detail = test.detail
    least = detail.number("requested_min_query_count")
    duration_ms = detail.number("requested_min_duration_ms")
    rate = detail.number("effective_target_qps")
    if least is None or duration_ms is None or rate is None:
        yield "the requested counts are missing"
        return
    if subject.scenario == "Offline":
        queries: float = 1
        per_query: float = max(least, int(1.1 * duration_ms / 1e3 * rate))
    else:
        queries = least
        per_query = counts.samples_per_query(subject.performance.detail, subject.scenario)
    expected_counts = {
        "samples_per_query": per_query,
        "min_query_count": queries,
        "min_sample_count": queries * per_query,
    }
    for key, count in expected_counts.items():
        value = detail.get(f"effective_{key}")
        if value != count:
            yield f"effective_{key} is {value}; with audit.config it is {count:g}"
