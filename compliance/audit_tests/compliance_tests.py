"""The checks of MLPerf's compliance tests, by their own logs. Their verify_*.txt must agree with
the logs and are never trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compliance.audit_tests import answers, log, repeats, verification, verify_files
from compliance.findings import fixes
from compliance.findings.check import Check, judge, not_applicable
from compliance.loadgen import counts
from compliance.logs import files
from compliance.logs.dates import power_date
from compliance.logs.user_conf import parse
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject

_FILES = "put there what the layout asks for, and nothing else; ./run.sh compliance writes it"
# Keys whose values must be the performance run's, whatever audit.config says.
_SAME_LOADGEN = (
    "loadgen_version",
    "loadgen_build_date_utc",
    "loadgen_git_status_message",
    "loadgen_file_sha1",
    "sut_name",
    "qsl_name",
)
_SAME_LIBRARY = ("qsl_reported_total_count", "qsl_reported_performance_count", "loaded_qsl_set")
_SAME_JOB = (
    "sut",
    "architecture",
    "workload",
    "scenario",
    "benchmark",
    "answer",
    "inputs",
    "limits",
    "made_with",
)
# Effective settings that LoadGen computes from the requested counts and durations.
_DERIVED = (
    "samples_per_query",
    "min_query_count",
    "min_sample_count",
    "target_duration_ms",
    "target_qps",
)
_LATENCIES = ("result_min_latency_ns", "result_mean_latency_ns", "result_max_latency_ns")
_RESHAPING = ("min_query_count", "min_duration", "sample_concatenate_permutation")
_TARGETS = (
    "offline_expected_qps",
    "single_stream_expected_latency_ns",
    "multi_stream_expected_latency_ns",
    "server_target_qps",
)


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
            results.append(
                judge(f"{name.lower()}-run", [fault], "", **_where(test, subject), fix=fixes.COMPLY)
            )
        else:
            results += _test_checks(test, rule, subject)
    return [*results, repeats.check(subject)]


def _where(test: LoadGenRun, subject: Subject) -> dict[str, str]:
    return {"file": subject.place.show(subject.place.compliance / test.name)}


def _absent(name: str, rule: ComplianceTest, subject: Subject) -> Check:
    """The check of a missing test. It fails if the division and the benchmark require the test."""
    where = {"file": subject.place.show(subject.place.compliance / name)}
    if subject.place.division != "open" and subject.official in rule.required_by:
        return judge(
            name.lower(),
            [f"missing; {subject.place.division} asks for it with {subject.official}"],
            "",
            **where,
            fix="./run.sh compliance RUN_DIR",
        )
    job = subject.performance.job
    samples = subject.performance.detail.number("effective_performance_sample_count") or 0
    if job and (why := verification.inapplicable(name, job.workload, int(samples))):
        return not_applicable(name.lower(), why, **where)
    if subject.place.division == "open":
        return not_applicable(
            name.lower(), "not there, and the open division asks for none", **where
        )
    return not_applicable(name.lower(), f"not there, and {subject.official} needs none", **where)


def _not_run(test: LoadGenRun, subject: Subject) -> str:
    """Why there is no finished test to judge; empty if there is one."""
    if test.outcome is None and not (subject.place.compliance / test.name).exists():
        return "it was not finished"
    if test.outcome is not None and test.outcome.status != "ok":
        return f"it ended with status {test.outcome.status}: {test.outcome.reason}"
    return ""


def _test_checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
    where = _where(test, subject)
    bare = (
        not test.detail.values
        and subject.place.run is None
        and "performance/run_1/mlperf_log_detail.txt" in rule.optional_files
    )
    results = [
        judge(
            f"{test.slug}-files",
            _files(test, rule, subject),
            "those the layout asks for, none empty",
            **where,
            fix=_FILES,
        )
    ]
    if bare:
        results.append(
            not_applicable(
                f"{test.slug}-log",
                "the layout asks for none of its detail log, and none is there",
                **where,
            )
        )
    else:
        results += [
            judge(
                f"{test.slug}-log",
                log.faults(test, subject),
                "whole, no error, and its figures agree",
                **where,
                fix=fixes.COMPLY,
            ),
            _verdict(test, subject),
            judge(
                f"{test.slug}-settings",
                _settings(test, rule, subject),
                _expected_settings(rule, subject),
                **where,
                fix=fixes.COMPLY,
            ),
            judge(
                f"{test.slug}-loadgen",
                _same(test, subject),
                "version, SUT and library are the performance run's, which is earlier",
                **where,
                fix=fixes.COMPLY,
            ),
        ]
    if subject.place.run is not None:
        results.append(
            judge(
                f"{test.slug}-run",
                _run(test, rule, subject),
                "of the same job, with the raw logs",
                **where,
                fix=fixes.COMPLY,
            )
        )
    if rule.tolerance is not None:
        results.append(_performance(test, rule, subject))
    return results + answers.checks(test, rule, subject)


def _files(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Iterator[str]:
    folder = subject.place.compliance / test.name
    for name in rule.files:
        size, fault = files.attempt(lambda p: p.stat().st_size, folder / name)
        if fault or not (folder / name).is_file() or not size:
            yield f"{name} is {'missing' if fault else 'empty or no file'}"
    expected = {folder / name for name in (*rule.files, *rule.optional_files)}
    expected |= {parent for path in expected for parent in path.parents}
    yield from (
        f"{path.relative_to(folder).as_posix()} does not belong there"
        for path in files.under(folder)
        if path not in expected
    )


def _verdict(test: LoadGenRun, subject: Subject) -> Check:
    detail, check_id = test.detail, f"{test.slug}-verdict"
    if (
        subject.record is not None
        and subject.record.mode == "quick"
        and subject.performance.detail.get("effective_min_duration_ms")
        != subject.rules.scenarios[subject.scenario].min_duration_ms
    ):
        return not_applicable(
            check_id,
            f"a quick run is not asked to be VALID; LoadGen says {detail.get('result_validity')}",
            **_where(test, subject),
        )
    reasons = " ".join(str(r) for r in detail.all("result_invalid_reason")).strip()
    faults = (
        []
        if detail.get("result_validity") == "VALID"
        else [f"{detail.get('result_validity', 'none')}; it must be VALID. {reasons[:200]}".strip()]
    )
    return judge(check_id, faults, "VALID", **_where(test, subject), fix=fixes.COMPLY)


def _expected_settings(rule: ComplianceTest, subject: Subject) -> str:
    """The sentence that says which settings the test must have."""
    from_config = ", ".join(
        f"{key} {value}" for key, value in rule.settings(subject.official).items()
    )
    return f"the performance run's, and of audit.config: {from_config}"


def _settings(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each setting that is neither the performance run's nor
    audit.config's.
    """
    detail, reference, audit = (
        test.detail,
        subject.performance.detail,
        rule.settings(subject.official),
    )
    if not any("Found Audit Config" in str(line.value) for line in detail.warnings):
        yield "LoadGen does not say that it found an audit.config"
    ours = set(_audited(rule, subject))
    loose = (
        {f"effective_{key}" for key in _DERIVED}
        if any(key in audit for key in _RESHAPING)
        else set()
    )
    if subject.place.run is None:  # another submitter's tests may have other targets
        loose |= {f"effective_{key}" for key in (*_DERIVED, "max_query_count")}
        loose |= {f"requested_{key}" for key in (*_TARGETS, "min_query_count", "max_query_count")}
    keys = {
        key
        for log in (detail, reference)
        for key in log.values
        if key.startswith(("requested_", "effective_"))
    }
    for key in sorted(keys - ours - loose):
        if detail.get(key) != reference.get(key):
            yield f"{key} is {detail.get(key)}; the performance run has {reference.get(key)}"
    for key, expected in _audited(rule, subject).items():
        value = detail.get(key)
        if not isinstance(value, int) or value != expected:
            yield f"{key} is {value}; audit.config of {test.name} makes it {expected}"
    if detail.get("effective_test_mode") != "PerformanceOnly":
        yield (
            f"effective_test_mode is {detail.get('effective_test_mode')}; it must be"
            " PerformanceOnly"
        )
    if any(key in audit for key in _RESHAPING):
        yield from _reshaped(test, subject)


