"""The files of a run directory → its result. All figures are computed here. Nothing is measured and
nothing is read here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from compliance import logs, rules
from compliance.findings.verdict import Audit
from compliance.scoring import official
from compliance.scoring.accuracy import Accuracy
from compliance.sources import Sources
from compliance.training import steps as step_files
from compliance.training.run_directory import passes
from formats.checks import Verdict
from formats.figures import MOST_IN_ONE_PART, NOT_SEEN
from formats.frameworks import ENGINE
from formats.job import TESTS
from formats.outcome import Replicas, WorkerOutcome
from formats.record import Record
from formats.result import Judgement, OfficialScore, Result, Seen, Served, Status
from results import computing, disturbance, engine_notes, figures, notes
from results.computing import Metrics
from results.documents import STACK
from results.figure import short
from scenarios.table import SCENARIOS
from sut.registry import framework_of, packages, recorded_names

# Cause → the checks (ids of compliance/findings/checks.toml) that give this cause if they fail. The
# first cause wins. Any other failed check has the cause "audit".
_TOKEN_VERDICTS = ("early_stopping_ttft_result", "early_stopping_tpot_result")
CAUSES = {
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


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The facts that a result needs and that are in no file of the run.

    Attributes:
        adopted: the end of the name of an environment that the user gave.
        counts_most: whether most operations of the record's architecture are counted.
    """

    adopted: str
    counts_most: bool


def result(sources: Sources, configuration: Configuration, audit: Audit) -> Result:
    """The result of a run.

    Args:
        audit: the audit of the directory without its result.json.
    """
    record = sources.record
    performance = sources.performance
    installed = record.environment.versions
    # The packages that may change a figure.
    names = recorded_names(("python", *packages(), *STACK), installed)
    derived = Result(
        cell=record.cell,
        model_facts=record.model_facts,
        mode=record.mode,
        round=record.round,
        directory=sources.directory,
        started=record.started,
        versions={package: installed[name] for package, name in names.items()},
        sweep=record.sweep,
        replicas=_replicas(sources.outcomes),
        status=Status.ERROR,
        reason="not finished",
    )
    if performance:
        derived = _with_figures(derived, sources, performance, configuration)
    for outcome in sources.outcomes.values():
        if outcome is None or outcome.status != "ok":
            # The result of a run of which one test did not end well, or has no outcome.
            if outcome:
                status = Status(outcome.status)
                derived = replace(
                    derived, status=status, reason=outcome.reason, refused=outcome.refused
                )
            return replace(derived, unranked=(f"its status is {derived.status}",))
    assert performance  # a run without one has failed
    warnings = [*record.notes, *derived.warnings, *notes.measured_again(sources)]
    if performance.in_one_part > MOST_IN_ONE_PART:
        warnings.append(NOT_SEEN.format(share=performance.in_one_part))
    if performance.fresh:
        warnings += notes.prepared(performance.fresh, record.cell.batch_size)
    return _judged(derived, sources, audit, warnings)


def _with_figures(
    derived: Result, sources: Sources, performance: WorkerOutcome, configuration: Configuration
) -> Result:
    """The result with the figures of the performance test, and with notes on them."""
    record = sources.record
    cell = record.cell
    figure = SCENARIOS[cell.scenario].figure
    is_counted = (
        configuration.counts_most and record.digests.weights_source != "none" and not cell.lora
    )
    log = sources.log
    if log:
        made = figures.of_loadgen(log, record, performance, figure, 1 if is_counted else None)
        derived = replace(derived, loadgen=_loadgen_verdict(log))
    elif sources.steps:
        steps = sources.steps
        made = figures.of_training(
            step_files.figures(steps),
            samples=steps.count * steps.batch_size,
            batches=steps.count,
            record=record,
            outcome=performance,
            figure=figure,
            passes=passes(cell.lora) if is_counted else None,
        )
    else:
        raise ValueError("the log or the steps of the performance test cannot be read")
    after = performance.evidence_after
    queue = performance.queue
    metrics = made.metrics
    exceeded = notes.without_share(made.exceeded, metrics, record, configuration.adopted)
    return replace(
        derived,
        metric=made.metric,
        metrics=metrics,
        measured=made.measured,
        binds=computing.binds(metrics),
        evidence=Seen(sentence=_evidence(record, performance, metrics), after=after),
        seconds=_seconds(record, performance),
        peak_host_bytes=performance.peak_host_bytes,
        peak_device_bytes=after.peak_device_bytes if after else None,
        energy=performance.energy,
        disturbance=performance.disturbance,
        serving=Served(search=performance.search, queue=queue) if queue else None,
        warnings=tuple(exceeded),
    )


