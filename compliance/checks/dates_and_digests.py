"""When, and of what: dates, digests and our own record. Pure but for hashing files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from compliance.checks import loadgen_build as revision
from compliance.checks import record as claims
from compliance.findings import fixes
from compliance.findings.check import Check, Fault, differs, fail_or_manual, judge, manual, not_applicable, shown
from compliance.logs import files
from compliance.logs.dates import log_date, power_date
from compliance.subject import TESTS, Subject, Test

_BARE = "a submission without a run directory around it: there is no record.json and no raw/ to compare with"
_OWN = "put the run's own file there, or measure again"
_TREE = "log and raw log must be the same: put the one of raw/ there, or, where that is missing or changed, measure again"
_JOB = "raw/performance/job.json"
# Between time zones and UTC; between the clocks of one machine over hours; and far more than any test takes.
_ZONE, _CLOCKS, _LONGEST_MS = timedelta(minutes=15), timedelta(minutes=2), 1e11
# Of what is hashed: more than a detail log, and than a reference, may have to be read.
_LARGEST_LOG, _LARGEST_REFERENCE = 256 << 20, 8 << 30
# Of a Job: what the accuracy and the performance test of one result have in common.
_SAME = ("sut", "family", "workload", "scenario", "benchmark", "answer", "inputs", "made_with")


def checks(s: Subject, now: datetime | None = None) -> list[Check]:
    now = now or datetime.now(UTC)
    tested = [test.detail.get("test_datetime") for test in s.tests]
    dates = partial(judge, "dates", good=f"{tested[0]}, {tested[1]}", source="D2", fix=fixes.BOTH)
    unchanged = "nothing was changed between the tests"
    found = [
        *revision.checks(s),
        fail_or_manual(dates, _dates(s, now), [*_apart(s), *_overlap(s)], unchanged, of_a_run=s.place.run is not None),
    ]
    if s.place.run is None:
        names = ("record", "digests", "raw logs", "worker outcomes", "trace")
        return [*found, *(not_applicable(name, _BARE, source="D3") for name in names), *claims.checks(s)]
    return found + [
        judge("record", _record(s), "agrees with logs and folders", source="D3", file="record.json", fix=_OWN),
        _digests(s),
        judge("raw logs", _raw_logs(s), "the submitted logs are the raw ones", source="D3", fix=_TREE),
        judge(
            "worker outcomes",
            _outcomes(s),
            "both tests ended well",
            source="D3",
            fix="repeat the run's command, which goes on where it stopped",
        ),
        _trace(s),
        *claims.checks(s),
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


def _record(s: Subject) -> Iterator[Fault | str]:
    if s.record is None:
        yield s.faults.get("record.json", "record.json is missing")
        return
    d = s.performance.detail
    expected = {
        ("round",): s.rules.round,
        ("benchmark", "name"): s.place.benchmark,
        ("benchmark", "official"): s.official,
        ("cell", "scenario"): s.place.scenario,
        ("qsl", "samples"): d.get("qsl_reported_total_count"),
        ("qsl", "performance_sample_count"): d.get("effective_performance_sample_count"),
    }
    for keys, want in expected.items():
        if s.recorded(*keys) is None or s.recorded(*keys) != want:
            yield differs(".".join(keys), repr(s.recorded(*keys)), repr(want), "logs and folders say")
    for short, whole in (("weights", "weights"), ("dataset", "inputs")):
        value, digest = s.recorded("cell", short), s.recorded("digests", whole)
        if value not in ("seeded", "synthetic") and not (isinstance(value, str) and value and str(digest).startswith(value)):
            begins = repr(str(digest)[:16])
            text = f"cell.{short} is {shown(repr(value))} and digests.{whole} {begins}; the one begins the other"
            yield Fault(text, f"what {begins} begins with", shown(repr(value)))
    yield from _jobs(s)


def _jobs(s: Subject) -> Iterator[Fault | str]:
    first, second = (test.job for test in s.tests)
    if first is None or second is None:
        yield from (fault for test in s.tests for name, fault in test.faults.items() if name == "job.json")
        return
    others = [(test, test.job) for test in (s.accuracy, *s.compliance.values()) if test.job is not None]
    for test, job in others:
        for key in _SAME:
            if first.get(key) != job.get(key):
                text = f"job.json: {key} differs between the performance and the {test.name} test"
                yield Fault(text, shown(first.get(key)), shown(job.get(key)), f"raw/{test.name}/job.json")
    workload = first.get("workload")
    for key in ("precision", "batch_size", "device", "model", "task"):
        if not isinstance(workload, dict) or workload.get(key) != s.recorded("cell", key):
            want = shown(repr(s.recorded("cell", key)))
            found = shown(repr(workload.get(key))) if isinstance(workload, dict) else "no workload"
            yield Fault(f"job.json: workload.{key} is not the cell's {want}", want, found, _JOB)
    if first.get("sut") != s.recorded("cell", "sut"):
        found, want = shown(repr(first.get("sut"))), shown(repr(s.recorded("cell", "sut")))
        yield Fault(f"job.json: sut is {found}, the cell's {want}", want, found, _JOB)
    if not isinstance(workload, dict) or workload.get("execution") != s.recorded("execution"):
        want = shown(repr(s.recorded("execution")))
        found = shown(repr(workload.get("execution"))) if isinstance(workload, dict) else "no workload"
        yield Fault(f"job.json: workload.execution is not record.json's {want}", want, found, _JOB)
    for test, job in ((s.performance, first), *others):
        if job.get("test") != test.name:
            found, file = shown(repr(job.get("test"))), f"raw/{test.name}/job.json"
            yield Fault(f"{file} is of the test {found}", repr(test.name), found, file)


def _digests(s: Subject) -> Check:
    """weights and inputs lie in the cache, not here: only that they are stated. The reference is here."""
    assert s.place.run is not None
    where = {"source": "D3", "file": "reference.npz", "fix": _OWN}
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
    where = {"source": "C6", "file": s.trace_file, "fix": _OWN}
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
    own, issued, mode = s.rules.own, claims.issued_samples(s.performance, s.scenario), str(s.recorded("mode"))
    if issued is None or s.place.scenario not in own.trace_sample_bytes:
        return None
    if mode not in own.trace_bytes or (s.performance.detail.number("requested_min_query_count") or 0) > 1:  # which a quick run asks for
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
