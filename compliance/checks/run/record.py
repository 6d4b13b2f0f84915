"""The checks that compare record.json with logs and folders, and the submission's documents with
record.json, their source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import judge, mismatch, not_applicable, shorten
from compliance.findings.entries import entry_fault
from compliance.folders import measurements_file
from compliance.logs.digits import DIGITS, close
from compliance.subject import BARE, Subject
from formats import documents
from formats.cell import IN_WORKLOAD, LENGTH_BUCKETS
from formats.checks import Check, Fault, Faults
from formats.record import Record

_JOB = "raw/performance/job.json"
_UNLIMITED_NS = 10**15
"""LoadGen's setting of a limit of Server that a cell does not have."""
# The fields of job.json that the performance and the accuracy test share.
_SAME = (
    "sut",
    "architecture",
    "workload",
    "scenario",
    "benchmark",
    "answer",
    "inputs",
    "made_with",
    "places",
    "launch",
    "length_buckets",
)
_NOT_STATED = ("N/A", "none")
_DESCRIBED = (
    "number_of_nodes",
    "system_name",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_caches",
    "host_memory_capacity",
    "host_storage_type",
    "operating_system",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
)
"""Fields of the system description that are computed from the record."""


def checks(subject: Subject) -> list[Check]:
    """The checks of the system description and measurements.json against record.json."""
    record = subject.record
    if record is None:
        ids = ("system-of-the-record", "measurements-of-the-record")
        return [not_applicable(check_id, subject.no_record) for check_id in ids]
    name = subject.rules.layout.system.format(system=subject.place.system)
    system = subject.place.show(subject.place.submitter_folder / name)
    measurements = subject.place.show(measurements_file(subject.place, subject.rules))
    good = "the recorded machine, SUT and submitter"
    return [
        judge(
            "system-of-the-record",
            [*_folders(subject, record), *_system(subject, record)],
            good,
            file=system,
            fix=fixes.RUN,
        ),
        judge(
            "measurements-of-the-record",
            _measurements(subject, record),
            "the recorded data types and weights",
            file=measurements,
            fix=fixes.RUN,
        ),
    ]


def agreement(subject: Subject) -> Check:
    """The check of record.json itself against logs, folders and jobs."""
    if subject.place.run is None:
        return not_applicable("record", BARE)
    return judge(
        "record",
        _record(subject),
        "agrees with logs and folders",
        file="record.json",
        fix=fixes.OWN,
    )


def _record(subject: Subject) -> Faults:
    record = subject.record
    if record is None:
        yield subject.faults.get("record.json", "record.json is missing")
        return
    detail = subject.performance.detail
    ends = _end_tokens(subject)
    expected = {
        "round": (record.round, subject.rules.round),
        "benchmark.name": (record.benchmark.name, subject.place.benchmark),
        "benchmark.official": (record.benchmark.official, subject.official),
        "cell.scenario": (record.cell.scenario, subject.place.scenario),
        "qsl.samples": (record.qsl.samples, detail.get("qsl_reported_total_count")),
        "qsl.performance_sample_count": (
            record.qsl.performance_sample_count,
            detail.get("effective_performance_sample_count"),
        ),
        "end_tokens": (list(record.end_tokens), ends),
    }
    eos = "stop" if ends else "ignore"
    expected["cell.eos"] = (record.cell.eos, eos if record.cell.task == "generate" else None)
    for name, (value, required) in expected.items():
        if value != required:
            yield mismatch(name, repr(value), repr(required), "logs, folders and job say")
    digests = {
        "weights": ("weights", record.digests.weights),
        "dataset": ("inputs", record.digests.inputs),
    }
    for short, (whole, digest) in digests.items():
        value = getattr(record.cell, short)
        if value in ("seeded", "synthetic", "uneven") or (value and digest.startswith(value)):
            continue
        name, start = shorten(repr(value)), repr(digest[:16])
        text = f"cell.{short} is {name}; it must be the first digits of digests.{whole}, {start}"
        yield Fault(text, f"the first digits of {start}", name)
    keys = list(record.accuracy.keys)
    if record.answers and keys != list(record.answers):
        yield mismatch("accuracy.keys", keys, list(record.answers), "the worker answered")
    yield from _server(subject, record)
    yield from _jobs(subject, record)


def _server(subject: Subject, record: Record) -> Iterator[Fault]:
    """Yield a fault for the rate and for each limit of Server that are not the cell's in the log.

    A quick test's limit with a fraction of a millisecond is in no user.conf.
    """
    if subject.scenario != "Server":
        return
    detail, cell = subject.performance.detail, record.cell
    limits = {"target_latency_ns": cell.max_latency_ms}
    if cell.stream:
        limits = {"ttft_latency": cell.max_ttft_ms, "tpot_latency": cell.max_tpot_ms}
    for name, limit_ms in limits.items():
        key = f"requested_server_{name}"
        expected = _UNLIMITED_NS if limit_ms is None else limit_ms * 1e6
        logged = detail.number(key)
        if logged is None or not abs(logged - expected) < 1:
            yield entry_fault(detail, key, f"{expected:.15g}", "the cell has")
    key = "requested_server_target_qps"
    rate = detail.number(key)
    if cell.rate is not None and (rate is None or not close(rate, cell.rate, DIGITS)):
        yield entry_fault(detail, key, f"{cell.rate:g}", "the cell has")


