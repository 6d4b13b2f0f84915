"""When, and of what: dates, digests and the raw logs. Pure but for hashing files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, fail_or_manual, judge, manual, not_applicable, shown
from compliance.loadgen import counts
from compliance.logs import files
from compliance.logs.dates import log_date, power_date
from compliance.subject import BARE, TESTS, Subject, Test

_TREE = "log and raw log must be the same: put the one of raw/ there, or, where that is missing or changed, measure again"
# Between time zones and UTC; between the clocks of one machine over hours; and far more than any test takes.
_ZONE, _CLOCKS, _LONGEST_MS = timedelta(minutes=15), timedelta(minutes=2), 1e11
# Of what is hashed: more than a detail log, and than a reference, may have to be read.
_LARGEST_LOG, _LARGEST_REFERENCE = 256 << 20, 8 << 30


def dates(s: Subject, now: datetime | None = None) -> Check:
    now = now or datetime.now(UTC)
    tested = [test.detail.get("test_datetime") for test in s.tests]
    made = partial(judge, "dates", good=f"{tested[0]}, {tested[1]}", fix=fixes.BOTH)
    doubts, unchanged = [*_apart(s), *_overlap(s)], "nothing was changed between the tests"
    return fail_or_manual(made, _dates(s, now), doubts, unchanged, of_a_run=s.place.run is not None)


def digests(s: Subject) -> list[Check]:
    if s.place.run is None:
        return [not_applicable(check_id, BARE) for check_id in ("digests", "raw-logs", "worker-outcomes", "trace")]
    return [
        _digests(s),
        judge("raw-logs", _raw_logs(s), "the submitted logs are the raw ones", fix=_TREE),
        judge(
            "worker-outcomes",
            _outcomes(s),
            "both tests ended well",
            fix="repeat the run's command, which goes on where it stopped",
        ),
        _trace(s),
    ]


def _dates(s: Subject, now: datetime) -> Iterator[Fault | str]:
    for test in (*s.tests, *(test for test in s.compliance.values() if test.detail.values)):
        file, line = s.place.show(test.folder / "mlperf_log_detail.txt"), test.detail.line("test_datetime")
        built, at = log_date(test.detail.get("loadgen_build_date_utc")), log_date(test.detail.get("test_datetime"))
        if built is None or at is None:
            yield Fault(f"{test.name}: loadgen_build_date_utc or test_datetime is missing or no date", file=file, line=line)
            continue
        began = power_date(test.detail.get("power_begin"))
        when_utc = began.replace(tzinfo=UTC) if began else at  # test_datetime is local time that says Z (CurrentDateTimeISO8601)
        if not built <= when_utc <= now + timedelta(hours=1):
            when, first, last = (f"{date:%Y-%m-%d %H:%M}" for date in (when_utc, built, now))
            text = f"{test.name}: tested at {when}, LoadGen built {first}, now {last}"
            yield Fault(text, f"{first} to {last}", when, file, line)
        yield from (replace(fault, file=file) for fault in _power_dates(test, at))


def _power_dates(test: Test, at: datetime) -> Iterator[Fault]:
    """The second clock of a log: UTC, where test_datetime is local time that says Z, and the log's own time runs from there."""
    begin, end = power_date(test.detail.get("power_begin")), power_date(test.detail.get("power_end"))
    if begin is None or end is None or end < begin:
        first, last = (shown(test.detail.get(key)) for key in ("power_begin", "power_end"))
        text = f"{test.name}: power_begin {first}, power_end {last}"
        yield Fault(text, "two dates in order", f"{first}, {last}", line=test.detail.line("power_end"))
        return
    logged = test.detail.occurrences["power_end"][-1].time_ms
    ahead = end.replace(tzinfo=UTC) - at - timedelta(milliseconds=logged if 0 <= logged < _LONGEST_MS else 0)
    beside = abs(ahead - round(ahead / _ZONE) * _ZONE)
    if abs(ahead) > timedelta(hours=26) or beside > _CLOCKS:
        text = (
            f"{test.name}: power_end is {ahead / timedelta(minutes=1):.1f} minutes ahead of test_datetime and the log's own time; "
            f"a time zone is whole quarters of an hour, at most 26 hours"
        )
        yield Fault(text, f"{at:%Y-%m-%d %H:%M:%S} UTC", shown(test.detail.get("power_end")), line=test.detail.line("power_end"))


def _overlap(s: Subject) -> Iterator[Fault]:
    starts, lengths = [], []
    for test in s.tests:
        begin, end = power_date(test.detail.get("power_begin")), power_date(test.detail.get("power_end"))
        if begin is None or end is None:
            return
        starts.append(begin)
        lengths.append(end - begin)
    later = starts[1] - starts[0]
    common = min(lengths[0], later + lengths[1]) - max(timedelta(0), later)
    if common > timedelta(seconds=1):  # of which test_datetime is whole ones
        seconds = f"{common.total_seconds():.0f} s"
        text = f"performance and accuracy test ran {seconds} at the same time; one system runs one after the other"
        yield Fault(text, "one after the other", f"{seconds} in common")


