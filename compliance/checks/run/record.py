"""The checks that compare record.json with logs and folders, and the submission's documents with
record.json, their source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from compliance.checks.entries import entry_fault
from compliance.findings.check import differs, judge, mismatch, quoted, shorten
from compliance.logs import files
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject
from formats.cell import LENGTH_BUCKETS, Cell
from formats.checks import Check, Checks, Fault, Faults
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.record import ArrayKind, Record
from results import documents

Pairs = dict[str, tuple[Any, Any]]
"""Field → (its value, the one that follows from other files)."""
_JOB = "raw/performance/job.json"
_UNLIMITED_NS = 10**15
"""LoadGen's setting of a limit of Server that a cell does not have."""
_OF_A_TEST = ("test", "log_dir", "calibration", "known", "audit")
"""The fields of job.json that may differ between the tests of a run. In the accuracy test the
limits may differ, too.
"""
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


def checks(subject: Subject) -> Checks:
    """The checks of the system description and measurements.json against record.json."""
    record = subject.recorded
    return [
        judge(
            "system-of-the-record",
            [*_folders(subject, record), *_system(subject, record)],
            "the recorded machine, SUT and submitter",
            subject.system_file,
        ),
        judge(
            "measurements-of-the-record",
            [*_measurements(subject, record), *_readme(subject, record)],
            "the recorded data types and weights",
            subject.measurements_file,
        ),
    ]


def agreement(subject: Subject) -> Check:
    """The check of record.json itself against logs, folders and jobs."""
    return judge("record", _record(subject), "agrees with logs and folders", "record.json")


def differing(pairs: Pairs, who: str, file: str = "") -> Faults:
    """Yield a fault for each value that is not the one that `who` gives.

    Args:
        pairs: field → (its value, the one that follows from other files).
        file: the file that has the field; empty: the check's.
    """
    for name, (stated, follows) in pairs.items():
        if stated != follows:
            yield mismatch(name, quoted(stated), quoted(follows), who, file=file)


def _record(subject: Subject) -> Faults:
    record = subject.record
    if record is None:
        yield subject.faults.get("record.json", "record.json is missing")
        return
    detail = subject.performance.detail
    place = subject.place
    qsl = record.qsl
    loaded = detail.get("effective_performance_sample_count")
    expected = {
        "round": (record.round, subject.rules.round),
        "benchmark.name": (record.benchmark.name, place.benchmark),
        "benchmark.official": (record.benchmark.official, subject.official),
        "cell.scenario": (record.cell.scenario, place.scenario),
        "qsl.samples": (qsl.samples, detail.get("qsl_reported_total_count")),
        "qsl.performance_sample_count": (qsl.performance_sample_count, loaded),
    }
    if record.loadgen:
        version = str(detail.get("loadgen_version")).partition(" ")[0]
        expected["loadgen"] = (record.loadgen.rpartition("==")[2], version)
    if record.cell.dataset == "synthetic":
        expected["qsl.shortest"] = (qsl.shortest, qsl.longest)
    yield from differing(expected, "logs and folders say")
    if record.answers:
        keys = {"accuracy.keys": (list(record.accuracy.keys), list(record.answers))}
        yield from differing(keys, "the worker answered")
    digests = {
        "weights": ("weights", record.digests.weights),
        "dataset": ("inputs", record.digests.inputs),
    }
    for short, (whole, digest) in digests.items():
        value = getattr(record.cell, short)
        if value in ("seeded", "synthetic", "uneven") or (value and digest.startswith(value)):
            continue
        start = f"the first digits of digests.{whole}, {digest[:16]!r}"
        yield mismatch(f"cell.{short}", repr(value), start, "it must be")
    yield from _server(subject, record)
    tests = {test.name: test for test in (*subject.tests, *subject.compliance.values())}
    for test in subject.tests:
        if "job.json" in test.faults:
            yield test.faults["job.json"]
    jobs = {name: test.job for name, test in tests.items() if test.job}
    if all(test.job for test in subject.tests):
        yield from of_jobs(record, jobs, subject.performance.outcome)


