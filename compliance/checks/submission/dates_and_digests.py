"""The checks of dates, digests, raw logs, the workers' outcomes and the trace. They read files only
to hash them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from compliance.findings.check import (
    differs,
    fail_or_manual,
    failed,
    judge,
    manual,
    mismatch,
    not_applicable,
    shorten,
)
from compliance.logs import files
from compliance.logs.dates import log_date, power_date
from compliance.subject import TESTS, LoadGenRun, Subject
from formats.checks import Check, Checks, Fault, Faults
from formats.record import Record

# Time zones differ from UTC by multiples of _ZONE and at most by _FARTHEST_ZONE, the clocks of one
# machine by at most _CLOCKS over hours; no test takes _LONGEST_MS.
_ZONE = timedelta(minutes=15)
_FARTHEST_ZONE = timedelta(hours=14)
_CLOCKS = timedelta(minutes=2)
_LONGEST_MS = 1e11
# Every log and reference that is hashed is smaller.
_LARGEST_LOG = 256 << 20
_LARGEST_REFERENCE = 8 << 30


def dates(subject: Subject, now: datetime | None = None) -> Check:
    """The check of the tests' dates. They must be after the build of LoadGen and before `now`. Two
    tests must be in one session, and not at the same time.
    """
    now = now or datetime.now(UTC)
    test_times = [shorten(test.detail.get("test_datetime")) for test in subject.tests]
    doubts = [] if subject.only else [*_apart(subject), *_overlap(subject)]
    return fail_or_manual(
        "dates",
        _dates(subject, now),
        doubts,
        ", ".join(test_times),
        show="nothing was changed between the tests",
        of_a_run=subject.place.run is not None,
    )


def digests(subject: Subject) -> Checks:
    """The checks of raw logs, outcomes and trace in a run directory."""
    return [
        judge(
            "raw-logs",
            _raw_logs(subject),
            "the submitted logs are the raw ones",
        ),
        judge(
            "worker-outcomes",
            _outcomes(subject),
            "both tests ended well",
        ),
        _trace(subject),
    ]


def _dates(subject: Subject, now: datetime) -> Faults:
    with_log = [test for test in subject.compliance.values() if test.detail.values]
    for test in (*subject.tests, *with_log):
        file = test.file
        line = test.detail.line("test_datetime")
        build_time = log_date(test.detail.get("loadgen_build_date_utc"))
        at = log_date(test.detail.get("test_datetime"))
        if build_time is None or at is None:
            text = f"{test.name}: loadgen_build_date_utc or test_datetime is missing or no date"
            yield Fault(text, file=file, line=line)
            continue
        began = power_date(test.detail.get("power_begin"))
        # test_datetime is local time marked as UTC (CurrentDateTimeISO8601)
        when_utc = began.replace(tzinfo=UTC) if began else at
        if not build_time <= when_utc <= now + timedelta(hours=1):
            when, first, last = (f"{date:%Y-%m-%d %H:%M}" for date in (when_utc, build_time, now))
            text = f"{test.name}: tested at {when}, LoadGen built {first}, now {last}"
            yield Fault(text, f"{first} to {last}", when, file, line)
        for fault in _power_dates(test, at):
            yield replace(fault, file=file)


def _power_dates(test: LoadGenRun, at: datetime) -> Iterator[Fault]:
    """Yield a fault if power_begin or power_end is no date, or if power_end does not differ by a
    time zone from test_datetime plus the log's own time.

    The power dates are UTC. test_datetime is local time, marked as UTC.
    """
    detail = test.detail
    logged_begin = detail.get("power_begin")
    logged_end = detail.get("power_end")
    begin = power_date(logged_begin)
    end = power_date(logged_end)
    line = detail.line("power_end")
    if begin is None or end is None or end < begin:
        first = shorten(logged_begin)
        last = shorten(logged_end)
        text = f"{test.name}: power_begin {first}, power_end {last}"
        yield Fault(text, "two dates in order", f"{first}, {last}", line=line)
        return
    spent_ms = detail.occurrences["power_end"][-1].time_ms
    if not 0 <= spent_ms < _LONGEST_MS:
        spent_ms = 0
    ahead = end.replace(tzinfo=UTC) - at - timedelta(milliseconds=spent_ms)
    rest = abs(ahead - round(ahead / _ZONE) * _ZONE)
    if abs(ahead) > _FARTHEST_ZONE + _CLOCKS or rest > _CLOCKS:
        text = (
            f"{test.name}: power_end is {ahead / timedelta(minutes=1):.1f} minutes ahead of"
            " test_datetime and the log's own time; a time zone is whole quarters of an hour, at"
            " most 14 hours"
        )
        yield Fault(text, f"{at:%Y-%m-%d %H:%M:%S} UTC", shorten(logged_end), line=line)


def _overlap(subject: Subject) -> Iterator[Fault]:
    begins = [power_date(test.detail.get("power_begin")) for test in subject.tests]
    ends = [power_date(test.detail.get("power_end")) for test in subject.tests]
    if None in begins or None in ends:
        return
    common = min(filter(None, ends)) - max(filter(None, begins))
    if common > timedelta(seconds=1):  # test_datetime is in whole seconds
        seconds = f"{common.total_seconds():.0f} s"
        text = (
            f"performance and accuracy test ran {seconds} at the same time; a system must run one"
            " after the other"
        )
        yield Fault(text, "one after the other", f"{seconds} in common")


def _apart(subject: Subject) -> Iterator[Fault]:
    """Yield a fault if the tests are so far apart that the system may have changed."""
    first, second = (log_date(test.detail.get("test_datetime")) for test in subject.tests)
    if first is None or second is None:
        return
    most = subject.rules.dates.session_days
    apart = abs(first - second)
    if apart > timedelta(days=most):
        sentence = "the two tests are {found} apart; in one session at most {most}"
        yield differs(sentence, f"{apart.days} days", f"at most {most} days", most=most)


def recorded_digests(subject: Subject) -> Check:
    """The check of the digests in record.json. Only the reference can be hashed here, because
    weights and inputs are in the cache.
    """
    assert subject.place.run is not None
    file = "reference.npz"
    record = subject.recorded
    digests = {"weights": record.digests.weights, "inputs": record.digests.inputs}
    faults: list[Fault | str] = []
    for name, digest in digests.items():
        if not files.is_sha256(digest):
            expected = "64 hex digits"
            value = shorten(repr(digest))
            faults.append(
                mismatch(f"digests.{name}", value, expected, "it must have", file="record.json")
            )
    if subject.no_reference and not faults:
        why = f"not compared: {record.accuracy.reason}"
        return manual("digests", why, file=file)
    if not subject.no_reference:
        faults += reference(subject.place.run / "reference.npz", record)
    good = "reference.npz is the recorded one; weights and inputs are stated"
    return judge("digests", faults, good, file)


def reference(path: Path, record: Record) -> Faults:
    """Yield the fault of a reference that is not the recorded one."""
    digest, fault = files.attempt(partial(files.bounded_sha256, most=_LARGEST_REFERENCE), path)
    if fault:
        yield fault
    elif digest != record.digests.reference:
        yield mismatch(
            "the sha256 of reference.npz", digest, record.digests.reference, "record.json has"
        )


def _trace(subject: Subject) -> Check:
    """The check that the trace is the recorded one, unless it was too large to be written."""
    trace_file = subject.trace_file
    recorded_digest = subject.record.digests.trace if subject.record else None
    plan = subject.performance.outcome.plan if subject.performance.outcome else None
    trace = subject.trace
    if trace is None:
        planned = (plan and plan.trace) or recorded_digest is not None
        if planned or trace_file in subject.faults:
            missing = f"{trace_file} is missing or empty"
            return failed("trace", subject.faults.get(trace_file, missing), trace_file)
        if fault := _small_trace(subject):
            return failed("trace", fault, trace_file)
        why = "it was not written, because it would have been too large"
        return not_applicable("trace", why, trace_file)
    faults = []
    if trace.sha256 != recorded_digest:
        what = "the sha256 of its content"
        faults.append(mismatch(what, trace.sha256, recorded_digest, "record.json has"))
    good = f"the recorded one, {len(trace.sequence)} samples"
    return judge("trace", faults, good, trace_file)


def _small_trace(subject: Subject) -> Fault | None:
    """A fault if the trace is missing although it would have been small. Its size is computed from
    the number of samples.
    """
    limits = subject.rules.project_limits
    scenario = subject.place.scenario
    performance = subject.performance
    issued = subject.log.samples
    mode = subject.record.mode if subject.record else ""
    if issued is None or scenario not in limits.trace_sample_bytes:
        return None
    least_ms = performance.detail.number("requested_min_duration_ms") or 0
    official = least_ms >= subject.rules.scenarios[scenario].min_duration_ms
    job = performance.job
    # A quick run requests an official duration only if its length is planned.
    is_planned = job is not None and job.limits.quick
    if mode not in limits.trace_bytes or (official and not is_planned):
        mode = "submission"
    size = issued * limits.trace_sample_bytes[scenario]
    most = limits.trace_bytes[mode]
    if size * limits.trace_slack > most:
        return None
    text = (
        f"{subject.trace_file} is missing: {issued:.0f} samples take about {size / 1e6:.1f} MB, and"
        f" only a trace above {most / 1e6:.0f} MB is left out"
    )
    return Fault(text, "a trace", "none")


def _raw_logs(subject: Subject) -> Faults:
    place = subject.place
    pairs = [("performance", place.measurements / "user.conf")]
    submitted_tests = [test for test in subject.compliance.values() if test.folder.exists()]
    for test in (*subject.tests, *submitted_tests):
        for name in subject.rules.layout.performance_files:
            pairs.append((test.name, test.folder / name))
    for test in submitted_tests:
        rule = subject.rules.compliance_tests[test.name]
        if rule.sampling_target and not rule.truncated:
            answers = place.compliance / test.name / "accuracy" / "mlperf_log_accuracy.json"
            pairs.append((test.name, answers))
    digest = partial(files.bounded_sha256, most=_LARGEST_LOG)
    for test_name, submitted in pairs:
        raw = place.raw(test_name)
        assert raw is not None
        first, fault = files.attempt(digest, submitted)
        second, raw_fault = files.attempt(digest, raw / submitted.name)
        file = place.show(submitted)
        if fault:
            yield Fault(f"{test_name}: {fault}", file=file)
        elif raw_fault:
            yield Fault(f"{test_name}: raw: {raw_fault}", file=place.show(raw / submitted.name))
        elif first != second:
            text = f"{file} differs from raw/{test_name}/{submitted.name}"
            yield Fault(text, f"sha256 {second}", f"sha256 {first}", file)


def _outcomes(subject: Subject) -> Faults:
    for name, test in zip(TESTS, subject.tests, strict=True):
        if test.outcome is None:
            yield f"raw/{name}: {test.faults.get('outcome.json', 'outcome.json is missing')}"
        elif test.outcome.status != "ok":
            status = shorten(test.outcome.status)
            text = f"raw/{name}: status {status}: {test.outcome.reason}"
            yield Fault(text, "ok", status, f"raw/{name}/outcome.json")
