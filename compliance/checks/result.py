"""This check compares the workers' outcomes with the logs, and result.json with its sources: record.json, outcomes and logs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, mismatch, not_applicable, shorten
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject

_TOKEN_BYTES = 4
# scenario → the figure of result.json: its name, and the keys it may come from with the factor between their units. The first key that
# is not 0 counts.
_FIGURES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "Offline": ("samples_per_second", {"result_samples_per_second": 1}),
    "SingleStream": ("latency_p90", {"early_stopping_latency_ss": 1e-6, "result_90.00_percentile_latency_ns": 1e-6}),
}


def check(subject: Subject) -> Check:
    """The check of every worker's outcome, and of result.json."""
    if subject.record is None:
        return not_applicable("outcomes-and-result", subject.no_record)
    outcomes = (fault for test in (*subject.tests, *subject.compliance.values()) for fault in _outcome(test, subject))
    good = "every worker answered and took what its log says, whose figure is the result's"
    return judge("outcomes-and-result", [*outcomes, *_result(subject)], good, fix=fixes.RUN)


def _outcome(test: LoadGenRun, subject: Subject) -> Iterator[Fault]:
    """A sentence for each worker's outcome that contradicts its log. `worker-outcomes` judges one that did not end well."""
    outcome, file = test.outcome or {}, f"raw/{test.name}/outcome.json"
    if outcome.get("status") != "ok":
        return
    work, samples = outcome.get("answered"), _issued_samples(test, subject.scenario)
    count = work.get("samples") if isinstance(work, dict) else None
    if samples is not None and count != samples:
        yield mismatch(f"{test.name}: answered.samples", repr(count), f"{samples:.0f}", "LoadGen issued", file=file)
    test_ns, logged = outcome.get("test_ns"), _logged_ms(test)
    if logged is None:
        return
    slack = subject.rules.project_limits.outcome_slack
    most = logged * (1 + slack["fraction"]) + 1e3 * slack["seconds"]
    if not isinstance(test_ns, int | float) or not logged <= test_ns / 1e6 <= most:
        expected = f"{logged * 1e6:.0f} to {most * 1e6:.0f}"
        yield mismatch(f"{test.name}: test_ns", shorten(repr(test_ns)), expected, "the log's own time makes it", file=file)


def _issued_samples(test: LoadGenRun, scenario: str) -> float | None:
    """The samples a test issued, by its log; None: the log does not say."""
    return test.detail.number("effective_accuracy_sample_count") if test.name == "accuracy" else counts.samples(test.detail, scenario)


def _logged_ms(test: LoadGenRun) -> float | None:
    """The time of the log's last entry, in milliseconds; None: no entry has one."""
    times = [line.time_ms for lines in test.detail.occurrences.values() for line in lines if math.isfinite(line.time_ms)]
    return max(times, default=None)


def _result(subject: Subject) -> Iterator[Fault]:
    """A sentence for each place where result.json contradicts record and log. result.json is written after the audit, with its counts."""
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
    verdict, result_verdict = shorten(detail.get("result_validity")), result.get("loadgen")
    if result_verdict is not None and shorten(result_verdict).partition(":")[0] != verdict:
        yield mismatch("loadgen", repr(result_verdict), verdict, "the log says")
    metric = _table(result, "metric")
    name, keys = _FIGURES.get(subject.place.scenario, ("", {}))
    expected = next((value * unit for key, unit in keys.items() if (value := detail.number(key))), None)
    value = metric.get("value")
    same = isinstance(value, int | float) and expected is not None and math.isclose(value, expected, rel_tol=1e-6)
    if expected is not None and (metric.get("name") != name or not same):
        yield mismatch("metric", f"{metric.get('name')} {value}", f"{name} {expected:g}", "the log has")
    yield from _result_figures(result, subject)
    score, score_line = result.get("accuracy"), (subject.accuracy_text or "").partition("\n")[0]
    if isinstance(score, dict) and score.get("passed") is True and '"passed": true' not in score_line:
        yield mismatch("accuracy.passed", True, shorten(score_line), "accuracy.txt says")


