"""Run directory → Result. All figures are computed here, with the parsers of `compliance`. Nothing
is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compliance import audit as audits
from compliance import logs, rules
from compliance.findings.verdict import Audit
from compliance.logs import files
from compliance.scoring import accuracy
from compliance.training import losses
from compliance.training import steps as step_files
from compliance.training.run_directory import passes, read
from formats import computing, figures
from formats.checks import Check, Verdict
from formats.job import ACCURACY, PERFORMANCE, TESTS
from formats.outcome import WorkerOutcome
from formats.record import ENGINE, Record
from formats.result import Result, Status
from harness import disturbance, engine_notes
from harness.comparison.runs import find
from harness.comparison.tables import table
from harness.execution import loadgen_run
from harness.execution.environments import ADOPTED
from harness.execution.process import read_outcome
from harness.figure import short
from harness.inputs import architectures
from harness.submission import inference, official
from scenarios.table import SCENARIOS
from sut.registry import framework_of, packages, recorded_names

__all__ = ["derive", "find", "table"]

# Cause → the checks (ids of compliance/findings/checks.toml) that give this cause if they fail. The
# first cause wins. Any other failed check has the cause "audit".
_TOKEN_VERDICTS = ("early_stopping_ttft_result", "early_stopping_tpot_result")
_CAUSES = {
    "precision": ("performance-precision", "accuracy-precision", "training-precision"),
    "evidence": ("performance-evidence", "accuracy-evidence", "training-evidence"),
    "accuracy": (
        "accuracy-score",
        "answers-while-measuring",
        "training-loss",
        "training-held-out",
        "training-while-timed",
    ),
    "kept answers": ("fresh-inputs",),
    "speed": ("plausible-speed", "training-speed", "training-window"),
    "clock": ("clock",),
}

_UNEVEN = 2.0
"""A replica may work so many times as long on a sample as another one before that is reported."""

_COPIES = 20.0
"""A SUT may prepare a sample so many times as long as a copy takes before that is reported."""


def derive(
    directory: Path, score: inference.Score | None = None, audit: Audit | None = None
) -> Result:
    """The result of a run directory, only from its files. An earlier result.json is not read.

    Args:
        score: the accuracy, if it has just been computed; None: it is computed from the logs.
        audit: the audit of the directory without its result.json, if there is one already; None:
            the directory is audited.

    Raises OSError or ValueError if record.json is missing or contains no record.
    """
    record = files.record(directory / "record.json")
    base: dict[str, Any] = {
        "cell": record.cell,
        "model_facts": record.model_facts,
        "mode": record.mode,
        "round": record.round,
        "directory": str(directory),
        "started": record.started,
        "versions": _versions(record.environment.versions),
        "sweep": record.sweep,
    }
    outcomes = {test: read_outcome(directory / "raw" / test) for test in _tests(directory, record)}
    values = base | _figures(directory, record, outcomes["performance"])
    values["replicas"] = _replicas(outcomes)
    for outcome in outcomes.values():
        if outcome is None or outcome.status != "ok":
            return _failed(values, outcome)
    if score is None:
        score = _score(directory, record)
    if audit is None:
        audit = audits.audit(directory, record.round, with_result=False)
    warnings = [*record.notes, *values.pop("warnings", ()), *_measured_again(directory)]
    performance = outcomes[PERFORMANCE]
    if performance and performance.in_one_part > figures.MOST_IN_ONE_PART:
        warnings.append(figures.NOT_SEEN.format(share=performance.in_one_part))
    if performance:
        warnings += _prepared(performance.fresh, record.cell.batch_size)
    return _judged(directory, values, record, score, audit, warnings)


def _prepared(fresh: Mapping[str, Any], batch_size: int) -> Iterator[str]:
    """Warn if the SUT prepared a sample for longer than it answers one, and far longer than a copy
    takes.
    """
    prepare_ns, copy_ns = fresh.get("prepare_ns", 0.0), fresh.get("copy_ns", 0.0)
    if prepare_ns > max(_COPIES * copy_ns, fresh.get("fresh_ns", 0.0) / batch_size):
        yield (
            f"the SUT prepares a sample for {prepare_ns / 1e6:.3g} ms before the clock starts,"
            f" {prepare_ns / max(1, copy_ns):.0f} times as long as it is copied and longer than it"
            " is answered: prepare may only rename, transpose, cast and pad"
        )


def _replicas(outcomes: Mapping[str, WorkerOutcome | None]) -> dict[str, Any]:
    """See `Result.replicas`. Empty without replicas."""
    of_tests = {test: outcome.replicas for test, outcome in outcomes.items() if outcome}
    performance = of_tests.get(PERFORMANCE)
    if not performance:
        return {}
    judged = of_tests.get(ACCURACY) or {"each": ()}
    samples = [each["samples"] for each in judged["each"]]
    return {**performance, "accuracy_samples": samples}


def _threads_unknown(record: Record, evidence: Mapping[str, Any]) -> Iterator[str]:
    """Warn if nothing shows the threads of the framework that `--threads` requests."""
    detail = evidence["after"].get("detail", {})
    products = detail.get("matrix_products") or {}
    if record.cell.threads and type(products.get("threads")) is not int:
        counted = f"{record.cell.threads} processor{'' if record.cell.threads == 1 else 's'}"
        yield (
            f"{record.cell.sut} does not report the threads of its matrix products; it was"
            f" pinned to {counted}"
        )


def _uneven(replicas: Mapping[str, Any]) -> Iterator[str]:
    """Warn if one replica worked far longer on a sample than another, or had none."""
    each = replicas.get("each", ())
    idle = [number for number, one in enumerate(each) if not one["samples"]]
    if idle:
        yield f"replica {idle[0]} answered no sample of the performance test"
        return
    work = [one["busy"] / one["samples"] for one in each]
    longest, shortest = max(work, default=0.0), min(work, default=0.0)
    if longest > _UNEVEN * shortest:
        slow, fast = work.index(longest), work.index(shortest)
        yield (
            f"replica {slow} worked {longest / shortest:.1f} times as long on a sample as replica"
            f" {fast}; the figure is that of unequal replicas"
        )


def _not_judged(replicas: Mapping[str, Any]) -> Iterator[str]:
    """Warn if the accuracy test did not reach every replica."""
    samples = replicas.get("accuracy_samples", ())
    idle = sum(not each for each in samples)
    if idle:
        yield (
            f"{idle} of {len(samples)} replicas answered no sample of the accuracy test,"
            " because it has fewer batches than replicas; their answers were judged only while"
            " measuring"
        )


def _failed(values: dict[str, Any], outcome: WorkerOutcome | None) -> Result:
    """The result of a run of which one test did not end well, or has no outcome."""
    status, reason = Status.ERROR, "not finished"
    refused: Mapping[str, float] = {}
    if outcome:
        status, reason = Status(outcome.status), outcome.reason
        refused = outcome.refused
    unranked = (f"its status is {status}",)
    return Result(**values, status=status, reason=reason, refused=refused, unranked=unranked)


def _score(directory: Path, record: Record) -> inference.Score:
    if _by_loadgen(record):
        return inference.score(directory, record)
    return losses.stated(read(directory, with_result=False))


def _by_loadgen(record: Record) -> bool:
    return SCENARIOS[record.cell.scenario].loadgen


def _versions(installed: Mapping[str, str]) -> dict[str, str]:
    """The installed packages that may change a figure."""
    names = recorded_names(("python", *packages(), *inference.STACK), installed)
    return {package: installed[name] for package, name in names.items()}


def _tests(directory: Path, record: Record) -> tuple[str, ...]:
    """The tests of a run of this mode. Only a submission includes the compliance tests."""
    job, _ = files.attempt(files.job, directory / "raw" / "performance" / "job.json")
    if record.mode != "submission" or job is None:
        return TESTS
    return (*TESTS, *loadgen_run.applicable(job, rules.load(record.round)))


def _judged(
    directory: Path,
    values: dict[str, Any],
    record: Record,
    score: inference.Score,
    audit: Audit,
    warnings: list[str],
) -> Result:
    """The result of a run whose tests all ended well. `values`: its fields that need no judgement,
    including the figures.
    """
    noise = disturbance.of_others(values["disturbance"], record.cell, record.execution)
    if record.cell.replica_count > 1:
        uneven = _uneven(values["replicas"])
        warnings = [*warnings, *uneven, *_not_judged(values["replicas"])]
    if record.execution == ENGINE:
        warnings = [*warnings, *engine_notes.warnings(values["evidence"])]
        if isinstance(score, accuracy.Accuracy) and not score.passed:
            warnings = [
                *warnings,
                (
                    "the answers may differ because the engine has quantised weights: then give"
                    " --sut-option weights=other, and they are not judged"
                ),
            ]
    warnings = [*warnings, *_threads_unknown(record, values["evidence"])]
    disturbances, notes = disturbance.sentences(noise, record.threads)
    checks = audit.checks_for(record.mode)
    verdicts = [check.verdict for check in checks]
    counts = {verdict.value: verdicts.count(verdict) for verdict in Verdict}
    cause, reason = _verdict(record.mode, values, checks)
    if cause == "accuracy" and (agreeing := record.accuracy.agreeing):
        own = f"{framework_of(record.cell.sut)} in {record.cell.precision}"
        reason = f"{reason}. {' and '.join(agreeing)} agree in float64, {own} differs"
    if cause in disturbance.BY_CLOCK and disturbances:
        reason = f"{reason}. The test was disturbed, which may be why: {disturbances[0]}"
    judgement = None
    if isinstance(score, accuracy.Accuracy):
        judgement = asdict(score)
    else:
        warnings = [*warnings, f"accuracy not judged: {score}"]
    unranked = [*_unranked(record, values.get("loadgen"), cause, bool(judgement)), *disturbances]
    return Result(
        **values,
        status=Status.INVALID if cause else Status.OK,
        cause=cause,
        reason=reason,
        accuracy=judgement,
        official=official.of_result(record, _accuracy_text(directory, record)),
        levels=audit.levels,
        audit=counts,
        ranked=not unranked,
        unranked=tuple(unranked),
        warnings=(*warnings, *notes),
    )


def _accuracy_text(directory: Path, record: Record) -> str:
    """The content of accuracy.txt in the submission. Empty if there is none."""
    paths = sorted(
        directory.glob(f"open/*/results/*/{record.benchmark.name}/*/accuracy/accuracy.txt")
    )
    return paths[0].read_text(encoding="utf-8") if paths else ""


def _measured_again(directory: Path) -> Iterator[str]:
    """Warn if the performance test was measured again with another calibration."""
    job, _ = files.attempt(files.job, directory / "raw" / "performance" / "job.json")
    attempts = (directory / "raw").glob("performance.attempt-*")
    numbers = [int(path.name.rpartition("-")[2]) for path in attempts]
    if job and job.calibration is not None and numbers:
        earlier = f"performance.attempt-{max(numbers)}"
        if job.serving:
            yield (
                "the SUT did not hold the rate that the search found, so a lower one was"
                f" measured; the earlier test is in raw/{earlier}"
            )
        else:
            yield (
                "the performance test was measured again: the SUT was so much faster than"
                " while calibrating that LoadGen's least duration was not reached; the earlier"
                f" test is in raw/{earlier}"
            )


def _unranked(
    record: Record, loadgen: str | None, cause: str | None, judged: bool
) -> Iterator[str]:
    """The reasons why the figure may not be compared with others, a sentence each."""
    if cause:
        yield f"it is invalid ({cause})"
    if _by_loadgen(record) and loadgen != "VALID":
        yield "LoadGen does not call it VALID"
    if not judged:
        yield "its accuracy could not be judged"
    if record.cell.size == "tiny":
        yield "size tiny only shows that a cell works"
    if record.digests.weights_source == "none":
        yield f"{record.cell.sut} computes no model"


def _verdict(mode: str, values: dict[str, Any], checks: list[Check]) -> tuple[str | None, str]:
    """(cause, sentence) of the first fault, or (None, "")."""
    failures = [(c.id, f"{c.name}: {c.detail}") for c in checks if c.verdict is Verdict.FAIL]
    if not values.get("serving", {}).get("queue", {}).get("kept_up", True):
        return "overload", _overload(values["metrics"], values["serving"]["queue"])
    # A rate is only a result if the latencies are within their limits at it.
    required = mode != "quick" or SCENARIOS[values["cell"].scenario].serves
    if required and values.get("loadgen", "VALID") != "VALID":
        metrics = values.get("metrics", {})
        over = 0.0
        if achieved := metrics.get("achieved_per_second"):
            over = 100 * (1 - metrics["goodput_per_second"] / achieved)
        if over:
            return (
                "loadgen",
                f"LoadGen: INVALID: {over:.3g}% of the requests were over their limits",
            )
        return "loadgen", f"LoadGen: {values['loadgen']}"
    for cause, ids in _CAUSES.items():
        for check_id, sentence in failures:
            if check_id in ids:
                return cause, sentence
    if not failures:
        return None, ""
    _, sentence = failures[0]
    return "audit", sentence


def _overload(metrics: Mapping[str, float], queue: Mapping[str, Any]) -> str:
    """Return a sentence on a test in which requests arrived faster than the SUT answers them.
    LoadGen may call such a test VALID, if it is shorter than the limits.
    """
    return (
        f"{metrics['issued_per_second']:.4g} requests/s arrived and"
        f" {metrics['achieved_per_second']:.4g}/s were answered, so {queue['left']} requests"
        " were left at the end"
    )


def _figures(directory: Path, record: Record, performance: WorkerOutcome | None) -> dict[str, Any]:
    """Return the figures of the performance test, even if a later test failed. Empty if the
    performance test itself did not end well.
    """
    if performance is None or performance.status != "ok":
        return {}
    of_test = _of_loadgen if _by_loadgen(record) else _of_training
    made = of_test(directory, record, performance)
    exceeded = made.pop("exceeded")
    return {
        **made,
        "binds": computing.binds(made["metrics"]),
        "warnings": tuple(_without_share(exceeded, made["metrics"], record)),
        "evidence": _evidence(record, performance, made["metrics"]),
        "seconds": _seconds(record, performance),
        "peak_host_bytes": performance.peak_host_bytes,
        "peak_device_bytes": (performance.evidence_after or {}).get("peak_device_bytes"),
        "energy": dict(performance.energy),
        "serving": _serving(performance),
        "disturbance": dict(performance.disturbance),
    }


def _without_share(
    shares: Mapping[str, float], metrics: Mapping[str, float], record: Record
) -> Iterator[str]:
    """Yield why a share of the machine's speed is left out. A share above 1 is an error of the
    limit or of the count.

    Args:
        shares: those above 1, by their names.
    """
    if "bytes_per_second" in metrics and record.roof is None:
        command = "./run.sh doctor --limits"
        if record.environment.name.endswith(ADOPTED):
            command += f" {record.cell.sut} --python {record.environment.python}"
        if record.cell.threads:
            command += f" --threads {record.cell.threads}"
        yield (
            f"no share of the memory bandwidth: {command} measures it, and later runs have the"
            " share"
        )
    if "matrix_share" in shares:
        rate = metrics["flops_per_second"]
        yield (
            f"no share of the matrix rate: the model's {rate / 1e9:,.0f} GFLOP/s are more than"
            f" the {rate / shares['matrix_share'] / 1e9:,.0f} GFLOP/s of a large matrix product"
            " of this framework; either that was measured while other programs ran (./run.sh"
            " doctor --limits --again), or this SUT computes fewer operations than are"
            " counted, or it computes them by another library than that product, as"
            " convolutions may be"
        )
    if "bandwidth_share" in shares:
        rate = metrics["bytes_per_second"]
        limit = rate / shares["bandwidth_share"] / 1e9
        caches = record.machine.caches or "of unknown size"
        yield (
            f"no share of the memory bandwidth: the {rate / 1e9:,.1f} GB/s that the batches"
            f" move are more than the {limit:,.1f} GB/s that this framework reads; either that"
            " was measured while other programs ran (./run.sh doctor --limits --again), or"
            f" weights and activations stay in the processor's caches ({caches})"
        )


def _serving(performance: WorkerOutcome) -> dict[str, Any]:
    """See `Result.serving`. Empty if no requests arrived over time."""
    if not performance.queue:
        return {}
    return {"search": performance.search, "queue": performance.queue}


def _of_loadgen(directory: Path, record: Record, performance: WorkerOutcome) -> dict[str, Any]:
    """The figures of a test with LoadGen, from its log."""
    detail = logs.read_detail(directory / "raw" / "performance" / "mlperf_log_detail.txt")
    figure = SCENARIOS[record.cell.scenario].figure
    made = figures.of_loadgen(detail, record, performance, figure, 1 if _counted(record) else None)
    return {"loadgen": _loadgen_verdict(detail), **vars(made)}


def _of_training(directory: Path, record: Record, performance: WorkerOutcome) -> dict[str, Any]:
    """The figures of a training, from the recorded times of its steps."""
    steps = step_files.read(directory / "raw" / "performance" / "steps.json")
    samples = steps.count * steps.batch_size
    figure = SCENARIOS[record.cell.scenario].figure
    sample_passes = passes(record.cell.lora) if _counted(record) else None
    made = figures.of_training(
        step_files.figures(steps),
        samples=samples,
        batches=steps.count,
        record=record,
        outcome=performance,
        figure=figure,
        passes=sample_passes,
    )
    return dict(vars(made))


def _counted(record: Record) -> bool:
    """True if enough of the model's operations are counted to compute their speed."""
    return (
        architectures.counts_most(record.architecture)
        and record.digests.weights_source != "none"
        and not record.cell.lora
    )