def _replicas(outcomes: Mapping[str, WorkerOutcome | None]) -> Replicas | None:
    """See `Result.replicas`. None without replicas."""
    of_tests = [outcome.replicas if outcome else None for outcome in outcomes.values()]
    performance, judged = of_tests[: len(TESTS)]
    if performance is None or judged is None:
        return performance
    return replace(performance, accuracy_samples=tuple(each.samples for each in judged.each))


def _judged(derived: Result, sources: Sources, audit: Audit, warnings: list[str]) -> Result:
    """The result of a run whose tests all ended well.

    Args:
        derived: the result with everything that needs no judgement.
    """
    record = sources.record
    score = sources.score
    cell = record.cell
    noise = disturbance.of_others(derived.disturbance, cell, record.execution)
    if derived.replicas and cell.replica_count > 1:
        warnings += [*notes.uneven(derived.replicas), *notes.not_judged(derived.replicas)]
    if record.execution == ENGINE:
        warnings += engine_notes.warnings(derived.seen.detail if derived.seen else {})
        if isinstance(score, Accuracy) and not score.passed:
            warnings.append(
                "the answers may differ because the engine has quantised weights: then give"
                " --sut-option weights=other, and they are not judged"
            )
    warnings += notes.threads_unknown(derived)
    disturbances, remarks = disturbance.sentences(noise, record.threads)
    verdicts = [check.verdict for check in audit.checks_for(record.mode)]
    cause, reason = _verdict(derived, audit)
    if cause == "accuracy" and (agreeing := record.accuracy.agreeing):
        own = f"{framework_of(cell.sut)} in {cell.precision}"
        reason = f"{reason}. {' and '.join(agreeing)} agree in float64, {own} differs"
    if cause == "accuracy" and record.accuracy.known:
        reason = f"{reason}. Known: {'; '.join(record.accuracy.known)}"
    if cause in disturbance.BY_CLOCK and disturbances:
        reason = f"{reason}. The test was disturbed, which may be why: {disturbances[0]}"
    judgement = None
    if isinstance(score, Accuracy):
        judgement = Judgement(**vars(score))
    else:
        warnings.append(f"accuracy not judged: {score}")
    derived = replace(
        derived,
        status=Status.INVALID if cause else Status.OK,
        cause=cause,
        reason=reason,
        accuracy=judgement,
        official=_official(record, sources.accuracy_text),
        levels=audit.levels,
        audit={verdict.value: verdicts.count(verdict) for verdict in Verdict},
        warnings=(*warnings, *remarks),
    )
    unranked = (*_unranked(derived, record), *disturbances)
    return replace(derived, ranked=not unranked, unranked=unranked)


def _official(record: Record, accuracy_text: str) -> OfficialScore | None:
    """The official metric, from accuracy.txt. None: the run is not of an official benchmark."""
    if record.official is None:
        return None
    of_round = rules.load(record.round)
    row = of_round.benchmarks[record.benchmark.official].of(record.cell.scenario)
    line = accuracy_text.partition("\n")[0]
    values = {}
    for name in (*row.accuracy, *row.accuracy_at_most):
        found = re.match(of_round.accuracy_patterns[name], line)
        if found:
            values[name] = float(found[1])
    return OfficialScore(
        benchmark=record.benchmark.official,
        values=values,
        limits=row.accuracy,
        at_most=row.accuracy_at_most,
        line=line,
        passed=not list(official.beyond(values, row)),
        closed=not record.official.not_closed,
        lacks=record.official.lacks,
    )


def _unranked(derived: Result, record: Record) -> Iterator[str]:
    """The reasons why the figure may not be compared with others, a sentence each."""
    if derived.cause:
        yield f"it is invalid ({derived.cause})"
    cell = record.cell
    if SCENARIOS[cell.scenario].loadgen and derived.loadgen != "VALID":
        yield "LoadGen does not call it VALID"
    if derived.accuracy is None:
        yield "its accuracy could not be judged"
    if cell.size == "tiny":
        yield "size tiny only shows that a cell works"
    if record.digests.weights_source == "none":
        yield f"{cell.sut} computes no model"


