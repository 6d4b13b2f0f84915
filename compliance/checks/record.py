"""What the tree, the workers' outcomes and result.json say, against record.json and the logs: each was made of those."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, differs, judge, not_applicable, shown
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import BARE, Subject, Test, measurements_file

_NO_RECORD = "a submission without a run directory around it: there is no record.json to compare with"
_JOB = "raw/performance/job.json"
# Of a Job: what the accuracy and the performance test of one result have in common.
_SAME = ("sut", "family", "workload", "scenario", "benchmark", "answer", "inputs", "made_with")
_UNREAD = "record.json, which it is compared with, cannot be read"
_IDS = ("system-of-the-record", "measurements-of-the-record", "outcomes-and-result")
_MADE = "put back what the run wrote, or measure again"
_UNTOLD = ("N/A", "none")
_HELD = {"tf32": "float32"}
# scenario → LoadGen's figure that result.json tells: its name, and for each key of the log, the first that is not 0, the log's unit in its.
_FIGURES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "Offline": ("samples_per_second", {"result_samples_per_second": 1}),
    "SingleStream": ("latency_p90", {"early_stopping_latency_ss": 1e-6, "result_90.00_percentile_latency_ns": 1e-6}),
}


def checks(s: Subject) -> list[Check]:
    if s.record is None:
        return [not_applicable(check_id, _UNREAD if s.place.run else _NO_RECORD) for check_id in _IDS]
    system = s.place.show(s.place.submitter_folder / s.rules.layout.system.format(system=s.place.system))
    found = [
        ("system-of-the-record", [*_folders(s), *_system(s)], "the machine, SUT and submitter that were recorded", system),
        (
            "measurements-of-the-record",
            _measurements(s),
            "data types and weights that were recorded",
            s.place.show(measurements_file(s.place, s.rules)),
        ),
        (
            "outcomes-and-result",
            [*(fault for test in (*s.tests, *s.compliance.values()) for fault in _outcome(test, s)), *_result(s)],
            "every worker answered and took what its log says, whose figure is the result's",
            "",
        ),
    ]
    return [judge(check_id, faults, good, file=file, fix=_MADE) for check_id, faults, good, file in found]


def agreement(s: Subject) -> Check:
    if s.place.run is None:
        return not_applicable("record", BARE)
    return judge("record", _record(s), "agrees with logs and folders", file="record.json", fix=fixes.OWN)


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


def _folders(s: Subject) -> Iterator[Fault]:
    submitter, system = s.recorded("submitter"), system_id(s)
    if submitter is not None and s.place.submitter_folder.name != submitter:
        yield differs("the submitter's folder", s.place.submitter_folder.name, submitter, "record.json says")
    if system is not None and s.place.system != system:
        yield differs("the system's folder", s.place.system, system, "record.json's machine and SUT make")


def system_id(s: Subject) -> str | None:
    """Processor or accelerator, threads and SUT, as the harness names a system; None where the record does not tell."""
    gpu, threads = _gpu(s), s.recorded("machine", "threads")
    host = gpu.get("name") if gpu else s.recorded("machine", "cpu")
    if not isinstance(host, str) or threads is None:
        return None
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', host).strip('-') or 'unknown'}-{shown(threads)}t-{shown(s.recorded('cell', 'sut'))}"


def _gpu(s: Subject) -> Mapping[str, Any]:
    """The one a cell runs on, the first; empty on a CPU."""
    found = s.recorded("machine", "accelerators")
    if s.recorded("cell", "device") != "cuda" or not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return {}
    return found[0]


def _system(s: Subject) -> Iterator[Fault]:
    """Field by field, where the record tells; "N/A" of a host's claims nothing."""
    if s.system is None:
        return
    for key, want in _described(s).items():
        found = str(s.system.get(key))
        if found != want and not (found == "N/A" and not key.startswith("accelerator")):
            yield differs(key, repr(found), repr(want), "record.json says")
    framework = str(s.system.get("framework"))
    sut, _, stack = framework.partition(": ")
    versions = s.recorded("environment", "versions")
    known = {f"{name} {version}" for name, version in versions.items()} if isinstance(versions, dict) else set()
    if framework != "N/A" and (sut != s.recorded("cell", "sut") or not set(filter(None, stack.split(", "))) <= known):
        want = f"{shown(s.recorded('cell', 'sut'))}: and packages of environment.versions"
        yield differs("framework", repr(framework), want, "record.json says")


