"""Whether the tree, the workers' outcomes and result.json agree with record.json and the logs, from which they were made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, mismatch, not_applicable, shorten
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import BARE, LoadGenRun, Subject, measurements_file

_NO_RECORD = "a submission without a run directory around it: there is no record.json to compare with"
_JOB = "raw/performance/job.json"
# The fields of job.json that the performance and the accuracy test share.
_SAME = ("sut", "family", "workload", "scenario", "benchmark", "answer", "inputs", "made_with")
_UNREAD = "record.json, which it is compared with, cannot be read"
_IDS = ("system-of-the-record", "measurements-of-the-record", "outcomes-and-result")
_MADE = "put back what the run wrote, or measure again"
_UNTOLD = ("N/A", "none")
_TOKEN_BYTES = 4
_HELD = {"tf32": "float32"}
# scenario → the figure of result.json: its name, and the keys it may come from with the factor between their units. The first key that
# is not 0 counts.
_FIGURES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "Offline": ("samples_per_second", {"result_samples_per_second": 1}),
    "SingleStream": ("latency_p90", {"early_stopping_latency_ss": 1e-6, "result_90.00_percentile_latency_ns": 1e-6}),
}


def checks(subject: Subject) -> list[Check]:
    """The checks of the system description, measurements.json, outcomes and result.json against record.json."""
    if subject.record is None:
        return [not_applicable(check_id, _UNREAD if subject.place.run else _NO_RECORD) for check_id in _IDS]
    system = subject.place.show(subject.place.submitter_folder / subject.rules.layout.system.format(system=subject.place.system))
    rows = [
        ("system-of-the-record", [*_folders(subject), *_system(subject)], "the machine, SUT and submitter that were recorded", system),
        (
            "measurements-of-the-record",
            _measurements(subject),
            "data types and weights that were recorded",
            subject.place.show(measurements_file(subject.place, subject.rules)),
        ),
        (
            "outcomes-and-result",
            [*(fault for test in (*subject.tests, *subject.compliance.values()) for fault in _outcome(test, subject)), *_result(subject)],
            "every worker answered and took what its log says, whose figure is the result's",
            "",
        ),
    ]
    return [judge(check_id, faults, good, file=file, fix=_MADE) for check_id, faults, good, file in rows]


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
    for keys, want in expected.items():
        if subject.recorded(*keys) is None or subject.recorded(*keys) != want:
            yield mismatch(".".join(keys), repr(subject.recorded(*keys)), repr(want), "logs and folders say")
    for short, whole in (("weights", "weights"), ("dataset", "inputs")):
        value, digest = subject.recorded("cell", short), subject.recorded("digests", whole)
        if value not in ("seeded", "synthetic") and not (isinstance(value, str) and value and str(digest).startswith(value)):
            begins = repr(str(digest)[:16])
            text = f"cell.{short} is {shorten(repr(value))} and digests.{whole} {begins}; the one begins the other"
            yield Fault(text, f"what {begins} begins with", shorten(repr(value)))
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
            found = shorten(repr(workload.get(key))) if isinstance(workload, dict) else "no workload"
            yield Fault(f"job.json: workload.{key} is not the cell's {expected}", expected, found, _JOB)
    if first.get("sut") != subject.recorded("cell", "sut"):
        found, expected = shorten(repr(first.get("sut"))), shorten(repr(subject.recorded("cell", "sut")))
        yield Fault(f"job.json: sut is {found}, the cell's {expected}", expected, found, _JOB)
    if not isinstance(workload, dict) or workload.get("execution") != subject.recorded("execution"):
        expected = shorten(repr(subject.recorded("execution")))
        found = shorten(repr(workload.get("execution"))) if isinstance(workload, dict) else "no workload"
        yield Fault(f"job.json: workload.execution is not record.json's {expected}", expected, found, _JOB)
    for test, job in ((subject.performance, first), *others):
        if job.get("test") != test.name:
            found, file = shorten(repr(job.get("test"))), f"raw/{test.name}/job.json"
            yield Fault(f"{file} is of the test {found}", repr(test.name), found, file)


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
    found = subject.recorded("machine", "accelerators")
    if subject.recorded("cell", "device") != "cuda" or not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return {}
    return found[0]


def _system(subject: Subject) -> Iterator[Fault]:
    """Fields of the system description that are not what the record says. "N/A" in a field of the host says nothing."""
    if subject.system is None:
        return
    for key, expected in _described(subject).items():
        found = str(subject.system.get(key))
        if found != expected and not (found == "N/A" and not key.startswith("accelerator")):
            yield mismatch(key, repr(found), repr(expected), "record.json says")
    framework = str(subject.system.get("framework"))
    sut, _, stack = framework.partition(": ")
    versions = subject.recorded("environment", "versions")
    known = {f"{name} {version}" for name, version in versions.items()} if isinstance(versions, dict) else set()
    if framework != "N/A" and (sut != subject.recorded("cell", "sut") or not set(filter(None, stack.split(", "))) <= known):
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
    stated, precision = subject.measurements or {}, str(subject.recorded("cell", "precision"))
    wanted = {"input_data_types": subject.rules.project_limits.input_data_types, "weight_data_types": _HELD.get(precision, precision)}
    for key, expected in wanted.items():
        if key in stated and stated[key] != expected:
            yield mismatch(key, repr(stated[key]), repr(expected), "the run has")
    weights, digest = stated.get("starting_weights_filename"), str(subject.recorded("digests", "weights"))
    if weights is not None and weights not in _UNTOLD and digest not in str(weights):
        yield mismatch("starting_weights_filename", repr(weights), f"weights of sha256 {digest}", "record.json says")


def _issued_samples(test: LoadGenRun, scenario: str) -> float | None:
    """The samples a test issued, by its log; None: the log does not say."""
    return test.detail.number("effective_accuracy_sample_count") if test.name == "accuracy" else counts.samples(test.detail, scenario)


def _close(stated: Any, value: float) -> bool:
    return isinstance(stated, int | float) and math.isclose(stated, value, rel_tol=1e-6, abs_tol=1e-12)


def _work(subject: Subject, samples: int | None, batches: int | None) -> dict[str, float]:
    """What the figure rests on, as log and outcome make it; empty where they do not tell."""
    size, detail = subject.recorded("cell", "batch_size"), subject.performance.detail
    if not samples or not batches:
        return {}
    expected: dict[str, float] = {"samples": samples, "batches": batches, "padding_fraction": 1 - samples / (batches * size)}
    loaded = detail.number("effective_performance_sample_count")
    if loaded and (subject.scenario == "Offline" or detail.get("effective_sample_concatenate_permutation") is True):
        expected["passes"] = samples / loaded
    answered = (subject.performance.outcome or {}).get("answered")
    payload = answered.get("payload_bytes") if isinstance(answered, dict) else None
    if subject.recorded("cell", "task") == "generate" and type(payload) is int:
        expected["tokens"] = payload // _TOKEN_BYTES
    return expected


def _unranked(result: Mapping[str, Any], subject: Subject) -> str:
    """Why the figure may stand beside no other, as far as files show; empty: they show nothing."""
    if subject.recorded("cell", "size") == "tiny":
        return "size tiny shows that a cell works, and no more"
    if subject.recorded("digests", "weights_source") == "none":
        return "the SUT reads no weights"
    if subject.performance.detail.get("result_validity") != "VALID":
        return "LoadGen does not call it VALID"
    if not isinstance(result.get("accuracy"), dict):
        return "nobody judged its accuracy"
    return "unranked names reasons against it" if result.get("unranked") else ""


def _end_tokens(subject: Subject) -> list[Any]:
    """The ids at which an answer ended, as the worker was told."""
    workload = (subject.performance.job or {}).get("workload")
    config = workload.get("config") if isinstance(workload, dict) else None
    found = config.get("end_tokens", []) if isinstance(config, dict) else []
    return found if isinstance(found, list) else []


def _outcome(test: LoadGenRun, subject: Subject) -> Iterator[Fault]:
    """Where a worker's outcome contradicts its log. One that did not end well is the business of `worker-outcomes`."""
    outcome, file = test.outcome or {}, f"raw/{test.name}/outcome.json"
    if outcome.get("status") != "ok":
        return
    answered, issued = outcome.get("answered"), _issued_samples(test, subject.scenario)
    count = answered.get("samples") if isinstance(answered, dict) else None
    if issued is not None and count != issued:
        yield mismatch(f"{test.name}: answered.samples", repr(count), f"{issued:.0f}", "LoadGen issued", file=file)
    spent, logged = outcome.get("test_ns"), _logged_ms(test)
    if logged is None:
        return
    slack = subject.rules.project_limits.outcome_slack
    most = logged * (1 + slack["fraction"]) + 1e3 * slack["seconds"]
    if not isinstance(spent, int | float) or not logged <= spent / 1e6 <= most:
        expected = f"{logged * 1e6:.0f} to {most * 1e6:.0f}"
        yield mismatch(f"{test.name}: test_ns", shorten(repr(spent)), expected, "the log's own time makes it", file=file)


