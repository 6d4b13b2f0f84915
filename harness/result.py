"""Run directory → Result, by compliance's parsers: the one place where figures are made. Nothing is measured here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compliance import audit as audits
from compliance import logs, rules
from compliance.findings.check import Check, Verdict
from compliance.findings.verdict import Audit
from compliance.logs import files
from compliance.scoring import accuracy
from compliance.scoring.tokens import TOKEN_BYTES
from compliance.training.run_directory import passes
from formats.cell import Cell, SweepMark
from formats.job import TESTS, read_job
from formats.outcome import WorkerOutcome
from formats.result import Metric, Result, Status
from harness import disturbance
from harness.comparison.runs import find
from harness.comparison.tables import table
from harness.execution import loadgen_run
from harness.execution.process import read_outcome
from harness.figure import short
from harness.inputs import families
from harness.tree import submission, training
from scenarios.table import SCENARIOS
from sut.registry import packages, recorded_names

__all__ = ["derive", "find", "table"]

_LATENCIES = {
    "mean": "result_mean_latency_ns",
    "p50": "result_50.00_percentile_latency_ns",
    "p90": "result_90.00_percentile_latency_ns",
    "p99": "result_99.00_percentile_latency_ns",
}
# Cause → the checks (ids of compliance/findings/checks.toml) that make a measurement invalid for it, the first cause first. Any other
# failed check is cause "audit".
_CAUSES = {
    "precision": ("performance-precision", "accuracy-precision", "training-precision"),
    "evidence": ("performance-evidence", "accuracy-evidence", "training-evidence"),
    "accuracy": ("accuracy-score", "answers-while-measuring", "training-loss", "training-held-out", "training-while-timed"),
    "kept answers": ("fresh-inputs",),
    "speed": ("plausible-speed", "training-speed", "training-window"),
}


def derive(directory: Path, score: submission.Score | None = None, audit: Audit | None = None) -> Result:
    """The result of a run directory, from its files alone. An earlier result.json is not read.

    Args:
        score: the accuracy, where it has just been computed; None: it is computed from the logs.
        audit: the audit of the directory without its result.json, where there is one already; None: the directory is audited.

    Raises OSError or ValueError where record.json is missing or no JSON.
    """
    record = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    base: dict[str, Any] = {"cell": Cell(**record["cell"]), "mode": record["mode"], "round": record["round"], "directory": str(directory)}
    base |= {"started": record.get("started", ""), "versions": _versions(record["environment"]["versions"])}
    base["sweep"] = SweepMark(**record["sweep"]) if record.get("sweep") else None
    outcomes = {test: read_outcome(directory / "raw" / test) for test in _tests(directory, record)}
    for outcome in outcomes.values():
        if outcome is None or outcome.status != "ok":
            status, reason = (outcome.status, outcome.reason) if outcome else ("error", "not finished")
            figures = _figures(directory, record, outcomes["performance"])
            return Result(**base, status=Status(status), reason=reason, unranked=(f"its status is {status}",), **figures)
    if score is None:
        score = submission.score(directory, record) if _by_loadgen(record) else training.score(directory)
    audit = audits.audit(directory, record["round"], with_result=False) if audit is None else audit
    warnings = [*record["notes"], *_measured_again(directory)]
    return _judged(base | _figures(directory, record, outcomes["performance"]), record, score, audit, warnings)


def _by_loadgen(record: Mapping[str, Any]) -> bool:
    return SCENARIOS[record["cell"]["scenario"]].loadgen


def _versions(installed: Mapping[str, str]) -> dict[str, str]:
    """The installed packages that may change a figure."""
    names = recorded_names(("python", *packages(), *submission.STACK), installed)
    return {package: installed[name] for package, name in names.items()}


def _tests(directory: Path, record: dict[str, Any]) -> tuple[str, ...]:
    """Those a run of this mode has; of a submission the compliance tests too, which do not count in other modes."""
    job, _ = files.attempt(read_job, directory / "raw" / "performance" / "job.json")
    if record["mode"] != "submission" or job is None:
        return TESTS
    return (*TESTS, *loadgen_run.applicable(job, rules.load(record["round"])))


def _judged(values: dict[str, Any], record: dict[str, Any], score: submission.Score, audit: Audit, warnings: list[str]) -> Result:
    """The result of a run whose tests all ended well. `values`: its fields that need no judgement, the figures among them."""
    disturbances, notes = disturbance.sentences(values["disturbance"], record["machine"].get("usable_threads") or 1)
    checks = audit.checks_for(record["mode"])
    cause, reason = _verdict(record["mode"], values, checks)
    if cause in disturbance.BY_CLOCK and disturbances:
        reason = f"{reason}. The test was disturbed, which may be why: {disturbances[0]}"
    judged = isinstance(score, accuracy.Accuracy)
    unranked = [*_unranked(record, values.get("loadgen"), cause, judged), *disturbances]
    return Result(
        **values,
        status=Status.INVALID if cause else Status.OK,
        cause=cause,
        reason=reason,
        accuracy=asdict(score) if isinstance(score, accuracy.Accuracy) else None,
        levels=audit.levels,
        audit={v.value: sum(c.verdict is v for c in checks) for v in Verdict},
        ranked=not unranked,
        unranked=tuple(unranked),
        warnings=(*warnings, *([] if judged else [f"accuracy not judged: {score}"]), *notes),
    )


def _measured_again(directory: Path) -> Iterator[str]:
    """A warning where the performance test is a later one. Only then its job has a calibration that it did not take itself."""
    job, _ = files.attempt(read_job, directory / "raw" / "performance" / "job.json")
    if job and job.calibration is not None:
        attempts = [path.name for path in (directory / "raw").glob("performance.attempt-*")]
        earlier = max(attempts, key=lambda name: int(name.rpartition("-")[2]), default="performance.attempt-1")
        yield (
            "the performance test was measured again: the SUT was so much faster than while calibrating that LoadGen's least duration was "
            f"not reached; the earlier test is in raw/{earlier}"
        )


def _unranked(record: dict[str, Any], loadgen: str | None, cause: str | None, judged: bool) -> Iterator[str]:
    """Why the figure may not stand beside others, a sentence each."""
    if cause:
        yield f"it is invalid ({cause})"
    if _by_loadgen(record) and loadgen != "VALID":
        yield "LoadGen does not call it VALID"
    if not judged:
        yield "nobody could judge its accuracy"
    if record["cell"]["size"] == "tiny":
        yield "size tiny shows that a cell works, and no more"
    if record["digests"]["weights_source"] == "none":
        yield f"{record['cell']['sut']} computes no model"


def _verdict(mode: str, figures: dict[str, Any], checks: list[Check]) -> tuple[str | None, str]:
    """(cause, sentence) of the first thing that is wrong, or (None, "")."""
    failures = [c for c in checks if c.verdict is Verdict.FAIL]
    if mode != "quick" and figures.get("loadgen", "VALID") != "VALID":
        return "loadgen", f"LoadGen: {figures['loadgen']}"
    for cause, ids in _CAUSES.items():
        for check in failures:
            if check.id in ids:
                return cause, f"{check.name}: {check.detail}"
    return ("audit", f"{failures[0].name}: {failures[0].detail}") if failures else (None, "")


def _figures(directory: Path, record: dict[str, Any], performance: WorkerOutcome | None) -> dict[str, Any]:
    """Return the figures of the performance test, even if a later test failed. Empty if the performance test itself did not end well."""
    if performance is None or performance.status != "ok":
        return {}
    figures = (_of_loadgen if _by_loadgen(record) else _of_training)(directory, record, performance)
    return {
        **figures,
        "metrics": figures["metrics"] | _computing(record, performance, figures["metrics"]) | _operators(record, performance),
        "evidence": _evidence(record, performance),
        "seconds": _seconds(record, performance),
        "peak_host_bytes": performance.peak_host_bytes,
        "peak_device_bytes": (performance.evidence_after or {}).get("peak_device_bytes"),
        "energy": dict(performance.energy),
        "disturbance": dict(performance.disturbance),
    }


def _of_loadgen(directory: Path, record: dict[str, Any], performance: WorkerOutcome) -> dict[str, Any]:
    """What LoadGen's log tells."""
    detail = logs.read_detail(directory / "raw" / "performance" / "mlperf_log_detail.txt")
    return {
        "loadgen": _loadgen_verdict(detail),
        "metric": _metric(detail, record["cell"]["scenario"]),
        "metrics": _metrics(detail, record, performance),
        "measured": _measured(detail, record, performance),
    }