def _verdict(derived: Result, audit: Audit) -> tuple[str | None, str]:
    """(cause, sentence) of the first fault, or (None, "")."""
    metrics = derived.metrics
    loadgen = derived.loadgen or "VALID"
    serving = derived.serving
    if serving and not serving.queue.kept_up:
        # LoadGen may call such a test VALID, if it is shorter than the limits.
        return "overload", (
            f"{metrics['issued_per_second']:.4g} requests/s arrived and"
            f" {metrics['achieved_per_second']:.4g}/s were answered, so"
            f" {serving.queue.left} requests were left at the end"
        )
    # A rate is only a result if the latencies are within their limits at it.
    required = derived.mode != "quick" or SCENARIOS[derived.cell.scenario].serves
    if required and loadgen != "VALID":
        over = 0.0
        if achieved := metrics.get("achieved_per_second"):
            over = 100 * (1 - metrics["goodput_per_second"] / achieved)
        why = f"INVALID: {over:.3g}% of the requests were over their limits" if over else loadgen
        return "loadgen", f"LoadGen: {why}"
    failures: dict[str, str] = {}
    for check in audit.checks_for(derived.mode):
        if check.verdict is Verdict.FAIL:
            failures.setdefault(check.id, f"{check.name}: {check.detail}")
    for cause, ids in CAUSES.items():
        for check_id, sentence in failures.items():
            if check_id in ids:
                return cause, sentence
    for sentence in failures.values():
        return "audit", sentence
    return None, ""


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


def _evidence(record: Record, performance: WorkerOutcome, metrics: Metrics) -> str:
    """The evidence from after the test in one sentence."""
    before = performance.evidence_before
    after = performance.evidence_after
    if after is None:
        return "there is none"
    if record.execution == ENGINE:
        return engine_notes.sentence(after.detail, performance.calibration)
    facts = ["eager: no graph"]
    if after.graphs:
        facts = [f"{after.graphs} graph{'s' * (after.graphs != 1)}"]
    if "operators_per_pass" in metrics:
        operators = short(metrics["operators_per_pass"])
        facts.append(f"Python calls {operators} operators a forward pass")
    # A training checks it once, in further steps.
    if after.graphs and SCENARIOS[record.cell.scenario].loadgen:
        new = after.graphs - (before.graphs if before else 0)
        facts.append(f"{new or 'none'} new while measuring")
    if after.compiled_share is not None and after.graphs:
        facts.append(f"{after.compiled_share:.0%} of the forward passes compiled")
    if remark := after.detail.get("remark"):
        facts.append(remark)
    return f"{', '.join(facts)}; {after.precision}"


def _seconds(record: Record, performance: WorkerOutcome) -> dict[str, float]:
    """Seconds of each phase. `compile` is the time of the first batch of each shape minus that of
    the second. It is called `compile from cache` if the framework found some of its programs on
    disk, and `first calls` for an eager SUT.

    If the command that wrote the record also measured the test, `total` is included and the phases
    add up to it. A test may also be kept from an earlier command. `import` is not a part of the
    total if an earlier measurement of a sweep did it.
    """
    first_calls = "first calls"
    if figures.compiles(performance):
        first_calls = "compile from cache" if performance.cache_hits else "compile"
    durations_ns = {
        "import": performance.import_ns,
        "load": performance.load_ns,
        first_calls: 1e9 * figures.first_calls_seconds(performance),
        "calibration": performance.calibration.get("spent_ns", 0),
        "finding the rate": sum(1e9 * trial.seconds for trial in performance.search),
        "performance": performance.test_ns,
    }
    seconds: dict[str, float] = {k: v / 1e9 for k, v in durations_ns.items()}
    earlier_s = seconds["import"] if performance.forked > 1 else 0.0
    of_worker = sum(seconds.values()) - earlier_s
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
        seconds["other"] = max(0.0, total + earlier_s - sum(seconds.values()))
        seconds["total"] = total
    return {**seconds, "until_measuring": until_measuring}