def _logged_ms(test: LoadGenRun) -> float | None:
    """The time of the log's last entry, in milliseconds; None: no entry has one."""
    times = [line.time_ms for lines in test.detail.occurrences.values() for line in lines if math.isfinite(line.time_ms)]
    return max(times, default=None)


def _result(subject: Subject) -> Iterator[Fault]:
    """Where result.json contradicts record and log. It has no check of its own: it is written after the audit, with its counts."""
    path = subject.place.result
    if path and (path.exists() or path.is_symlink()):
        result, why = files.attempt(files.json_object, path)
        faults = [Fault(why)] if result is None else _contradictions(result, subject)
        yield from (replace(fault, text=f"result.json: {fault.text}", file="result.json") for fault in faults)


def _contradictions(result: Mapping[str, Any], subject: Subject) -> Iterator[Fault]:
    for key in ("cell", "mode", "round"):
        if result.get(key) != subject.recorded(key):
            yield mismatch(key, repr(result.get(key)), repr(subject.recorded(key)), "record.json has")
    detail = subject.performance.detail
    verdict, stated = shorten(detail.get("result_validity")), result.get("loadgen")
    if stated is not None and shorten(stated).partition(":")[0] != verdict:
        yield mismatch("loadgen", repr(stated), verdict, "the log says")
    stated_metric = result.get("metric")
    metric: Mapping[str, Any] = stated_metric if isinstance(stated_metric, dict) else {}
    name, keys = _FIGURES.get(subject.place.scenario, ("", {}))
    expected = next((value * unit for key, unit in keys.items() if (value := detail.number(key))), None)
    value = metric.get("value")
    same = isinstance(value, int | float) and expected is not None and math.isclose(value, expected, rel_tol=1e-6)
    if expected is not None and (metric.get("name") != name or not same):
        yield mismatch("metric", f"{metric.get('name')} {value}", f"{name} {expected:g}", "the log has")
    yield from _result_figures(result, subject)
    judged, passed = result.get("accuracy"), (subject.accuracy_text or "").partition("\n")[0]
    if isinstance(judged, dict) and judged.get("passed") is True and '"passed": true' not in passed:
        yield mismatch("accuracy.passed", True, shorten(passed), "accuracy.txt says")


