"""Is a compliance test one of the same run? Its LoadGen, its SUT and its library must be the
performance run's, and so must its files in raw/. Its settings must be those of audit.config, and
else the performance run's.
"""

from __future__ import annotations

from collections.abc import Mapping

from compliance.checks.logs import effective_settings
from compliance.checks.logs.settings import ORDINARY, has_audit_config
from compliance.findings.check import mismatch
from compliance.logs import files
from compliance.logs.dates import power_date
from compliance.logs.user_conf import parse
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Faults

_BUILD_DATE = "loadgen_build_date_utc"
_SAME = (
    "loadgen_version",
    _BUILD_DATE,
    "loadgen_git_status_message",
    "loadgen_file_sha1",
    "sut_name",
    "qsl_name",
    "qsl_reported_total_count",
    "qsl_reported_performance_count",
    "loaded_qsl_set",
)
"""Keys whose values must be the performance run's, whatever audit.config says."""
_STARTS = ("test_datetime", "power_begin")
_LATENCIES = ("result_min_latency_ns", "result_mean_latency_ns", "result_max_latency_ns")
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


def of_logs(test: LoadGenRun, subject: Subject) -> Faults:
    """Yield a sentence for each difference between the logs of the test and of the performance run,
    and for each sign that two tests share one log.
    """
    detail = test.detail
    reference = subject.performance.detail
    for key in _SAME:
        if key == _BUILD_DATE and subject.place.run is None:
            continue  # the same revision may have been built again
        value = detail.get(key)
        expected = reference.get(key)
        if value is None or value != expected:
            yield f"{key} is {str(value)[:80]}; the performance run has {str(expected)[:80]}"
    began = detail.get("power_begin")
    performance_began = reference.get("power_begin")
    at = power_date(began)
    before = power_date(performance_began)
    if at is None or before is None or (at <= before and subject.place.run is not None):
        yield (
            f"it began at {began}; the performance run, which comes first, began at"
            f" {performance_began}"
        )
    others = {other.name: other for other in (*subject.tests, *subject.compliance.values())}
    others.pop(test.name, None)
    for name, other in others.items():
        if began is not None and _agree(test, other, _STARTS):
            yield (
                f"it began in the same millisecond as {name}, {began}; two tests cannot begin"
                " together"
            )
        if detail.get("result_mean_latency_ns") is not None and _agree(test, other, _LATENCIES):
            yield (
                f"its least, mean and largest latency are those of {name} to the nanosecond; two"
                " tests never have the same"
            )


def _agree(test: LoadGenRun, other: LoadGenRun, keys: tuple[str, ...]) -> bool:
    return all(test.detail.get(key) == other.detail.get(key) for key in keys)


def of_files(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Faults:
    """Yield the faults of a test's files in raw/: outcome, user.conf and audit.config. The check
    `record` compares the jobs, and `raw-logs` the logs.
    """
    raw = subject.place.raw(test.name)
    assert raw is not None
    yield from (fault for name, fault in test.faults.items() if name != "user.conf")
    if test.user_conf is None or test.user_conf != subject.performance.user_conf:
        yield f"raw/{test.name}/user.conf is not the performance test's"
    text, fault = files.attempt(files.text, raw / "audit.config")
    expected = {f"*.*.{key}": str(value) for key, value in rule.settings(subject.official).items()}
    if text is None or parse(text).values != expected:
        yield fault or f"raw/{test.name}/audit.config is not the one of {test.name}"
    yield from _evidence_faults(test, subject)


def _evidence_faults(test: LoadGenRun, subject: Subject) -> Faults:
    first = subject.performance.after
    second = test.after
    if first is None or second is None:
        if first is not second:
            yield f"evidence: {test.name if second is None else 'the performance test'} has none"
        return
    if first.precision != second.precision:
        text = f"evidence: precision is {second.precision}, in the performance test"
        yield f"{text} {first.precision}"
    if bool(first.graphs) is not bool(second.graphs):
        yield f"evidence: graphs is {second.graphs}, in the performance test {first.graphs}"


def of_settings(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Faults:
    """Yield a fault for each setting that is neither the performance run's nor
    audit.config's.
    """
    detail = test.detail
    reference = subject.performance.detail
    config = rule.settings(subject.official)
    if not has_audit_config(detail):
        yield ORDINARY.format(name=test.name)
    reshaped = not config.keys().isdisjoint(_RESHAPING)
    audited = _audited(config, subject)
    both = (*detail.values, *reference.values)
    keys = {key for key in both if key.startswith(("requested_", "effective_"))}
    for key in sorted(keys - set(audited) - _free(reshaped, subject)):
        if detail.get(key) != reference.get(key):
            yield mismatch(key, detail.get(key), reference.get(key), "the performance run has")
    for key, expected in audited.items():
        value = detail.get(key)
        if not isinstance(value, int) or value != expected:
            yield mismatch(key, value, expected, f"audit.config of {test.name} sets it to")
    mode = detail.get("effective_test_mode")
    if mode != "PerformanceOnly":
        yield mismatch("effective_test_mode", mode, "PerformanceOnly", "it must be")
    if reshaped:
        yield from effective_settings.faults(detail, subject.scenario)


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


def _audited(config: Mapping[str, int], subject: Subject) -> Mapping[str, int]:
    """Key of the detail log → its value from audit.config. `mode` is left out, because it is
    compared with the performance run's.
    """
    values: dict[str, int] = {}
    for key, value in config.items():
        known = subject.rules.user_conf.get(key)
        logged = known.logged_as(subject.scenario) if known else None
        if logged is None:
            continue
        values[logged] = value
        if key != "min_query_count":  # effective_settings computes the effective one
            values[logged.replace("requested_", "effective_", 1)] = value
    return values