def _server(subject: Subject, record: Record) -> Faults:
    """Yield a fault for the rate and for each limit of Server that are not the cell's in the log.

    A quick test's limit with a fraction of a millisecond is in no user.conf.
    """
    if subject.scenario != "Server":
        return
    detail = subject.performance.detail
    cell = record.cell
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


def of_jobs(record: Record, jobs: Mapping[str, Job], outcome: WorkerOutcome | None) -> Faults:
    """Yield a fault for each contradiction between the jobs of two tests, and for each field of
    record.json that contradicts job and report of the performance test.

    Args:
        jobs: test → its job; the performance test is one of them.
        outcome: the report of the performance test; None: there is none.
    """
    first = jobs["performance"]
    for test, job in jobs.items():
        file = f"raw/{test}/job.json"
        if job.test != test:
            value = shorten(repr(job.test))
            yield Fault(f"{file} is of the test {value}", repr(test), value, file)
        free = (*_OF_A_TEST, "limits") if test == "accuracy" else _OF_A_TEST
        sentence = "job.json: {key} differs between the performance and the {test} test"
        for key in sorted({each.name for each in fields(Job)} - {*free}):
            one = getattr(first, key)
            other = getattr(job, key)
            if one != other:
                yield differs(sentence, other, one, file=file, key=key, test=test)
    yield from differing(_follows(record, first), f"{_JOB} gives")
    threads = {len(place.cores) for place in first.places}
    if first.launch:
        threads = {first.launch.threads or 0}
    stated = record.cell.threads
    if stated and threads != {stated}:
        yield mismatch("cell.threads", stated, sorted(threads), f"{_JOB} gives")
    places = {str(job.log_dir.parent) for job in jobs.values()}
    if len(places) > 1:
        text = "the jobs of its tests are of several run directories"
        yield Fault(text, "one", shorten(sorted(places)), "raw")
    if outcome:
        yield from differing(_reported(record, outcome), "the worker reports")
        yield from _packages(record.cell.packages, outcome.versions)
    sorts = LENGTH_BUCKETS in record.cell.switches
    if bool(first.length_buckets) != sorts:
        value = repr(first.length_buckets)
        expected = "some" if sorts else "none"
        who = "the cell's switches request"
        yield mismatch("job.json: length_buckets", value, expected, who, file=_JOB)


def _reported(record: Record, outcome: WorkerOutcome) -> Pairs:
    """Field of record.json → (its value, the one that the worker reports)."""
    answers = {
        name: ArrayKind(dtype=kind["dtype"], shape=tuple(kind["shape"]))
        for name, kind in outcome.answers.items()
    }
    values: Pairs = {
        "answers": (record.answers, answers),
        "nodes": (record.nodes, outcome.nodes),
    }
    stated = record.environment.versions
    reported = outcome.versions
    for package in {**stated, **reported} if stated else ():
        versions = (stated.get(package), reported.get(package))
        values[f"environment.versions.{package}"] = versions
    return values


def _packages(packages: Iterable[str], reported: Mapping[str, str]) -> Faults:
    """Yield a fault for each package of the cell that the worker did not have in that version."""
    versions = {canonicalize_name(name): version for name, version in reported.items()}
    for text in packages:
        name, _, version = text.partition("@")[0].partition("==")
        found = versions.get(canonicalize_name(name))
        try:
            same = found is not None and SpecifierSet(f"=={version}" if version else "").contains(
                found, True
            )
        except (InvalidSpecifier, InvalidVersion):
            same = False
        if not same:
            yield mismatch("cell.packages", shorten(text), found, "the worker reports")