def _result_figures(result: Mapping[str, Any], subject: Subject) -> Iterator[Fault]:
    """Other figures of result.json that are not those of the log or of the performance test's worker."""
    detail, outcome = subject.performance.detail, subject.performance.outcome or {}
    stated = result.get("metrics")
    metrics: Mapping[str, Any] = stated if isinstance(stated, dict) else {}
    rate = detail.number("result_samples_per_second") or detail.number("result_qps_without_loadgen_overhead")
    expected: dict[str, float | None] = {"samples_per_second": rate}
    samples, batches = counts.batches(subject.performance.detail, subject.scenario, subject.recorded("cell", "batch_size"))
    if rate and samples and batches:
        expected["ms_per_step"] = 1000 * samples / batches / rate
    if subject.place.scenario != "Offline":
        keys = {"p50": "50.00", "p90": "90.00", "p99": "99.00"}
        latencies = {f"latency_{name}_ms": f"result_{p}_percentile_latency_ns" for name, p in keys.items()}
        latencies["latency_mean_ms"] = "result_mean_latency_ns"
        expected |= {name: value / 1e6 for name, key in latencies.items() if name in metrics and (value := detail.number(key)) is not None}
    for name, value in expected.items():
        stated_value = metrics.get(name)
        if value is not None and not (isinstance(stated_value, int | float) and math.isclose(stated_value, value, rel_tol=1e-6)):
            yield mismatch(f"metrics.{name}", stated_value, f"{value:g}", "the log makes it")
    stated_value = result.get("measured")
    work: Mapping[str, Any] = stated_value if isinstance(stated_value, dict) else {}
    made = _work(subject, samples, batches)
    for name, value in made.items():
        if not _close(work.get(name), value):
            yield mismatch(f"measured.{name}", work.get(name), value, "log and outcome make it")
    tokens = made.get("tokens")
    if rate and samples and tokens is not None and not _close(metrics.get("tokens_per_second"), rate * tokens / samples):
        yield mismatch(
            "metrics.tokens_per_second", metrics.get("tokens_per_second"), f"{rate * tokens / samples:g}", "log and outcome make it"
        )
    if result.get("ranked") is True and (why := _unranked(result, subject)):
        yield Fault(f"ranked is true, and {why}", "false", "true")
    evidence = result.get("evidence")
    seen = {
        "evidence.after": (evidence.get("after") if isinstance(evidence, dict) else None, outcome.get("evidence_after") or {}),
        "peak_host_bytes": (result.get("peak_host_bytes"), outcome.get("peak_host_bytes")),
        "energy": (result.get("energy"), outcome.get("energy") or {}),
        "disturbance": (result.get("disturbance"), outcome.get("disturbance") or {}),
    }
    for name, (stated_value, worker_value) in seen.items():
        if stated_value != worker_value:
            yield mismatch(name, stated_value, worker_value, "raw/performance/outcome.json has")
