"""The checks of dates, digests, raw logs, the workers' outcomes and the trace. They read files only
to hash them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from compliance.findings import fixes
from compliance.findings.check import fail_or_manual, judge, manual, not_applicable, shorten
from compliance.loadgen import counts
from compliance.logs import files
from compliance.logs.dates import log_date, power_date
from compliance.subject import BARE, TESTS, LoadGenRun, Subject
from formats.checks import Check, Fault

_TREE = (
    "log and raw log must be the same: put the one of raw/ there, or, where that is missing or"
    " changed, measure again"
)
# Time zones differ by multiples of _ZONE, the clocks of one machine by at most _CLOCKS over hours;
# no test takes _LONGEST_MS.
_ZONE, _CLOCKS, _LONGEST_MS = timedelta(minutes=15), timedelta(minutes=2), 1e11
# Every log and reference that is hashed is smaller.
_LARGEST_LOG, _LARGEST_REFERENCE = 256 << 20, 8 << 30


def dates(subject: Subject, now: datetime | None = None) -> Check:
    """The check of the tests' dates. They must be after the build of LoadGen, before `now`, in one
    session, and not at the same time.
    """
    now = now or datetime.now(UTC)
    test_times = [test.detail.get("test_datetime") for test in subject.tests]
    judge_dates = partial(judge, "dates", good=f"{test_times[0]}, {test_times[1]}", fix=fixes.BOTH)
    doubts, unchanged = (
        [
            *_apart(subject),
            *_overlap(subject),
        ],
        "nothing was changed between the tests",
    )
    return fail_or_manual(
        judge_dates, _dates(subject, now), doubts, unchanged, of_a_run=subject.place.run is not None
    )


def digests(subject: Subject) -> list[Check]:
    """The checks of digests, raw logs, outcomes and trace in a run directory. A bare submission has
    none of these.
    """
    if subject.place.run is None:
        return [
            not_applicable(check_id, BARE)
            for check_id in ("digests", "raw-logs", "worker-outcomes", "trace")
        ]
    return [
        _digests(subject),
        judge("raw-logs", _raw_logs(subject), "the submitted logs are the raw ones", fix=_TREE),
        judge(
            "worker-outcomes",
            _outcomes(subject),
            "both tests ended well",
            fix="repeat the run's command, which goes on where it stopped",
        ),
        _trace(subject),
    ]


def _dates(subject: Subject, now: datetime) -> Iterator[Fault | str]:
    for test in (
        *subject.tests,
        *(test for test in subject.compliance.values() if test.detail.values),
    ):
        file, line = (
            subject.place.show(test.folder / "mlperf_log_detail.txt"),
            test.detail.line("test_datetime"),
        )
        build_time, at = (
            log_date(test.detail.get("loadgen_build_date_utc")),
            log_date(test.detail.get("test_datetime")),
        )
        if build_time is None or at is None:
            yield Fault(
                f"{test.name}: loadgen_build_date_utc or test_datetime is missing or no date",
                file=file,
                line=line,
            )
            continue
        began = power_date(test.detail.get("power_begin"))
        # test_datetime is local time marked as UTC (CurrentDateTimeISO8601)
        when_utc = began.replace(tzinfo=UTC) if began else at
        if not build_time <= when_utc <= now + timedelta(hours=1):
            when, first, last = (f"{date:%Y-%m-%d %H:%M}" for date in (when_utc, build_time, now))
            text = f"{test.name}: tested at {when}, LoadGen built {first}, now {last}"
            yield Fault(text, f"{first} to {last}", when, file, line)
        yield from (replace(fault, file=file) for fault in _power_dates(test, at))


def _power_dates(test: LoadGenRun, at: datetime) -> Iterator[Fault]:
    """Yield a fault if power_begin or power_end is no date, or if power_end does not differ by a
    time zone from test_datetime plus the log's own time.

    The power dates are UTC. test_datetime is local time, marked as UTC.
    """
    begin, end = (
        power_date(test.detail.get("power_begin")),
        power_date(test.detail.get("power_end")),
    )
    if begin is None or end is None or end < begin:
        first, last = (shorten(test.detail.get(key)) for key in ("power_begin", "power_end"))
        text = f"{test.name}: power_begin {first}, power_end {last}"
        yield Fault(
            text, "two dates in order", f"{first}, {last}", line=test.detail.line("power_end")
        )
        return
    logged = test.detail.occurrences["power_end"][-1].time_ms
    ahead = (
        end.replace(tzinfo=UTC)
        - at
        - timedelta(milliseconds=logged if 0 <= logged < _LONGEST_MS else 0)
    )
    beside = abs(ahead - round(ahead / _ZONE) * _ZONE)
    if abs(ahead) > timedelta(hours=26) or beside > _CLOCKS:
        text = (
            f"{test.name}: power_end is {ahead / timedelta(minutes=1):.1f} minutes ahead of"
            " test_datetime and the log's own time; a time zone is whole quarters of an hour, at"
            " most 26 hours"
        )
        yield Fault(
            text,
            f"{at:%Y-%m-%d %H:%M:%S} UTC",
            shorten(test.detail.get("power_end")),
            line=test.detail.line("power_end"),
        )


def _overlap(subject: Subject) -> Iterator[Fault]:
    starts, lengths = [], []
    for test in subject.tests:
        begin, end = (
            power_date(test.detail.get("power_begin")),
            power_date(test.detail.get("power_end")),
        )
        if begin is None or end is None:
            return
        starts.append(begin)
        lengths.append(end - begin)
    later = starts[1] - starts[0]
    common = min(lengths[0], later + lengths[1]) - max(timedelta(0), later)
    if common > timedelta(seconds=1):  # test_datetime is in whole seconds
        seconds = f"{common.total_seconds():.0f} s"
        text = (
            f"performance and accuracy test ran {seconds} at the same time; one system runs one"
            " after the other"
        )
        yield Fault(text, "one after the other", f"{seconds} in common")


def _apart(subject: Subject) -> Iterator[Fault]:
    """Yield a fault if the tests are so far apart that the system may have changed."""
    test_times = [
        at for test in subject.tests if (at := log_date(test.detail.get("test_datetime")))
    ]
    most = subject.rules.dates.session_days
    if len(test_times) == 2 and abs(test_times[0] - test_times[1]) > timedelta(days=most):
        apart = abs(test_times[0] - test_times[1]).days
        yield Fault(
            f"the two tests are {apart} days apart; at most {most} make one session",
            f"at most {most} days",
            f"{apart} days",
        )


def _digests(subject: Subject) -> Check:
    """The check of the digests in record.json. Only the reference can be hashed here, because
    weights and inputs are in the cache.
    """
    assert subject.place.run is not None
    where = {"file": "reference.npz", "fix": fixes.OWN}
    if subject.record is None:
        return not_applicable("digests", subject.no_record, **where)
    digests = {"weights": subject.record.digests.weights, "inputs": subject.record.digests.inputs}
    faults: list[Fault | str] = [
        _no_digest(name, shorten(repr(digest)))
        for name, digest in digests.items()
        if not files.is_sha256(digest)
    ]
    recorded_digest = subject.record.digests.reference
    if subject.no_reference:
        return (
            judge("digests", faults, "", **where)
            if faults
            else manual(
                "digests",
                f"there is no reference to compare with: {subject.record.accuracy.reason}",
                **where,
            )
        )
    digest, fault = files.attempt(
        partial(files.bounded_sha256, most=_LARGEST_REFERENCE), subject.place.run / "reference.npz"
    )
    if fault or digest != recorded_digest:
        faults.append(
            fault
            or Fault(
                f"reference.npz has sha256 {digest}; record.json says {shorten(recorded_digest)}",
                shorten(recorded_digest),
                str(digest),
            )
        )
    return judge(
        "digests",
        faults,
        "reference.npz is the recorded one; weights and inputs are stated",
        **where,
    )


def _trace(subject: Subject) -> Check:
    """The check that the trace is the recorded one, unless it was too large to be written."""
    where = {"file": subject.trace_file, "fix": fixes.OWN}
    recorded_digest = subject.record.digests.trace if subject.record else None
    plan = subject.performance.outcome.plan if subject.performance.outcome else {}
    if (
        not plan.get("trace")
        and recorded_digest is None
        and subject.trace is None
        and subject.trace_file not in subject.faults
    ):
        if fault := _small_trace(subject):
            return judge("trace", [fault], "", **where)
        return not_applicable("trace", "none was written: it was foreseen to be too large", **where)
    if subject.trace is None:
        return judge(
            "trace",
            [subject.faults.get(subject.trace_file, f"{subject.trace_file} is missing or empty")],
            "",
            **where,
        )
    text = (
        f"its content has sha256 {subject.trace.sha256}; record.json says"
        f" {shorten(recorded_digest)}"
    )
    faults = (
        []
        if subject.trace.sha256 == recorded_digest
        else [Fault(text, shorten(recorded_digest), subject.trace.sha256)]
    )
    return judge(
        "trace", faults, f"the recorded one, {len(subject.trace.sequence)} samples", **where
    )


def _planned(subject: Subject) -> bool:
    """Return whether the job plans the length of the test. Only a quick test is planned."""
    job = subject.performance.job
    return job is not None and job.limits.quick


def _small_trace(subject: Subject) -> Fault | None:
    """A fault if the trace is missing although it would have been small. Its size is computed from
    the number of samples.
    """
    limits = subject.rules.project_limits
    issued = counts.samples(subject.performance.detail, subject.scenario)
    mode = subject.record.mode if subject.record else ""
    if issued is None or subject.place.scenario not in limits.trace_sample_bytes:
        return None
    least_ms = subject.performance.detail.number("requested_min_duration_ms") or 0
    official = least_ms >= subject.rules.scenarios[subject.place.scenario].min_duration_ms
    # A quick run requests an official duration only if its length is planned.
    if mode not in limits.trace_bytes or (official and not _planned(subject)):
        mode = "submission"
    size, most = (
        issued * limits.trace_sample_bytes[subject.place.scenario],
        limits.trace_bytes[mode],
    )
    if size * limits.trace_slack > most:
        return None
    text = (
        f"{subject.trace_file} is missing: of {issued:.0f} samples it has about {size / 1e6:.1f}"
        " MB; "
    )
    return Fault(
        f"{text}it is left out where it would have more than {most / 1e6:.0f} MB", "a trace", "none"
    )


def _no_digest(name: str, value: str) -> Fault:
    return Fault(
        f"digests.{name} is {value}; 64 hex digits belong there",
        "64 hex digits",
        value,
        "record.json",
    )


def _raw_logs(subject: Subject) -> Iterator[Fault | str]:
    pairs = [
        (test.name, test.folder / name, name)
        for test in subject.tests
        for name in subject.rules.layout.performance_files
    ]
    pairs.append(("performance", subject.place.measurements / "user.conf", "user.conf"))
    for test, submitted, name in pairs:
        raw = subject.place.raw(test)
        assert raw is not None
        digest = partial(files.bounded_sha256, most=_LARGEST_LOG)
        (first, fault), (second, raw_fault) = (
            files.attempt(digest, submitted),
            files.attempt(digest, raw / name),
        )
        if fault or raw_fault:
            yield Fault(
                f"{test}: {fault or 'raw: ' + raw_fault}",
                file=subject.place.show(submitted if fault else raw / name),
            )
        elif first != second:
            file = subject.place.show(submitted)
            yield Fault(
                f"{file} differs from raw/{test}/{name}",
                f"sha256 {second}",
                f"sha256 {first}",
                file,
            )


def _outcomes(subject: Subject) -> Iterator[Fault | str]:
    for name, test in zip(TESTS, subject.tests, strict=True):
        if test.outcome is None:
            yield f"raw/{name}: {test.faults.get('outcome.json', 'outcome.json is missing')}"
        elif test.outcome.status != "ok":
            status = shorten(test.outcome.status)
            yield Fault(
                f"raw/{name}: status {status}: {test.outcome.reason}",
                "ok",
                status,
                f"raw/{name}/outcome.json",
            )