def _follows(record: Record, job: Job) -> Pairs:
    """Field of record.json → (its value, the one that follows from the job)."""
    cell = record.cell
    qsl = record.qsl
    work = job.workload
    ends = tuple(work.config.get("end_tokens", ()))
    made_with = job.made_with
    eos = "stop" if ends else "ignore"
    of_job = job.cell
    names = of_job.replica_count if of_job.cluster else 0
    values: Pairs = {
        f"cell.{each.name}": (getattr(cell, each.name), getattr(of_job, each.name))
        for each in fields(Cell)
    }
    values |= {
        "architecture": (record.architecture, job.architecture),
        "execution": (record.execution, work.execution),
        "end_tokens": (record.end_tokens, ends),
        "cell.eos": (cell.eos, eos if cell.task == "generate" else None),
        "whether LoRA is trained": (bool(cell.lora), bool(work.config.get("lora"))),
        "whether a cluster launches": (bool(cell.cluster), bool(job.launch)),
        "whether there is a reference": (bool(record.digests.reference), bool(job.reference)),
        "environment.lock_sha256": (record.environment.lock_sha256, made_with.get("environment")),
        "git.worker_source_sha256": (record.git.worker_source_sha256, made_with.get("source")),
        "the number of nodes": (len(record.nodes), names),
    }
    if of_job.seq_len and qsl.padded_to:
        values["qsl.padded_to"] = (qsl.padded_to, of_job.seq_len)
    if cell.replicas:
        values["the number of replicas"] = (cell.replica_count, len(job.places))
    return values


def _folders(subject: Subject, record: Record) -> Faults:
    submitter = record.submitter
    place = subject.place
    folder = place.submitter_folder.name
    if submitter and folder != submitter:
        yield mismatch("the submitter's folder", folder, submitter, "record.json says")
    system = documents.system_id(record)
    if record.machine.threads is not None and place.system != system:
        who = "by machine and SUT of record.json it is"
        yield mismatch("the system's folder", place.system, system, who)


def _system(subject: Subject, record: Record) -> Faults:
    """Yield a fault for each field of the system description that contradicts the record. "N/A" in
    a field of the host is not judged.
    """
    system = subject.system
    if system is None:
        return
    expected = documents.system_description(record, record.submitter)
    silence = documents.NOT_REPORTED
    described = {}
    for key in _DESCRIBED:
        pair = (str(system.get(key)), expected[key])
        if key.startswith("accelerator") or silence not in pair:
            described[key] = pair
    yield from differing(described, "record.json says")
    framework = str(system.get("framework"))
    sut, _, stack = framework.partition(": ")
    versions = {f"{name} {version}" for name, version in record.environment.versions.items()}
    packages = set(filter(None, stack.split(", ")))
    if framework != silence and (sut != record.cell.sut or not packages <= versions):
        expected_framework = f"{shorten(record.cell.sut)}: and packages of environment.versions"
        yield mismatch("framework", repr(framework), expected_framework, "record.json says")


def _measurements(subject: Subject, record: Record) -> Faults:
    measurements = subject.measurements or {}
    expected = documents.measurements(record)
    stated = {"input_data_types", "weight_data_types"} & measurements.keys()
    types = {key: (measurements[key], expected[key]) for key in sorted(stated)}
    yield from differing(types, "the run has")
    key = "starting_weights_filename"
    digest = record.digests.weights
    weights = measurements.get(key)
    if weights not in (None, *_NOT_STATED) and digest not in str(weights):
        yield mismatch(key, repr(weights), f"weights of digest {digest}", "record.json says")


def _readme(subject: Subject, record: Record) -> Faults:
    """Yield a fault for each value of the record that README.md does not have."""
    path = subject.place.measurements / "README.md"
    text = files.maybe(files.text, path)
    if text is None:
        return
    cell = record.cell
    setting = f"{cell.precision}, batch {cell.batch_size}, device {cell.device}"
    for value in (record.command, record.git.revision, setting):
        if value and value not in text:
            words = f"README.md does not have {shorten(value)}, which record.json says"
            yield Fault(words, shorten(value), "other values", file=subject.place.show(path))