def _of_training(directory: Path, record: dict[str, Any], performance: WorkerOutcome) -> dict[str, Any]:
    """What the kept times of the steps tell."""
    steps, figure = training.read_steps(directory), SCENARIOS[record["cell"]["scenario"]].figure
    metrics, samples = training.figures(steps), steps.count * steps.batch_size
    if tokens := record["cell"].get("seq_len"):  # padding among them: it is computed like the others
        metrics["tokens_per_second"] = tokens * metrics["samples_per_second"]
    joules = {f"joules_per_sample_{_word(s)}": j / samples for s, j in performance.energy.get("joules", {}).items()}
    return {
        "metric": Metric(figure.name, metrics[figure.name], figure.unit, figure.higher_is_better),
        "metrics": metrics | joules,
        "measured": {"samples": samples, "batches": steps.count, "padding_fraction": 0},
    }


def _measured(detail: logs.Detail, record: dict[str, Any], performance: WorkerOutcome) -> dict[str, float]:
    """What the figure rests on. A batch that is filled up costs as much as a full one, so the rows without a sample are told."""
    samples, batch = int(performance.answered.get("samples", 0)), record["cell"]["batch_size"]
    batches, loaded = -(-samples // batch), detail.get("effective_performance_sample_count")
    if not samples:
        return {}
    figures = {"samples": samples, "batches": batches, "padding_fraction": 1 - samples / (batches * batch)}
    if loaded and (SCENARIOS[record["cell"]["scenario"]].one_query or detail.get("effective_sample_concatenate_permutation") is True):
        figures["passes"] = samples / loaded  # elsewhere samples are drawn, one more often than another
    if record["new_tokens_per_sample"] is not None:
        figures["tokens"] = performance.answered["payload_bytes"] // TOKEN_BYTES
    return figures


def _loadgen_verdict(detail: logs.Detail) -> str:
    verdict = str(detail.get("result_validity", "no verdict"))
    if verdict == "VALID":
        return verdict
    reasons = [str(r) for r in detail.all("result_invalid_reason") if r]
    if not detail.get("early_stopping_met", True):
        reasons += [str(r) for r in detail.all("early_stopping_result")]
    return ": ".join([verdict, *([" ".join(" ".join(reasons).replace("*", "").split())] if reasons else [])])


def _metric(detail: logs.Detail, scenario: str) -> Metric | None:
    figure = SCENARIOS[scenario].figure
    for key, estimate in figure.estimates.items():
        value = detail.get(key)
        if value or (value == 0 and figure.higher_is_better):  # LoadGen writes a latency of 0 where it has too few queries for its estimate
            return Metric(figure.name, value / figure.divisor, figure.unit, figure.higher_is_better, estimate)
    return None


def _metrics(detail: logs.Detail, record: dict[str, Any], performance: WorkerOutcome) -> dict[str, float]:
    """ms_per_step: the time of one batch, the published benchmark's unit; ms_per_denoising_step is that of a model that makes images in
    steps. Tokens are those answered."""
    rate = detail.get("result_samples_per_second") or detail.get("result_qps_without_loadgen_overhead")
    metrics = {
        f"latency_{name}_ms": detail.get(key) / 1e6
        for name, key in _LATENCIES.items()
        if not SCENARIOS[record["cell"]["scenario"]].one_query and detail.get(key) is not None
    }
    if rate:
        measured = _measured(detail, record, performance)
        batch = measured["samples"] / measured["batches"] if measured else record["cell"]["batch_size"]
        metrics |= {"samples_per_second": float(rate), "ms_per_step": 1000 * batch / rate}
        if steps := record["qsl"].get("denoising_steps"):
            metrics["ms_per_denoising_step"] = metrics["ms_per_step"] / steps
        if "tokens" in measured:
            metrics["tokens_per_second"] = rate * measured["tokens"] / measured["samples"]
    if samples := performance.answered.get("samples"):
        metrics |= {f"joules_per_sample_{_word(s)}": j / samples for s, j in performance.energy.get("joules", {}).items()}
    return metrics


def _computing(record: dict[str, Any], performance: WorkerOutcome, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return how fast the model's matrix products were. Empty if this is not known, or if too few operations are counted.

    `flops_per_second`: the operations of the products with weights, a second; there are more. `matrix_share`: these over the rate of a
    large matrix product of the same framework, as a fraction.
    """
    least, rate, lora = record.get("least_flops"), metrics.get("samples_per_second"), record["cell"].get("lora")
    counted = families.counts_most(record["family"]) and record["digests"]["weights_source"] != "none" and not lora
    if not counted or not least or not rate:
        return {}
    reached = least * rate * (1 if _by_loadgen(record) else passes(lora))
    product = (performance.evidence_after or {}).get("matrix_flops")
    return {"flops_per_second": reached, **({"matrix_share": reached / product} if product else {})}


def _operators(record: dict[str, Any], performance: WorkerOutcome) -> dict[str, float]:
    """Return how many operators Python calls for a batch of an eager SUT. Empty of compiled code, of a training, and where they were not
    counted."""
    after = performance.evidence_after or {}
    batches, called = (after.get("detail", {}).get(name) for name in ("batches", "operators_called"))
    if after.get("graphs") or not batches or called is None or not _by_loadgen(record):
        return {}
    return {"operators_per_batch": called / batches}


def _word(text: str) -> str:
    return text.replace(" ", "_").replace("-", "_")


def _evidence(record: dict[str, Any], performance: WorkerOutcome) -> dict[str, Any]:
    before, after = performance.evidence_before or {}, performance.evidence_after or {}
    graphs, new = after.get("graphs"), (after.get("graphs") or 0) - (before.get("graphs") or 0)
    execution = "eager: no graph" if graphs == 0 else f"{graphs} graph{'s' * (graphs != 1)}"
    if operators := _operators(record, performance):
        execution += f", Python calls {short(operators['operators_per_batch'])} operators a batch"
    if graphs != 0 and _by_loadgen(record):  # of a training it is looked at once, in further steps
        execution += f", {new or 'none'} new while measuring"
    share, remark = after.get("compiled_share"), after.get("detail", {}).get("remark")
    passes = f", {share:.0%} of the forward passes compiled" if share is not None and graphs else ""
    passes += f", {remark}" if remark else ""
    return {"sentence": f"{execution}{passes}; {after.get('precision')}", "after": after}


def _seconds(record: dict[str, Any], performance: WorkerOutcome) -> dict[str, float]:
    """Of each phase. `compile` (of an eager SUT: first calls) is the first batch of each shape less the second.

    With the `total`, to which the phases add up, where the command that made the record measured it too: a test may be kept from an
    earlier command.
    """
    durations_ns = {
        "import": performance.import_ns,
        "load": performance.load_ns,
        "compile" if (performance.evidence_after or {}).get("graphs") else "first calls": sum(
            max(0, w["first_ns"] - w["second_ns"]) for w in performance.warmup
        ),
        "calibration": performance.calibration.get("spent_ns", 0),
        "performance": performance.test_ns,
    }
    seconds: dict[str, float] = {k: v / 1e9 for k, v in durations_ns.items()}
    of_worker = sum(seconds.values())
    seconds |= record["setup_seconds"]
    until_measuring = (performance.test_start_ns - record["started_monotonic_ns"]) / 1e9
    others = dict(record.get("command_seconds", {}))
    if not 0 < until_measuring <= others.get("total", math.inf):  # a test of an earlier command, perhaps of before the machine started
        return seconds
    if total := others.pop("total", None):
        seconds |= {"around the test": max(0.0, others.pop("performance", of_worker) - of_worker), **others}
        seconds |= {"other": max(0.0, total - sum(seconds.values())), "total": total}
    return {**seconds, "until_measuring": until_measuring}