def _loadgen_verdict(detail: logs.Detail) -> str:
    verdict = str(detail.get("result_validity", "no verdict"))
    if verdict == "VALID":
        return verdict
    reasons = [str(r) for r in detail.all("result_invalid_reason") if r]
    if not detail.get("early_stopping_met", True):
        for key in ("early_stopping_result", *_TOKEN_VERDICTS):
            reasons += [str(r) for r in detail.all(key)]
    words = " ".join(reasons).replace("*", "").split()
    return f"{verdict}: {' '.join(words)}" if reasons else verdict


def _evidence(
    record: Record, performance: WorkerOutcome, metrics: Mapping[str, float]
) -> dict[str, Any]:
    before = performance.evidence_before or {}
    after = performance.evidence_after or {}
    if record.execution == ENGINE:
        return {
            "sentence": engine_notes.sentence(after.get("detail", {}), performance.calibration),
            "after": after,
        }
    graphs = after.get("graphs")
    facts = ["eager: no graph" if graphs == 0 else f"{graphs} graph{'s' * (graphs != 1)}"]
    if "operators_per_batch" in metrics:
        operators = short(metrics["operators_per_batch"])
        facts.append(f"Python calls {operators} operators a batch")
    if graphs != 0 and _by_loadgen(record):  # a training checks it once, in further steps
        new = (graphs or 0) - (before.get("graphs") or 0)
        facts.append(f"{new or 'none'} new while measuring")
    share = after.get("compiled_share")
    if share is not None and graphs:
        facts.append(f"{share:.0%} of the forward passes compiled")
    remark = after.get("detail", {}).get("remark")
    if remark:
        facts.append(remark)
    return {"sentence": f"{', '.join(facts)}; {after.get('precision')}", "after": after}