def _audited(rule: ComplianceTest, subject: Subject) -> dict[str, int]:
    """Key of the detail log → its value from audit.config. `mode` is left out, because it is
    compared with the performance run's.
    """
    values: dict[str, int] = {}
    for key, value in rule.settings(subject.official).items():
        logged = (
            subject.rules.user_conf[key].logged_as(subject.scenario)
            if key in subject.rules.user_conf
            else None
        )
        if logged is not None:
            values[logged] = value
            if key != "min_query_count":  # the effective one follows, see _reshaped
                values[logged.replace("requested_", "effective_", 1)] = value
    return values


def _reshaped(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each effective count that does not follow from the requested ones,
    without equal issue (test_settings_internal.cc).
    """
    detail, offline = test.detail, subject.scenario == "Offline"
    least, duration_ms = (
        detail.number("requested_min_query_count"),
        detail.number("requested_min_duration_ms"),
    )
    rate = detail.number("effective_target_qps")
    if least is None or duration_ms is None or rate is None:
        yield "the requested counts are missing"
        return
    per_query = (
        max(least, int(1.1 * duration_ms / 1e3 * rate))
        if offline
        else counts.samples_per_query(subject.performance.detail, subject.scenario)
    )
    queries = 1 if offline else least
    expected_counts = {
        "samples_per_query": per_query,
        "min_query_count": queries,
        "min_sample_count": queries * per_query,
    }
    for key, expected in expected_counts.items():
        if detail.get(f"effective_{key}") != expected:
            yield (
                f"effective_{key} is {detail.get(f'effective_{key}')}; audit.config makes it"
                f" {expected:g}"
            )


def _same(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    detail, reference = test.detail, subject.performance.detail
    # The same revision may have been built again.
    rebuilt = ("loadgen_build_date_utc",) if subject.place.run is None else ()
    for key in (key for key in (*_SAME_LOADGEN, *_SAME_LIBRARY) if key not in rebuilt):
        if detail.get(key) is None or detail.get(key) != reference.get(key):
            yield (
                f"{key} is {str(detail.get(key))[:80]}; the performance run has"
                f" {str(reference.get(key))[:80]}"
            )
    at, before = power_date(detail.get("power_begin")), power_date(reference.get("power_begin"))
    if at is None or before is None or (at <= before and subject.place.run is not None):
        yield (
            f"begun at {detail.get('power_begin')}; the performance run, which comes first, at"
            f" {reference.get('power_begin')}"
        )
    others = {
        other.name: other.detail
        for other in (*subject.tests, *subject.compliance.values())
        if other.name != test.name
    }
    for name, other in others.items():
        if detail.get("power_begin") is not None and all(
            detail.get(key) == other.get(key) for key in ("test_datetime", "power_begin")
        ):
            yield (
                f"it began in the same millisecond as {name}, {detail.get('power_begin')}: two"
                " tests never do"
            )
        if detail.get("result_mean_latency_ns") is not None and all(
            detail.get(key) == other.get(key) for key in _LATENCIES
        ):
            yield (
                f"its least, mean and largest latency are those of {name} to the nanosecond: two"
                " tests never have the same"
            )


def _run(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Iterator[str]:
    """Yield the faults of a test's files in raw/: outcome, job, user.conf, audit.config, and the
    logs that the submission has copies of.
    """
    raw = subject.place.raw(test.name)
    assert raw is not None
    yield from (fault for name, fault in test.faults.items() if name != "user.conf")
    first, second = subject.performance.job, test.job
    if first and second:
        yield from (
            f"job.json: {key} is not the performance test's"
            for key in _SAME_JOB
            if getattr(first, key) != getattr(second, key)
        )
    if test.user_conf is None or test.user_conf != subject.performance.user_conf:
        yield f"raw/{test.name}/user.conf is not the performance test's"
    text, fault = files.attempt(files.text, raw / "audit.config")
    expected = {f"*.*.{key}": str(value) for key, value in rule.settings(subject.official).items()}
    if text is None or parse(text).values != expected:
        yield fault or f"raw/{test.name}/audit.config is not the one of {test.name}"
    for key in ("precision", "graphs"):
        evidence, reference = _evidence(test, key), _evidence(subject.performance, key)
        if (
            (evidence != reference)
            if key == "precision"
            else (bool(evidence) is not bool(reference))
        ):
            yield f"evidence: {key} is {evidence}, in the performance test {reference}"
    yield from _copies(test, raw, subject)


def _evidence(test: LoadGenRun, key: str) -> Any:
    evidence = test.outcome.evidence_after if test.outcome else None
    return evidence.get(key) if evidence else None


def _copies(test: LoadGenRun, raw: Path, subject: Subject) -> Iterator[str]:
    for name in subject.rules.layout.performance_files:
        copy = test.folder / name
        (submitted, fault), (original, raw_fault) = (
            files.attempt(files.sha256, copy),
            files.attempt(files.sha256, raw / name),
        )
        if fault or raw_fault:
            yield fault or f"raw/{test.name}: {raw_fault}"
        elif submitted != original:
            yield f"{subject.place.show(copy)} differs from raw/{test.name}/{name}"


def _performance(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Check:
    """The check of a test's speed, computed from the detail logs; verify_performance.txt must
    agree.
    """
    check_id, speed = (
        f"{test.slug}-performance",
        verification.speed(
            rule, subject.scenario, subject.rules, subject.performance.detail, test.detail
        ),
    )
    where = _where(test, subject)
    if speed is None:
        return judge(
            check_id,
            ["the score of the performance run or of the test is missing"],
            "",
            **where,
            fix=fixes.COMPLY,
        )
    bound = (
        f"at most {speed.tolerance:.0%} faster"
        if rule.only_faster
        else f"within {speed.tolerance:.0%}"
    )
    figures = f"{speed.key} {speed.test:.6g}, in the performance run {speed.reference:.6g}"
    sentence = (
        f"{abs(speed.faster):.1%} {'faster' if speed.faster > 0 else 'slower'} ({figures}); it must"
        f" be {bound}"
    )
    cache = (
        ": one sample again and again is answered sooner than many, by a cache or because the"
        " machine was busy before"
    )
    faults = [] if speed.holds else [sentence + (cache if rule.only_faster else "")]
    faults += verify_files.contradictions(test, "verify_performance.txt", speed.verdict, subject)
    return judge(check_id, faults, sentence, **where, fix=fixes.COMPLY)
