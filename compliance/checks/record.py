"""These checks compare record.json with logs and folders, and the tree's documents with record.json, which they are made from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, mismatch, not_applicable, shorten
from compliance.folders import measurements_file
from compliance.subject import BARE, Subject

_JOB = "raw/performance/job.json"
# The fields of job.json that the performance and the accuracy test share.
_SAME = ("sut", "family", "workload", "scenario", "benchmark", "answer", "inputs", "made_with")
_UNTOLD = ("N/A", "none")
_HELD = {"tf32": "float32"}


def checks(subject: Subject) -> list[Check]:
    """The checks of the system description and measurements.json against record.json."""
    if subject.record is None:
        return [not_applicable(check_id, subject.no_record) for check_id in ("system-of-the-record", "measurements-of-the-record")]
    system = subject.place.show(subject.place.submitter_folder / subject.rules.layout.system.format(system=subject.place.system))
    measurements = subject.place.show(measurements_file(subject.place, subject.rules))
    good = "the machine, SUT and submitter that were recorded"
    return [
        judge("system-of-the-record", [*_folders(subject), *_system(subject)], good, file=system, fix=fixes.RUN),
        judge(
            "measurements-of-the-record",
            _measurements(subject),
            "data types and weights that were recorded",
            file=measurements,
            fix=fixes.RUN,
        ),
    ]


def agreement(subject: Subject) -> Check:
    """The check of record.json itself against logs, folders and jobs."""
    if subject.place.run is None:
        return not_applicable("record", BARE)
    return judge("record", _record(subject), "agrees with logs and folders", file="record.json", fix=fixes.OWN)


def _record(subject: Subject) -> Iterator[Fault | str]:
    if subject.record is None:
        yield subject.faults.get("record.json", "record.json is missing")
        return
    detail = subject.performance.detail
    expected = {
        ("round",): subject.rules.round,
        ("benchmark", "name"): subject.place.benchmark,
        ("benchmark", "official"): subject.official,
        ("cell", "scenario"): subject.place.scenario,
        ("qsl", "samples"): detail.get("qsl_reported_total_count"),
        ("qsl", "performance_sample_count"): detail.get("effective_performance_sample_count"),
        ("end_tokens",): _end_tokens(subject),
    }
    eos = ("stop" if _end_tokens(subject) else "ignore") if subject.recorded("cell", "task") == "generate" else None
    if subject.recorded("cell", "eos") != eos:
        yield mismatch("cell.eos", repr(subject.recorded("cell", "eos")), repr(eos), "the worker was told")
    for keys, required in expected.items():
        if subject.recorded(*keys) is None or subject.recorded(*keys) != required:
            yield mismatch(".".join(keys), repr(subject.recorded(*keys)), repr(required), "logs and folders say")
    for short, whole in (("weights", "weights"), ("dataset", "inputs")):
        value, digest = subject.recorded("cell", short), subject.recorded("digests", whole)
        if value not in ("seeded", "synthetic", "uneven") and not (isinstance(value, str) and value and str(digest).startswith(value)):
            begins = repr(str(digest)[:16])
            text = f"cell.{short} is {shorten(repr(value))} and digests.{whole} {begins}; the one begins the other"
            yield Fault(text, f"what {begins} begins with", shorten(repr(value)))
    answers, keys = subject.recorded("answers"), subject.recorded("accuracy", "keys")
    if isinstance(answers, dict) and answers and keys != list(answers):
        yield mismatch("accuracy.keys", keys, list(answers), "the worker answered")
    yield from _jobs(subject)


def _jobs(subject: Subject) -> Iterator[Fault | str]:
    first, second = (test.job for test in subject.tests)
    if first is None or second is None:
        yield from (fault for test in subject.tests for name, fault in test.faults.items() if name == "job.json")
        return
    others = [(test, test.job) for test in (subject.accuracy, *subject.compliance.values()) if test.job is not None]
    for test, job in others:
        for key in _SAME:
            if first.get(key) != job.get(key):
                text = f"job.json: {key} differs between the performance and the {test.name} test"
                yield Fault(text, shorten(first.get(key)), shorten(job.get(key)), f"raw/{test.name}/job.json")
    workload = first.get("workload")
    for key in ("precision", "batch_size", "device", "model", "task"):
        if not isinstance(workload, dict) or workload.get(key) != subject.recorded("cell", key):
            expected = shorten(repr(subject.recorded("cell", key)))
            value = shorten(repr(workload.get(key))) if isinstance(workload, dict) else "no workload"
            yield Fault(f"job.json: workload.{key} is not the cell's {expected}", expected, value, _JOB)
    if first.get("sut") != subject.recorded("cell", "sut"):
        value, expected = shorten(repr(first.get("sut"))), shorten(repr(subject.recorded("cell", "sut")))
        yield Fault(f"job.json: sut is {value}, the cell's {expected}", expected, value, _JOB)
    if not isinstance(workload, dict) or workload.get("execution") != subject.recorded("execution"):
        expected = shorten(repr(subject.recorded("execution")))
        value = shorten(repr(workload.get("execution"))) if isinstance(workload, dict) else "no workload"
        yield Fault(f"job.json: workload.execution is not record.json's {expected}", expected, value, _JOB)
    for test, job in ((subject.performance, first), *others):
        if job.get("test") != test.name:
            value, file = shorten(repr(job.get("test"))), f"raw/{test.name}/job.json"
            yield Fault(f"{file} is of the test {value}", repr(test.name), value, file)


def _folders(subject: Subject) -> Iterator[Fault]:
    submitter, system = subject.recorded("submitter"), system_id(subject)
    if submitter is not None and subject.place.submitter_folder.name != submitter:
        yield mismatch("the submitter's folder", subject.place.submitter_folder.name, submitter, "record.json says")
    if system is not None and subject.place.system != system:
        yield mismatch("the system's folder", subject.place.system, system, "record.json's machine and SUT make")


def system_id(subject: Subject) -> str | None:
    """The name the harness gives a system: processor or accelerator, threads, SUT; None: the record lacks one of them."""
    gpu, threads = _gpu(subject), subject.recorded("machine", "threads")
    host = gpu.get("name") if gpu else subject.recorded("machine", "cpu")
    if not isinstance(host, str) or threads is None:
        return None
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', host).strip('-') or 'unknown'}-{shorten(threads)}t-{shorten(subject.recorded('cell', 'sut'))}"


def _gpu(subject: Subject) -> Mapping[str, Any]:
    """The record of the accelerator the cell ran on, the first one; empty on a CPU."""
    accelerators = subject.recorded("machine", "accelerators")
    if (
        subject.recorded("cell", "device") != "cuda"
        or not isinstance(accelerators, list)
        or not accelerators
        or not isinstance(accelerators[0], dict)
    ):
        return {}
    return accelerators[0]


def _system(subject: Subject) -> Iterator[Fault]:
    """Fields of the system description that are not what the record says. "N/A" in a field of the host says nothing."""
    if subject.system is None:
        return
    for key, expected in _described(subject).items():
        value = str(subject.system.get(key))
        if value != expected and not (value == "N/A" and not key.startswith("accelerator")):
            yield mismatch(key, repr(value), repr(expected), "record.json says")
    framework = str(subject.system.get("framework"))
    sut, _, stack = framework.partition(": ")
    versions = subject.recorded("environment", "versions")
    packages = {f"{name} {version}" for name, version in versions.items()} if isinstance(versions, dict) else set()
    if framework != "N/A" and (sut != subject.recorded("cell", "sut") or not set(filter(None, stack.split(", "))) <= packages):
        expected = f"{shorten(subject.recorded('cell', 'sut'))}: and packages of environment.versions"
        yield mismatch("framework", repr(framework), expected, "record.json says")


def _described(subject: Subject) -> dict[str, str]:
    def recorded(key: str) -> Any:
        return subject.recorded("machine", key)

    gpu, memory = _gpu(subject), recorded("memory_bytes")
    host = {
        "host_processor_model_name": recorded("cpu"),
        "host_processors_per_node": recorded("sockets"),
        "host_processor_core_count": recorded("cores"),
        "host_processor_vcpu_count": recorded("threads"),
        "host_processor_caches": recorded("caches"),
        "host_memory_capacity": _gib(memory, 1),
        "host_storage_type": recorded("disk_kind"),
        "operating_system": recorded("kernel") and f"{recorded('operating_system')}, {recorded('kernel')}",
        "system_name": system_id(subject),
    }
    accelerator = {
        "number_of_nodes": "1",
        "accelerators_per_node": "1" if gpu else "0",
        "accelerator_model_name": gpu.get("name", "N/A"),
        "accelerator_memory_capacity": _gib(gpu.get("memory_bytes"), 0) or "N/A",
    }
    return {key: str(value) for key, value in host.items() if value not in (None, "", [])} | {k: str(v) for k, v in accelerator.items()}


def _gib(value: Any, digits: int) -> str | None:
    return f"{value / 2**30:.{digits}f} GiB" if isinstance(value, int | float) and 0 < value < 1e18 else None


def _measurements(subject: Subject) -> Iterator[Fault]:
    measurements, precision = subject.measurements or {}, str(subject.recorded("cell", "precision"))
    data_types = {"input_data_types": _input_types(subject), "weight_data_types": _HELD.get(precision, precision)}
    for key, expected in data_types.items():
        if key in measurements and measurements[key] != expected:
            yield mismatch(key, repr(measurements[key]), repr(expected), "the run has")
    weights, digest = measurements.get("starting_weights_filename"), str(subject.recorded("digests", "weights"))
    if weights is not None and weights not in _UNTOLD and digest not in str(weights):
        yield mismatch("starting_weights_filename", repr(weights), f"weights of digest {digest}", "record.json says")


def _input_types(subject: Subject) -> str:
    """The dtypes of the inputs, each once, by the record; the round's own where an older record does not tell them."""
    inputs = subject.recorded("inputs")
    arrays = inputs.values() if isinstance(inputs, dict) else ()
    types = {str(array.get("dtype")) for array in arrays if isinstance(array, dict)}
    return ", ".join(sorted(types)) or subject.rules.project_limits.input_data_types


def _end_tokens(subject: Subject) -> list[Any]:
    """The ids at which an answer ended, as the worker was told."""
    workload = (subject.performance.job or {}).get("workload")
    config = workload.get("config") if isinstance(workload, dict) else None
    end_tokens = config.get("end_tokens", []) if isinstance(config, dict) else []
    return end_tokens if isinstance(end_tokens, list) else []