def _described(s: Subject) -> dict[str, str]:
    def told(key: str) -> Any:
        return s.recorded("machine", key)

    gpu, memory = _gpu(s), told("memory_bytes")
    host = {
        "host_processor_model_name": told("cpu"),
        "host_processors_per_node": told("sockets"),
        "host_processor_core_count": told("cores"),
        "host_processor_vcpu_count": told("threads"),
        "host_processor_caches": told("caches"),
        "host_memory_capacity": _gib(memory, 1),
        "host_storage_type": told("disk_kind"),
        "operating_system": told("kernel") and f"{told('operating_system')}, {told('kernel')}",
        "system_name": system_id(s),
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


def _measurements(s: Subject) -> Iterator[Fault]:
    stated, precision = s.measurements or {}, str(s.recorded("cell", "precision"))
    wanted = {"input_data_types": s.rules.own.input_data_types, "weight_data_types": _HELD.get(precision, precision)}
    for key, want in wanted.items():
        if key in stated and stated[key] != want:
            yield differs(key, repr(stated[key]), repr(want), "the run has")
    weights, digest = stated.get("starting_weights_filename"), str(s.recorded("digests", "weights"))
    if weights is not None and weights not in _UNTOLD and digest not in str(weights):
        yield differs("starting_weights_filename", repr(weights), f"weights of sha256 {digest}", "record.json says")


def _issued_samples(test: Test, scenario: str) -> float | None:
    """By the log; None: it does not say."""
    return test.detail.number("effective_accuracy_sample_count") if test.name == "accuracy" else counts.samples(test.detail, scenario)


def _outcome(test: Test, s: Subject) -> Iterator[Fault]:
    """Of a worker that ended well; of others `worker outcomes` says so."""
    outcome, file = test.outcome or {}, f"raw/{test.name}/outcome.json"
    if outcome.get("status") != "ok":
        return
    answered, issued = outcome.get("answered"), _issued_samples(test, s.scenario)
    count = answered.get("samples") if isinstance(answered, dict) else None
    if issued is not None and count != issued:
        yield differs(f"{test.name}: answered.samples", repr(count), f"{issued:.0f}", "LoadGen issued", file=file)
    spent, logged = outcome.get("test_ns"), _logged_ms(test)
    if logged is None:
        return
    slack = s.rules.own.outcome_slack
    most = logged * (1 + slack["fraction"]) + 1e3 * slack["seconds"]
    if not isinstance(spent, int | float) or not logged <= spent / 1e6 <= most:
        want = f"{logged * 1e6:.0f} to {most * 1e6:.0f}"
        yield differs(f"{test.name}: test_ns", shown(repr(spent)), want, "the log's own time makes it", file=file)


def _logged_ms(test: Test) -> float | None:
    """The largest time of an entry; None: there is none."""
    times = [line.time_ms for lines in test.detail.occurrences.values() for line in lines if math.isfinite(line.time_ms)]
    return max(times, default=None)


def _result(s: Subject) -> Iterator[Fault]:
    """A run is audited before result.json is written, which then holds the audit's counts: it has no check of its own."""
    assert s.place.run is not None
    path = s.place.run / "result.json"
    if path.exists() or path.is_symlink():
        found, why = files.attempt(files.json_object, path)
        faults = [Fault(why)] if found is None else _contradictions(found, s)
        yield from (replace(fault, text=f"result.json: {fault.text}", file="result.json") for fault in faults)


def _contradictions(found: Mapping[str, Any], s: Subject) -> Iterator[Fault]:
    for key in ("cell", "mode", "round"):
        if found.get(key) != s.recorded(key):
            yield differs(key, repr(found.get(key)), repr(s.recorded(key)), "record.json has")
    d = s.performance.detail
    verdict, stated = shown(d.get("result_validity")), found.get("loadgen")
    if stated is not None and shown(stated).partition(":")[0] != verdict:
        yield differs("loadgen", repr(stated), verdict, "the log says")
    told = found.get("metric")
    metric: Mapping[str, Any] = told if isinstance(told, dict) else {}
    name, keys = _FIGURES.get(s.place.scenario, ("", {}))
    want = next((value * unit for key, unit in keys.items() if (value := d.number(key))), None)
    value = metric.get("value")
    same = isinstance(value, int | float) and want is not None and math.isclose(value, want, rel_tol=1e-6)
    if want is not None and (metric.get("name") != name or not same):
        yield differs("metric", f"{metric.get('name')} {value}", f"{name} {want:g}", "the log has")
    yield from _figures_of(found, s)
    judged, passed = found.get("accuracy"), (s.accuracy_text or "").partition("\n")[0]
    if isinstance(judged, dict) and judged.get("passed") is True and '"passed": true' not in passed:
        yield differs("accuracy.passed", True, shown(passed), "accuracy.txt says")


def _figures_of(found: Mapping[str, Any], s: Subject) -> Iterator[Fault]:
    """Every other figure of result.json, from the log and from what the performance test's worker saw."""
    d, outcome = s.performance.detail, s.performance.outcome or {}
    stated = found.get("metrics")
    metrics: Mapping[str, Any] = stated if isinstance(stated, dict) else {}
    rate = d.number("result_samples_per_second") or d.number("result_qps_without_loadgen_overhead")
    want: dict[str, float | None] = {"samples_per_second": rate}
    samples, batches = counts.batches(s.performance.detail, s.scenario, s.recorded("cell", "batch_size"))
    if rate and samples and batches:
        want["ms_per_step"] = 1000 * samples / batches / rate
    if s.place.scenario != "Offline":
        keys = {"p50": "50.00", "p90": "90.00", "p99": "99.00"}
        latencies = {f"latency_{name}_ms": f"result_{p}_percentile_latency_ns" for name, p in keys.items()}
        latencies["latency_mean_ms"] = "result_mean_latency_ns"
        want |= {name: value / 1e6 for name, key in latencies.items() if name in metrics and (value := d.number(key)) is not None}
    for name, value in want.items():
        told = metrics.get(name)
        if value is not None and not (isinstance(told, int | float) and math.isclose(told, value, rel_tol=1e-6)):
            yield differs(f"metrics.{name}", told, f"{value:g}", "the log makes it")
    told = found.get("measured")
    work: Mapping[str, Any] = told if isinstance(told, dict) else {}
    for name, value in (("samples", samples), ("batches", batches)):
        if value is not None and work.get(name) != value:
            yield differs(f"measured.{name}", work.get(name), value, "the log makes it")
    evidence = found.get("evidence")
    seen = {
        "evidence.after": (evidence.get("after") if isinstance(evidence, dict) else None, outcome.get("evidence_after") or {}),
        "peak_host_bytes": (found.get("peak_host_bytes"), outcome.get("peak_host_bytes")),
        "energy": (found.get("energy"), outcome.get("energy") or {}),
        "disturbance": (found.get("disturbance"), outcome.get("disturbance") or {}),
    }
    for name, (told, saw) in seen.items():
        if told != saw:
            yield differs(name, told, saw, "raw/performance/outcome.json has")