def _result_figures(result: Mapping[str, Any], subject: Subject) -> Iterator[Fault]:
    """Other figures of result.json that are not those of the log or of the performance test's worker."""
    detail, metrics, work = subject.performance.detail, _table(result, "metrics"), _table(result, "measured")
    rate = detail.number("result_samples_per_second") or detail.number("result_qps_without_loadgen_overhead")
    samples, batches = counts.batches(detail, subject.scenario, subject.recorded("cell", "batch_size"))
    expected: dict[str, float | None] = {"samples_per_second": rate}
    if rate and samples and batches:
        expected["ms_per_step"] = ms = 1000 * samples / batches / rate
        steps = subject.recorded("qsl", "denoising_steps")
        if type(steps) is int and steps > 0:
            expected["ms_per_denoising_step"] = ms / steps
    for name, value in (expected | _latencies(metrics, subject)).items():
        figure = metrics.get(name)
        if value is not None and not (isinstance(figure, int | float) and math.isclose(figure, value, rel_tol=1e-6)):
            yield mismatch(f"metrics.{name}", figure, f"{value:g}", "the log makes it")
    for name, value in _computing(subject, rate).items():
        if name in metrics and (value is None or not _close(metrics[name], value)):
            yield mismatch(f"metrics.{name}", metrics[name], value, "record, log and outcome make it")
    expected_work = _work(subject, samples, batches)
    for name, value in expected_work.items():
        if not _close(work.get(name), value):
            yield mismatch(f"measured.{name}", work.get(name), value, "log and outcome make it")
    tokens = expected_work.get("tokens")
    if rate and samples and tokens is not None and not _close(metrics.get("tokens_per_second"), rate * tokens / samples):
        expected_rate = f"{rate * tokens / samples:g}"
        yield mismatch("metrics.tokens_per_second", metrics.get("tokens_per_second"), expected_rate, "log and outcome make it")
    if result.get("ranked") is True and (why := _unranked(result, subject)):
        yield Fault(f"ranked is true, and {why}", "false", "true")
    yield from _worker_figures(result, subject.performance.outcome or {})


def _table(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table under `name`; empty where there is none."""
    table = result.get(name)
    return table if isinstance(table, dict) else {}


def _latencies(metrics: Mapping[str, Any], subject: Subject) -> dict[str, float]:
    """Name in `metrics` → the latency of the log in milliseconds, of those that are stated. Offline has none."""
    if subject.place.scenario == "Offline":
        return {}
    keys = {f"latency_{name}_ms": f"result_{p}_percentile_latency_ns" for name, p in (("p50", "50.00"), ("p90", "90.00"), ("p99", "99.00"))}
    keys["latency_mean_ms"] = "result_mean_latency_ns"
    detail = subject.performance.detail
    return {name: value / 1e6 for name, key in keys.items() if name in metrics and (value := detail.number(key)) is not None}


def _computing(subject: Subject, rate: float | None) -> dict[str, float | None]:
    """Name in `metrics` → how fast operations were, their share of a large product's, and Python's operators for a batch.

    None if log, record and outcome do not make it.
    """
    least, evidence = subject.recorded("least_flops"), _table(subject.performance.outcome or {}, "evidence_after")
    product, detail = evidence.get("matrix_flops"), _table(evidence, "detail")
    called, watched = detail.get("operators_called"), detail.get("batches")
    reached = least * rate if rate and isinstance(least, int | float) else None
    share = reached / product if reached and isinstance(product, int | float) and product > 0 else None
    operators = called / watched if isinstance(called, int) and isinstance(watched, int) and watched > 0 else None
    return {"flops_per_second": reached, "matrix_share": share, "operators_per_batch": operators}


def _worker_figures(result: Mapping[str, Any], outcome: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each value that result.json copies from the worker's outcome, if the copy differs."""
    pairs = {
        "evidence.after": (_table(result, "evidence").get("after"), outcome.get("evidence_after") or {}),
        "peak_host_bytes": (result.get("peak_host_bytes"), outcome.get("peak_host_bytes")),
        "energy": (result.get("energy"), outcome.get("energy") or {}),
        "disturbance": (result.get("disturbance"), outcome.get("disturbance") or {}),
    }
    for name, (result_value, worker_value) in pairs.items():
        if result_value != worker_value:
            yield mismatch(name, result_value, worker_value, "raw/performance/outcome.json has")


def _work(subject: Subject, samples: int | None, batches: int | None) -> dict[str, float]:
    """Compute the `measured` figures of result.json from log, record and outcome: samples, batches, padding, passes and tokens.

    A figure that these three do not give is left out. Empty if the log has no count of samples, or the record no batch size.
    """
    size, detail = subject.recorded("cell", "batch_size"), subject.performance.detail
    if not samples or not batches:
        return {}
    expected: dict[str, float] = {"samples": samples, "batches": batches, "padding_fraction": 1 - samples / (batches * size)}
    loaded = detail.number("effective_performance_sample_count")
    if loaded and (subject.scenario == "Offline" or detail.get("effective_sample_concatenate_permutation") is True):
        expected["passes"] = samples / loaded
    work = (subject.performance.outcome or {}).get("answered")
    payload = work.get("payload_bytes") if isinstance(work, dict) else None
    if subject.recorded("cell", "task") == "generate" and type(payload) is int:
        expected["tokens"] = payload // _TOKEN_BYTES
    return expected


def _close(figure: Any, value: float) -> bool:
    return isinstance(figure, int | float) and math.isclose(figure, value, rel_tol=1e-6, abs_tol=1e-12)


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
