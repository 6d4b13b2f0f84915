"""Which LoadGen, when, of what: versions, file hashes, dates, digests and our own record. Pure but for hashing files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from compliance import files
from compliance.check import Check, Fault, differs, judge, manual, not_applicable, shown
from compliance.rules import Rules
from compliance.tree import TESTS, Subject, Test

_BARE = "a submission without a run directory around it: there is no record.json and no raw/ to compare with"
_BOTH = "measure both tests again, one after the other, with the official LoadGen and a clock that is right"
_OWN = "put the run's own file there, or measure again"
_TREE = "the run's own command, given again, makes the tree anew from raw/"
_JOB = "raw/performance/job.json"
# Of a Job: what the accuracy and the performance test of one result have in common.
_SAME = ("sut", "family", "workload", "scenario", "benchmark", "answer", "inputs", "made_with")


def checks(s: Subject, now: datetime | None = None) -> list[Check]:
    now = now or datetime.now(UTC)
    found = [
        judge(
            f"{test.name} LoadGen",
            _loadgen(test, s.rules),
            f"unmodified {test.detail.get('loadgen_version')}",
            source="B1 D1",
            file=s.place.show(test.folder / "mlperf_log_detail.txt"),
            fix=f"measure with {s.rules.wheel}",
        )
        for test in s.tests
    ]
    found.append(judge("LoadGen of both tests", _same_loadgen(s), "the same version and build, SUT and library", source="D1", fix=_BOTH))
    found.append(
        judge(
            "dates",
            _dates(s, now),
            f"{s.performance.detail.get('test_datetime')}, {s.accuracy.detail.get('test_datetime')}",
            source="D2",
            fix=_BOTH,
        )
    )
    if s.place.run is None:
        return found + [not_applicable(name, _BARE, source="D3") for name in ("record", "digests", "raw logs", "worker outcomes", "trace")]
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
    ]


def _loadgen(test: Test, rules: Rules) -> Iterator[Fault | str]:
    d = test.detail
    version, _, commit = str(d.get("loadgen_version")).partition(" @ ")
    if version not in rules.versions:
        line = d.line("loadgen_version")
        yield differs("loadgen_version", d.get("loadgen_version"), " or ".join(rules.versions), f"{rules.round} wants", line=line)
        return
    if commit != rules.versions[version]:
        text = f"built from commit {shown(commit)!r}; the official {version} is {rules.versions[version]}"
        yield Fault(text, rules.versions[version], shown(commit), line=d.line("loadgen_version"))
    if d.get("loadgen_git_status_message") != "":
        status = repr(str(d.get("loadgen_git_status_message"))[:120])
        yield Fault(f"built from a changed source tree: {status}", "''", status, line=d.line("loadgen_git_status_message"))
    found, known = d.get("loadgen_file_sha1"), rules.file_sha1[version]
    if not isinstance(found, dict):
        yield "loadgen_file_sha1 is missing"
        return
    for path in sorted({*found, *known}):
        if found.get(path) != known.get(path):
            mine, official = shown(found.get(path)), str(known.get(path))
            text = f"{shown(path)} has sha1 {mine}; the official {version} has {official}"
            yield Fault(text, official, mine, line=d.line("loadgen_file_sha1"))


def _same_loadgen(s: Subject) -> Iterator[Fault | str]:
    for key in ("loadgen_version", "loadgen_build_date_utc", "sut_name", "qsl_name"):
        values = [test.detail.get(key) for test in s.tests]
        if values[0] is None or values[0] != values[1]:
            first, second = map(shown, values)
            yield Fault(
                f"{key}: performance {first}, accuracy {second}",
                first,
                second,
                s.place.show(s.accuracy.folder / "mlperf_log_detail.txt"),
                s.accuracy.detail.line(key),
            )


def log_date(text: Any) -> datetime | None:
    """`2026-11-21T03:46:56Z`, and the build date, which is UTC without saying so."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def power_date(text: Any) -> datetime | None:
    """`MM-DD-YYYY HH:MM:SS.mmm`, local time."""
    try:
        return datetime.strptime(text, "%m-%d-%Y %H:%M:%S.%f")
    except (TypeError, ValueError):
        return None


