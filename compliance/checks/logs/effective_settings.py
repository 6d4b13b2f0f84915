"""The check that a test's effective settings follow from the requested ones. All functions are
pure.

Source: loadgen/test_settings_internal.cc, TestSettingsInternal.
"""

from __future__ import annotations

from collections.abc import Mapping

from compliance.checks.entries import entry_fault
from compliance.findings.check import differs, judge
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close, signed
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults

_OFFLINE_PERCENTILE = 0.99  # LoadGen's constant, which decides nothing
# Settings that are the same in the requested and the effective half of every log.
_UNCHANGED = (
    "scenario",
    "test_mode",
    "min_duration_ms",
    "max_duration_ms",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "sample_concatenate_permutation",
)
_DURATIONS = ("min_duration_ms", "max_duration_ms")


def check(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's effective settings."""
    good = "they follow from the requested settings"
    found = faults(test.detail, subject.scenario)
    return judge(f"{test.name}-effective-settings", found, good, test.file)


def percentile(test: LoadGenRun, subject: Subject) -> Check:
    """The check that LoadGen judged the latencies by the round's percentile."""
    of_round = subject.rules.scenarios[subject.scenario].percentile / 100
    key = "effective_target_latency_percentile"
    effective = test.detail.number(key)
    faults = []
    if effective is None or not close(effective, of_round, DIGITS):
        who = f"{subject.scenario} has"
        faults.append(entry_fault(test.detail, key, f"{of_round:g}", who))
    return judge(f"{test.name}-latency-percentile", faults, "it is the round's", test.file)


def faults(detail: Detail, scenario: str) -> Faults:
    """Yield a fault for each effective setting that does not follow from the requested ones."""
    for key in _UNCHANGED:
        requested = detail.get(f"requested_{key}")
        effective = detail.get(f"effective_{key}")
        if key in _DURATIONS and isinstance(requested, int):
            requested = signed(requested)
        if requested is None or requested != effective:
            sentence = "{key}: requested {expected}, effective {found}"
            line = detail.line(f"effective_{key}")
            yield differs(sentence, effective, requested, line=line, key=key)
    for test, available in (("performance", "performance"), ("accuracy", "total")):
        override = detail.get(f"requested_{test}_sample_count_override")
        expected = override or detail.get(f"qsl_reported_{available}_count")
        key = f"effective_{test}_sample_count"
        if expected is None or detail.get(key) != expected:
            yield entry_fault(detail, key, expected, "the requested or available count is")
    yield from _follow(detail, scenario)


def _follow(detail: Detail, scenario: str) -> Faults:
    """Yield a fault for each effective setting that depends on the scenario and does not follow
    from the requested ones.
    """
    served = scenario == "Server"
    limit_ns = detail.number("requested_server_target_latency_ns")
    if limit_ns is not None:
        limit_ns = signed(limit_ns)
    fixed = {
        "target_latency_ns": limit_ns if served else 0,
        "max_async_queries": detail.number("requested_server_max_async_queries") if served else 1,
    }
    fixed["target_duration_ms"] = detail.number("effective_min_duration_ms")
    if scenario == "Offline":
        fixed["target_latency_percentile"] = _OFFLINE_PERCENTILE
        fixed["target_duration_ms"] = 0
    for name, value in fixed.items():
        key = f"effective_{name}"
        effective = detail.number(key)
        if effective is None or value is None or not close(effective, value, DIGITS):
            expected = None if value is None else f"{value:g}"
            yield entry_fault(detail, key, expected, f"{scenario} has")
    if scenario in _STREAMS:
        yield from _stream(detail, scenario)
    else:
        yield from _server(detail) if served else _offline(detail)


_STREAMS = {
    "SingleStream": ("single_stream", "qsl_reported_performance_count"),
    "MultiStream": ("multi_stream", "requested_multi_stream_samples_per_query"),
}
"""Scenario → its name in keys, and the key of the size of a loaded set, or of a query."""
_COUNTS = (
    "effective_min_duration_ms",
    "requested_min_query_count",
    "effective_target_qps",
    "effective_samples_per_query",
    "effective_min_query_count",
    "effective_min_sample_count",
)


def _settings(detail: Detail, *keys: str) -> dict[str, float] | None:
    """The values of keys; None if one is missing."""
    values = {key: value for key in keys if (value := detail.number(key)) is not None}
    return values if len(values) == len(keys) else None


def _offline(detail: Detail) -> Faults:
    """Yield the faults of Offline. It has one query of max(min_query_count, 1.1 × min_duration ×
    target_qps) samples.
    """
    settings = _settings(detail, "requested_offline_expected_qps", *_COUNTS)
    if settings is None:
        yield "a setting of Offline is missing"
        return
    requested, duration_ms, least, target, samples, queries, least_samples = settings.values()
    rate = _rate_in_force(requested)
    expected = max(least, int(1.1 * duration_ms / 1e3 * rate))
    if abs(samples - expected) > 1 + DIGITS * expected or not close(rate, target, DIGITS):
        text = (
            f"effective_samples_per_query is {samples} at effective_target_qps {target}; the"
            f" requested settings give {expected} at {rate}"
        )
        line = detail.line("effective_samples_per_query")
        yield Fault(text, f"{expected} at {rate}", f"{samples} at {target}", line=line)
    if queries != 1 or least_samples != samples:
        text = (
            f"effective_min_query_count is {queries} and effective_min_sample_count"
            f" {least_samples}; Offline has 1 and {samples}"
        )
        line = detail.line("effective_min_query_count")
        yield Fault(text, f"1 and {samples}", f"{queries} and {least_samples}", line=line)


def _stream(detail: Detail, scenario: str) -> Faults:
    """Yield the faults of SingleStream or MultiStream. Under equal issue the minimum count of
    SingleStream is that of the generated queries, rounded down to whole sets, plus one set. Equal
    issue changes no setting of MultiStream.
    """
    name, size_key = _STREAMS[scenario]
    key = f"requested_{name}_expected_latency_ns"
    settings = _settings(detail, key, size_key, *_COUNTS)
    if settings is None or settings[key] <= 0:
        yield f"a setting of {scenario} is missing"
        return
    rate = 1e9 / settings[key]
    if not close(settings["effective_target_qps"], rate, 2 * DIGITS):
        who = "the expected latency gives"
        yield entry_fault(detail, "effective_target_qps", f"{rate:.6g}", who)
    yield from _percentile(detail, name)
    least = settings["requested_min_query_count"]
    size = settings[size_key]
    if scenario == "MultiStream":
        yield from _counts(detail, settings, least, size)
        return
    slack = 0.0
    if detail.get("effective_sample_concatenate_permutation") and size > 0:
        prepared = 2 * settings["effective_min_duration_ms"] * 1e6 / settings[key]
        least = (max(least, prepared) // size + 1) * size
        slack = size + 2 * DIGITS * least  # the log has six digits of the latency
    yield from _counts(detail, settings, least, 1, slack)


def _rate_in_force(requested: float) -> float:
    """The rate that LoadGen uses: 1 in place of a negative one, for which it logs an error."""
    return requested if requested >= 0 else 1


def _server(detail: Detail) -> Faults:
    """Yield the faults of Server. The rate must be the requested one, and a query has one
    sample.
    """
    requested_key = "requested_server_target_qps"
    key = "effective_target_qps"
    settings = _settings(detail, requested_key, *_COUNTS[1:])
    if settings is None:
        yield "a setting of Server is missing"
        return
    requested = _rate_in_force(settings[requested_key])
    if settings[key] != requested or settings[key] <= 0:
        yield entry_fault(detail, key, f"{requested:.6g}", "requested is")
    yield from _percentile(detail, "server")
    yield from _counts(detail, settings, settings["requested_min_query_count"], 1)


def _percentile(detail: Detail, name: str) -> Faults:
    key = "effective_target_latency_percentile"
    requested = detail.get(f"requested_{name}_target_latency_percentile")
    if requested != detail.get(key):
        yield entry_fault(detail, key, requested, "the requested one is")


def _counts(
    detail: Detail, settings: Mapping[str, float], least: float, each: float, slack: float = 0
) -> Faults:
    """Yield a fault if the counts are not `least` queries of `each` samples. `slack` is the number
    of queries by which they may differ.
    """
    queries = settings["effective_min_query_count"]
    samples = settings["effective_samples_per_query"]
    least_samples = settings["effective_min_sample_count"]
    if abs(queries - least) > slack or samples != each or least_samples != queries * each:
        text = (
            f"effective_min_query_count is {queries} of {samples} sample(s) and"
            f" effective_min_sample_count {least_samples}; the requested settings give {least:g} of"
            f" {each:g}"
        )
        line = detail.line("effective_min_query_count")
        yield Fault(text, f"{least:g} of {each:g}", f"{queries} of {samples}", line=line)
