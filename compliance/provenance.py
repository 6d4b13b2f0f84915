"""Which LoadGen, when, of what: versions, file hashes, dates, digests and our own record. Pure but for hashing files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from compliance import files
from compliance.check import Check, judge, manual, not_applicable
from compliance.rules import Rules
from compliance.tree import TESTS, Subject, Test

_BARE = "a submission without a run directory around it: there is no record.json and no raw/ to compare with"
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
    found.append(judge("LoadGen of both tests", _same_loadgen(s), "the same version and build, SUT and library", source="D1"))
    found.append(
        judge(
            "dates", _dates(s, now), f"{s.performance.detail.get('test_datetime')}, {s.accuracy.detail.get('test_datetime')}", source="D2"
        )
    )
    if s.place.run is None:
        return found + [not_applicable(name, _BARE, source="D3") for name in ("record", "digests", "raw logs", "worker outcomes", "trace")]
    return found + [
        judge("record", _record(s), "agrees with logs and folders", source="D3", file="record.json"),
        _digests(s),
        judge("raw logs", _raw_logs(s), "the submitted logs are the raw ones", source="D3"),
        judge("worker outcomes", _outcomes(s), "both tests ended well", source="D3"),
        _trace(s),
    ]


def _loadgen(test: Test, rules: Rules) -> Iterator[str]:
    d = test.detail
    version, _, commit = str(d.get("loadgen_version")).partition(" @ ")
    if version not in rules.versions:
        yield f"loadgen_version is {d.get('loadgen_version')}; {rules.round} wants {' or '.join(rules.versions)}"
        return
    if commit != rules.versions[version]:
        yield f"built from commit {commit!r}; the official {version} is {rules.versions[version]}"
    if d.get("loadgen_git_status_message") != "":
        yield f"built from a changed source tree: {str(d.get('loadgen_git_status_message'))[:120]!r}"
    found, known = d.get("loadgen_file_sha1"), rules.file_sha1[version]
    if not isinstance(found, dict):
        yield "loadgen_file_sha1 is missing"
        return
    for path in sorted({*found, *known}):
        if found.get(path) != known.get(path):
            yield f"{path} has sha1 {found.get(path)}; the official {version} has {known.get(path)}"


def _same_loadgen(s: Subject) -> Iterator[str]:
    for key in ("loadgen_version", "loadgen_build_date_utc", "sut_name", "qsl_name"):
        values = [test.detail.get(key) for test in s.tests]
        if values[0] is None or values[0] != values[1]:
            yield f"{key}: performance {values[0]}, accuracy {values[1]}"


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


def _dates(s: Subject, now: datetime) -> Iterator[str]:
    tested = []
    for test in s.tests:
        built, at = log_date(test.detail.get("loadgen_build_date_utc")), log_date(test.detail.get("test_datetime"))
        if built is None or at is None:
            yield f"{test.name}: loadgen_build_date_utc or test_datetime is missing or no date"
            continue
        tested.append(at)
        if not built <= at <= now + timedelta(hours=1):
            yield f"{test.name}: tested at {at:%Y-%m-%d %H:%M}, LoadGen built {built:%Y-%m-%d %H:%M}, now {now:%Y-%m-%d %H:%M}"
        begin, end = power_date(test.detail.get("power_begin")), power_date(test.detail.get("power_end"))
        if begin is None or end is None or end < begin:
            yield f"{test.name}: power_begin {test.detail.get('power_begin')}, power_end {test.detail.get('power_end')}"
        elif abs(begin.replace(tzinfo=UTC) - at) > timedelta(hours=26):  # every time zone
            yield f"{test.name}: test_datetime {at:%Y-%m-%d} and power_begin {begin:%Y-%m-%d} are days apart"
    if len(tested) == 2 and abs(tested[0] - tested[1]) > timedelta(days=s.rules.dates.session_days):
        yield f"the two tests are {abs(tested[0] - tested[1]).days} days apart; at most {s.rules.dates.session_days} make one session"


def _record(s: Subject) -> Iterator[str]:
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
            yield f"{'.'.join(keys)} is {s.recorded(*keys)!r}; logs and folders say {want!r}"
    for short, whole in (("weights", "weights"), ("dataset", "inputs")):
        value, digest = s.recorded("cell", short), s.recorded("digests", whole)
        if value not in ("seeded", "synthetic") and not (isinstance(value, str) and value and str(digest).startswith(value)):
            yield f"cell.{short} is {value!r} and digests.{whole} {str(digest)[:16]!r}; the one begins the other"
    yield from _jobs(s)


def _jobs(s: Subject) -> Iterator[str]:
    first, second = (test.job for test in s.tests)
    if first is None or second is None:
        yield from (fault for test in s.tests for name, fault in test.faults.items() if name == "job.json")
        return
    for key in _SAME:
        if first.get(key) != second.get(key):
            yield f"job.json: {key} differs between the performance and the accuracy test"
    workload = first.get("workload")
    for key in ("precision", "batch_size", "device", "model", "task"):
        if not isinstance(workload, dict) or workload.get(key) != s.recorded("cell", key):
            yield f"job.json: workload.{key} is not the cell's {s.recorded('cell', key)!r}"
    if first.get("sut") != s.recorded("cell", "sut"):
        yield f"job.json: sut is {first.get('sut')!r}, the cell's {s.recorded('cell', 'sut')!r}"
    if not isinstance(workload, dict) or workload.get("execution") != s.recorded("execution"):
        yield f"job.json: workload.execution is not record.json's {s.recorded('execution')!r}"
    for test in s.tests:
        if (test.job or {}).get("test") != test.name:
            yield f"raw/{test.name}/job.json is of the test {(test.job or {}).get('test')!r}"


def _digests(s: Subject) -> Check:
    """weights and inputs lie in the cache, not here: only that they are stated. The reference is here."""
    assert s.place.run is not None
    where = {"source": "D3", "file": "reference.npz"}
    faults = [
        f"digests.{name} is {s.recorded('digests', name)!r}; a sha256 belongs there"
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
        faults.append(fault or f"reference.npz has sha256 {found}; record.json says {stated}")
    return judge("digests", faults, "reference.npz is the recorded one; weights and inputs are stated", **where)


def _trace(s: Subject) -> Check:
    """The recorded one must be here."""
    where = {"source": "C6", "file": s.trace_file}
    stated = s.recorded("digests", "trace")
    planned = ((s.performance.outcome or {}).get("plan") or {}).get("trace")
    if not planned and stated is None and s.trace is None and s.trace_file not in s.faults:
        return not_applicable("trace", "none was written: it would have been too large", **where)
    if s.trace is None:
        return judge("trace", [s.faults.get(s.trace_file, f"{s.trace_file} is missing or empty")], "", **where)
    faults = [] if s.trace.sha256 == stated else [f"its content has sha256 {s.trace.sha256}; record.json says {stated}"]
    return judge("trace", faults, f"the recorded one, {len(s.trace.sequence)} samples", **where)


def is_sha256(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def no_reference(s: Subject) -> bool:
    """record.json says that none could be made, and why."""
    return not s.recorded("digests", "reference") and bool(s.recorded("accuracy", "reason"))


def _raw_logs(s: Subject) -> Iterator[str]:
    pairs = [(test.name, test.folder / name, name) for test in s.tests for name in s.rules.layout.performance_files]
    pairs.append(("performance", s.place.folder / "user.conf", "user.conf"))
    for test, submitted, name in pairs:
        raw = s.place.raw(test)
        assert raw is not None
        (first, fault), (second, raw_fault) = files.attempt(files.sha256, submitted), files.attempt(files.sha256, raw / name)
        if fault or raw_fault:
            yield f"{test}: {fault or 'raw: ' + raw_fault}"
        elif first != second:
            yield f"{s.place.show(submitted)} differs from raw/{test}/{name}"


def _outcomes(s: Subject) -> Iterator[str]:
    for name, test in zip(TESTS, s.tests, strict=True):
        if test.outcome is None:
            yield f"raw/{name}: {test.faults.get('outcome.json', 'outcome.json is missing')}"
        elif test.outcome.get("status") != "ok":
            yield f"raw/{name}: status {test.outcome.get('status')}: {test.outcome.get('reason')}"