def _dates(s: Subject, now: datetime) -> Iterator[Fault | str]:
    tested = []
    for test in s.tests:
        file, line = s.place.show(test.folder / "mlperf_log_detail.txt"), test.detail.line("test_datetime")
        built, at = log_date(test.detail.get("loadgen_build_date_utc")), log_date(test.detail.get("test_datetime"))
        if built is None or at is None:
            yield Fault(f"{test.name}: loadgen_build_date_utc or test_datetime is missing or no date", file=file, line=line)
            continue
        tested.append(at)
        if not built <= at <= now + timedelta(hours=1):
            when, first, last = (f"{date:%Y-%m-%d %H:%M}" for date in (at, built, now))
            text = f"{test.name}: tested at {when}, LoadGen built {first}, now {last}"
            yield Fault(text, f"{first} to {last}", when, file, line)
        begin, end = power_date(test.detail.get("power_begin")), power_date(test.detail.get("power_end"))
        if begin is None or end is None or end < begin:
            first, last = (shown(test.detail.get(key)) for key in ("power_begin", "power_end"))
            text = f"{test.name}: power_begin {first}, power_end {last}"
            yield Fault(text, "two dates in order", f"{first}, {last}", file, test.detail.line("power_end"))
        elif abs(begin.replace(tzinfo=UTC) - at) > timedelta(hours=26):  # every time zone
            text = f"{test.name}: test_datetime {at:%Y-%m-%d} and power_begin {begin:%Y-%m-%d} are days apart"
            yield Fault(text, f"{at:%Y-%m-%d}", f"{begin:%Y-%m-%d}", file, test.detail.line("power_begin"))
    if len(tested) == 2 and abs(tested[0] - tested[1]) > timedelta(days=s.rules.dates.session_days):
        apart, most = abs(tested[0] - tested[1]).days, s.rules.dates.session_days
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
    for key in _SAME:
        if first.get(key) != second.get(key):
            values = [shown(job.get(key)) for job in (first, second)]
            text = f"job.json: {key} differs between the performance and the accuracy test"
            yield Fault(text, values[0], values[1], "raw/accuracy/job.json")
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
    for test in s.tests:
        if (test.job or {}).get("test") != test.name:
            found, file = shown(repr((test.job or {}).get("test"))), f"raw/{test.name}/job.json"
            yield Fault(f"{file} is of the test {found}", repr(test.name), found, file)


def _digests(s: Subject) -> Check:
    """weights and inputs lie in the cache, not here: only that they are stated. The reference is here."""
    assert s.place.run is not None
    where = {"source": "D3", "file": "reference.npz", "fix": _OWN}
    faults: list[Fault | str] = [
        _no_sha256(name, shown(repr(s.recorded("digests", name))))
        for name in ("weights", "inputs")
        if not is_sha256(s.recorded("digests", name))
    ]
    stated = s.recorded("digests", "reference")
    if no_reference(s):
        return (
            judge("digests", faults, "", **where)
            if faults
            else manual("digests", f"there is no reference to compare with: {s.recorded('accuracy', 'reason')}", **where)
        )
    found, fault = files.attempt(files.sha256, s.place.run / "reference.npz")
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
        return not_applicable("trace", "none was written: it would have been too large", **where)
    if s.trace is None:
        return judge("trace", [s.faults.get(s.trace_file, f"{s.trace_file} is missing or empty")], "", **where)
    text = f"its content has sha256 {s.trace.sha256}; record.json says {shown(stated)}"
    faults = [] if s.trace.sha256 == stated else [Fault(text, shown(stated), s.trace.sha256)]
    return judge("trace", faults, f"the recorded one, {len(s.trace.sequence)} samples", **where)


def _no_sha256(name: str, found: str) -> Fault:
    return Fault(f"digests.{name} is {found}; a sha256 belongs there", "a sha256", found, "record.json")


def is_sha256(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def no_reference(s: Subject) -> bool:
    """record.json says that none could be made, and why."""
    return not s.recorded("digests", "reference") and bool(s.recorded("accuracy", "reason"))


def _raw_logs(s: Subject) -> Iterator[Fault | str]:
    pairs = [(test.name, test.folder / name, name) for test in s.tests for name in s.rules.layout.performance_files]
    pairs.append(("performance", s.place.measurements / "user.conf", "user.conf"))
    for test, submitted, name in pairs:
        raw = s.place.raw(test)
        assert raw is not None
        (first, fault), (second, raw_fault) = files.attempt(files.sha256, submitted), files.attempt(files.sha256, raw / name)
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