def _apart(s: Subject) -> Iterator[Fault]:
    """Tests so far apart that they may be of another system by then."""
    tested = [at for test in s.tests if (at := log_date(test.detail.get("test_datetime")))]
    most = s.rules.dates.session_days
    if len(tested) == 2 and abs(tested[0] - tested[1]) > timedelta(days=most):
        apart = abs(tested[0] - tested[1]).days
        yield Fault(f"the two tests are {apart} days apart; at most {most} make one session", f"at most {most} days", f"{apart} days")


def _digests(s: Subject) -> Check:
    """weights and inputs lie in the cache, not here: only that they are stated. The reference is here."""
    assert s.place.run is not None
    where = {"file": "reference.npz", "fix": fixes.OWN}
    faults: list[Fault | str] = [
        _no_sha256(name, shown(repr(s.recorded("digests", name))))
        for name in ("weights", "inputs")
        if not files.is_sha256(s.recorded("digests", name))
    ]
    stated = s.recorded("digests", "reference")
    if s.no_reference:
        return (
            judge("digests", faults, "", **where)
            if faults
            else manual("digests", f"there is no reference to compare with: {s.recorded('accuracy', 'reason')}", **where)
        )
    found, fault = files.attempt(partial(files.bounded_sha256, most=_LARGEST_REFERENCE), s.place.run / "reference.npz")
    if fault or found != stated:
        faults.append(fault or Fault(f"reference.npz has sha256 {found}; record.json says {shown(stated)}", shown(stated), str(found)))
    return judge("digests", faults, "reference.npz is the recorded one; weights and inputs are stated", **where)


def _trace(s: Subject) -> Check:
    """The recorded one must be here."""
    where = {"file": s.trace_file, "fix": fixes.OWN}
    stated = s.recorded("digests", "trace")
    plan = (s.performance.outcome or {}).get("plan")
    planned = plan.get("trace") if isinstance(plan, dict) else plan
    if not planned and stated is None and s.trace is None and s.trace_file not in s.faults:
        if fault := _small_trace(s):
            return judge("trace", [fault], "", **where)
        return not_applicable("trace", "none was written: it would have been too large", **where)
    if s.trace is None:
        return judge("trace", [s.faults.get(s.trace_file, f"{s.trace_file} is missing or empty")], "", **where)
    text = f"its content has sha256 {s.trace.sha256}; record.json says {shown(stated)}"
    faults = [] if s.trace.sha256 == stated else [Fault(text, shown(stated), s.trace.sha256)]
    return judge("trace", faults, f"the recorded one, {len(s.trace.sequence)} samples", **where)


def _small_trace(s: Subject) -> Fault | None:
    """Why there would have been room for the trace that was not written: its size follows from the samples, which were foreseen."""
    own, issued, mode = s.rules.own, counts.samples(s.performance.detail, s.scenario), str(s.recorded("mode"))
    if issued is None or s.place.scenario not in own.trace_sample_bytes:
        return None
    least_ms = s.performance.detail.number("requested_min_duration_ms") or 0
    if mode not in own.trace_bytes or least_ms >= s.rules.scenarios[s.place.scenario].min_duration_ms:  # as no quick run asks for
        mode = "submission"
    size, most = issued * own.trace_sample_bytes[s.place.scenario], own.trace_bytes[mode]
    if size * own.trace_slack > most:
        return None
    text = f"{s.trace_file} is missing: of {issued:.0f} samples it has about {size / 1e6:.1f} MB; "
    return Fault(f"{text}it is left out where it would have more than {most / 1e6:.0f} MB", "a trace", "none")


def _no_sha256(name: str, found: str) -> Fault:
    return Fault(f"digests.{name} is {found}; a sha256 belongs there", "a sha256", found, "record.json")


def _raw_logs(s: Subject) -> Iterator[Fault | str]:
    pairs = [(test.name, test.folder / name, name) for test in s.tests for name in s.rules.layout.performance_files]
    pairs.append(("performance", s.place.measurements / "user.conf", "user.conf"))
    for test, submitted, name in pairs:
        raw = s.place.raw(test)
        assert raw is not None
        digest = partial(files.bounded_sha256, most=_LARGEST_LOG)
        (first, fault), (second, raw_fault) = files.attempt(digest, submitted), files.attempt(digest, raw / name)
        if fault or raw_fault:
            yield Fault(f"{test}: {fault or 'raw: ' + raw_fault}", file=s.place.show(submitted if fault else raw / name))
        elif first != second:
            file = s.place.show(submitted)
            yield Fault(f"{file} differs from raw/{test}/{name}", f"sha256 {second}", f"sha256 {first}", file)


def _outcomes(s: Subject) -> Iterator[Fault | str]:
    for name, test in zip(TESTS, s.tests, strict=True):
        if test.outcome is None:
            yield f"raw/{name}: {test.faults.get('outcome.json', 'outcome.json is missing')}"
        elif test.outcome.get("status") != "ok":
            status, reason = shown(test.outcome.get("status")), str(test.outcome.get("reason"))
            yield Fault(f"raw/{name}: status {status}: {reason}", "ok", status, f"raw/{name}/outcome.json")