def _first_calls(performance: WorkerOutcome) -> str:
    """What the first calls of all shapes did in the time that the second ones did not take."""
    if not figures.compiles(performance):
        return "first calls"
    return "compile from cache" if performance.cache_hits else "compile"


def _seconds(record: Record, performance: WorkerOutcome) -> dict[str, float]:
    """Seconds of each phase. `compile` is the time of the first batch of each shape minus that of
    the second. It is called `compile from cache` if the framework found some of its programs on
    disk, and `first calls` for an eager SUT.

    If the command that wrote the record also measured the test, `total` is included and the phases
    add up to it. A test may also be kept from an earlier command.
    """
    durations_ns = {
        "import": performance.import_ns,
        "load": performance.load_ns,
        _first_calls(performance): 1e9 * figures.first_calls_seconds(performance),
        "calibration": performance.calibration.get("spent_ns", 0),
        "finding the rate": sum(1e9 * trial["seconds"] for trial in performance.search),
        "performance": performance.test_ns,
    }
    seconds: dict[str, float] = {k: v / 1e9 for k, v in durations_ns.items()}
    of_worker = sum(seconds.values())
    seconds |= record.setup_seconds
    until_measuring = (performance.test_start_ns - record.started_monotonic_ns) / 1e9
    others = dict(record.command_seconds)
    # The test is of an earlier command, perhaps from before the machine started.
    if not 0 < until_measuring <= others.get("total", math.inf):
        return seconds
    total = others.pop("total", None)
    if total:
        whole_test = others.pop("performance", of_worker)
        seconds["around the test"] = max(0.0, whole_test - of_worker)
        seconds |= others
        seconds["other"] = max(0.0, total - sum(seconds.values()))
        seconds["total"] = total
    return {**seconds, "until_measuring": until_measuring}