def _jobs(subject: Subject, record: Record) -> Faults:
    first, second = (test.job for test in subject.tests)
    if first is None or second is None:
        for test in subject.tests:
            if "job.json" in test.faults:
                yield test.faults["job.json"]
        return
    others = []
    for test in (subject.accuracy, *subject.compliance.values()):
        if test.job is not None:
            others.append((test, test.job))
    for test, job in others:
        for key in _SAME:
            one, other = getattr(first, key), getattr(job, key)
            if one != other:
                text = f"job.json: {key} differs between the performance and the {test.name} test"
                yield Fault(text, shorten(one), shorten(other), f"raw/{test.name}/job.json")
    for key in IN_WORKLOAD:
        value, expected = getattr(first.workload, key), getattr(record.cell, key)
        if value != expected:
            yield _differs(f"workload.{key}", value, expected)
    if first.sut != record.cell.sut:
        yield _differs("sut", first.sut, record.cell.sut)
    places, replicas = len(first.places), record.cell.replica_count
    if record.cell.replicas and places != replicas:
        yield _differs("places", places, replicas)
    threads = {len(place.cores) for place in first.places}
    if first.launch:
        threads = {first.launch.threads or 0}
    if record.cell.threads and threads != {record.cell.threads}:
        yield _differs("threads", sorted(threads), record.cell.threads)
    cluster = record.cell.cluster
    if (first.launch is None) != (cluster is None):
        yield _differs("launch", first.launch, cluster)
    outcome = subject.performance.outcome
    nodes = outcome.nodes if outcome else ()
    if tuple(record.nodes) != nodes:
        yield _differs("nodes", nodes, record.nodes)
    count = replicas if cluster else 0
    if len(nodes) != count:
        yield mismatch("nodes", shorten(repr(nodes)), f"{count} names", "replicas require")
    sorts = LENGTH_BUCKETS in record.cell.switches
    if bool(first.length_buckets) != sorts:
        expected = "some" if sorts else "none"
        who, value = "the cell's switches request", repr(first.length_buckets)
        yield mismatch("job.json: length_buckets", value, expected, who, file=_JOB)
    if first.workload.execution != record.execution:
        yield _differs("workload.execution", first.workload.execution, record.execution)
    for test, job in ((subject.performance, first), *others):
        if job.test != test.name:
            file, value = f"raw/{test.name}/job.json", shorten(repr(job.test))
            yield Fault(f"{file} is of the test {value}", repr(test.name), value, file)


def _differs(key: str, value: Any, expected: Any) -> Fault:
    """The fault of a value of job.json that is not the one in record.json."""
    return mismatch(f"job.json: {key}", repr(value), repr(expected), "record.json has", file=_JOB)


def _folders(subject: Subject, record: Record) -> Iterator[Fault]:
    submitter, folder = record.submitter, subject.place.submitter_folder.name
    if submitter and folder != submitter:
        yield mismatch("the submitter's folder", folder, submitter, "record.json says")
    system = documents.system_id(record)
    if record.machine.threads is not None and subject.place.system != system:
        who = "by machine and SUT of record.json it is"
        yield mismatch("the system's folder", subject.place.system, system, who)


def _system(subject: Subject, record: Record) -> Iterator[Fault]:
    """Yield a fault for each field of the system description that contradicts the record. "N/A" in
    a field of the host is not judged.
    """
    if subject.system is None:
        return
    expected = documents.system_description(record, record.submitter)
    for key in _DESCRIBED:
        value = str(subject.system.get(key))
        of_the_host = not key.startswith("accelerator")
        silent = of_the_host and documents.NOT_REPORTED in (value, expected[key])
        if value != expected[key] and not silent:
            yield mismatch(key, repr(value), repr(expected[key]), "record.json says")
    framework = str(subject.system.get("framework"))
    sut, _, stack = framework.partition(": ")
    versions = {f"{name} {version}" for name, version in record.environment.versions.items()}
    packages = set(filter(None, stack.split(", ")))
    if framework != documents.NOT_REPORTED and (sut != record.cell.sut or not packages <= versions):
        expected_framework = f"{shorten(record.cell.sut)}: and packages of environment.versions"
        yield mismatch("framework", repr(framework), expected_framework, "record.json says")


def _measurements(subject: Subject, record: Record) -> Iterator[Fault]:
    measurements = subject.measurements or {}
    expected = documents.measurements(record)
    for key in ("input_data_types", "weight_data_types"):
        if key in measurements and measurements[key] != expected[key]:
            yield mismatch(key, repr(measurements[key]), repr(expected[key]), "the run has")
    key, digest = "starting_weights_filename", record.digests.weights
    weights = measurements.get(key)
    if weights is not None and weights not in _NOT_STATED and digest not in str(weights):
        yield mismatch(key, repr(weights), f"weights of digest {digest}", "record.json says")


def _end_tokens(subject: Subject) -> list[Any]:
    """The ids that end an answer, by the worker's job."""
    job = subject.performance.job
    return job.workload.config.get("end_tokens", []) if job else []
