"""The procedures of a worker with a loaded SUT: a LoadGen test, the computing of a reference, a
training, serving, a profile, and the count of the work of a sample.

A job names its procedure.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.job import (
    ACCURACY,
    COUNT,
    LOADGEN,
    PERFORMANCE,
    PROFILE,
    REFERENCE,
    SERVE,
    Calibration,
    Job,
    Settings,
)
from formats.outcome import Energy, Fields, Fresh, Plan, QueueSummary, Trial
from formats.writing import read_json, write_json
from scenarios.table import SCENARIOS
from scenarios.worker import fit, preflight, profile, reference, serving, work
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat, hang_limit_s
from scenarios.worker.queries import batching, engine, teacher_forcing
from scenarios.worker.queries.answers import TOKENS
from scenarios.worker.queries.qsl import Qsl, shuffled
from scenarios.worker.rates import rate_search, saturation
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.system import counters, disturbance
from scenarios.worker.watch import Watch
from scenarios.worker.watching import evidence, fresh_inputs
from sut.contract import Inference

Procedure = Callable[[Job, Any, Heartbeat, float], Fields]
"""(job, loaded SUT, heartbeat, nanoseconds of the slowest batch while warming up) → its fields.
The SUT is warm, except for a `Training`, for `serve` and for `work`.
"""

OWN_ROWS = 64
"""The number of answers whose tokens are compared with the SUT's own logits.
compliance.scoring.own_choice has the same number.
"""

_WINDOWS, _AGREE = 7, 1.05


def loadgen_test(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Calibrate, run one LoadGen test that writes into job.log_dir, and report its cost."""
    from scenarios.worker import loadgen  # a reference needs no LoadGen

    is_timed = job.test == PERFORMANCE
    scenario = SCENARIOS[job.scenario].load()
    qsl = _library(sut, job.inputs)
    calibration, trials = _calibrated(job, sut, scenario, beat, slowest_ns)
    settings = loadgen.settings(job, scenario.user_conf(job, calibration, sut.in_flight))
    hang_s = _hang_limit_s(calibration, sut)
    plan = _plan(job, scenario, qsl.count, settings, calibration)
    watch = Watch(plan.samples if is_timed else 0, job.limits.performance_sample_count)
    respond = loadgen.responder(beat, watch, counts_tokens=job.stream)
    issue, flush = scenario.callbacks(sut, qsl, respond, job, watch)
    loadgen.write_user_conf(job, settings)
    loadgen.write_audit_config(job)
    # A profiler of a GPU may take a minute to start and to read.
    beat.enter("evidence", LOAD_LIMIT_S)
    taker: Any = sut
    if not isinstance(sut, Replicated):
        taker = evidence.taker(job, sut, beat, hang_s, calibration["slowest_batch_ns"])
    taker.begin()
    beat.enter("test", hang_s, plan.samples)
    fields = _timed(
        lambda: loadgen.run(job, settings, qsl, issue, flush, plan.trace), job, watch, calibration
    )
    if qsl.changed:
        raise ValueError(
            f"the SUT wrote into its inputs while it was measured ({', '.join(qsl.changed)}); let"
            " predict work on copies"
        )
    beat.enter("evidence", LOAD_LIMIT_S)
    before, after = taker.end(_requests(watch))
    if job.test == ACCURACY and job.logits_rows and job.reference:
        write_logits(job, sut, beat)
    if is_timed:
        fields |= _look_back(job, sut, qsl, watch, beat, hang_s)
    fresh = fields.get("fresh")
    fields["disturbance"] = dataclasses.replace(
        fields["disturbance"],
        fresh_slower=fresh.slower if fresh and fresh_inputs.doubtful(fresh) else None,
        threads=evidence.threads(after),
    )
    answer_bytes = watch.payload_bytes / max(1, watch.samples)
    return {
        **fields,
        "calibration": {**calibration, "answer_bytes": answer_bytes},
        "search": trials,
        "token_latencies": watch.token_latencies(),
        "in_one_part": watch.share_in_one_part,
        "plan": plan,
        "answered": {"samples": watch.samples, "payload_bytes": watch.payload_bytes},
        "evidence_before": before,
        "evidence_after": after,
        "replicas": sut.report() if isinstance(sut, Replicated) else None,
    }


def _timed(run: Callable[[], None], job: Job, watch: Watch, calibration: Calibration) -> Fields:
    """Run the test. Return its time, its energy, its disturbances and its queue."""
    device = job.workload.device
    energy_before, load_before = counters.read(device), disturbance.read()
    ahead_ns = disturbance.calendar_ahead_ns()
    monotonic_ns, start = time.monotonic_ns(), _clock()
    batching.answer_while(watch.queue, run)
    test_ns = _clock() - start
    clock_step_ns = disturbance.calendar_ahead_ns() - ahead_ns
    queue = _queue(job, watch, calibration)
    disturbances = disturbance.between(
        load_before,
        disturbance.read(),
        test_ns / 1e9,
        # Between requests nothing is answered.
        np.zeros(0, np.int64) if job.serves else watch.gaps_ns(),
        calibration["slowest_batch_ns"],
        clock_step_ns,
    )
    energy = counters.between(energy_before, counters.read(device))
    if job.launch:
        energy = Energy({}, {"nodes": "replicas of a cluster may be on other machines"})
    return {
        "test_start_ns": monotonic_ns,
        "test_ns": test_ns,
        "queue": queue,
        "energy": energy,
        "disturbance": disturbances,
    }


def _calibrated(
    job: Job, sut: Inference, scenario: Any, beat: Heartbeat, slowest_ns: float
) -> tuple[Calibration, tuple[Trial, ...]]:
    """Return (calibration, trials of the search of a rate). The calibration of Server has the rate.

    Raises Refused if the performance test could not be valid.
    """
    if job.test == PERFORMANCE:
        preflight.check_answers(job)
    calibration = job.calibration or calibrate(job, sut, scenario, beat, slowest_ns)
    if isinstance(sut, engine.EngineSut):
        sut.at_once = int(calibration.get("in_flight", 1))
    if job.test == PERFORMANCE:
        preflight.check_rival(calibration["median_sample_ns"], job)
    if not job.serves or "rate" in calibration:
        return calibration, ()
    if job.cell.rate:
        return {**calibration, "rate": job.cell.rate}, ()
    rate, trials = _find_rate(job, sut, scenario, beat, calibration)
    return {**calibration, "rate": rate}, trials


def _queue(job: Job, watch: Watch, calibration: Calibration) -> QueueSummary | None:
    """Summarise the queue of a test of Server. Other scenarios have none."""
    if not (watch.queue and watch.limited):
        return None
    record, limited = watch.queue.record, watch.limited
    summary = batching.summary(record)
    if summary is None:
        return None
    capacity = 1e9 / calibration["median_sample_ns"]
    return dataclasses.replace(
        summary,
        left=limited.left,
        kept_up=rate_search.kept_up(limited, record, job, calibration["rate"], capacity),
        good_fraction=1 - limited.bad / max(1, limited.answered),
    )


def _library(sut: Inference, path: Path, start: int = 0) -> Any:
    """The samples of a file, from row `start` on: in this process, or in every replica."""
    if isinstance(sut, Replicated):
        return sut.library(path, start)
    return Qsl(path, sut.prepare, start)


def _find_rate(
    job: Job, sut: Inference, scenario: Any, beat: Heartbeat, calibration: Calibration
) -> tuple[float, tuple[Trial, ...]]:
    """Return (the highest rate within the limits, the trials that found it). Raises Refused if no
    rate is.
    """
    from scenarios.worker import loadgen

    capacity = 1e9 / calibration["median_sample_ns"]
    at_capacity = scenario.user_conf(job, {**calibration, "rate": capacity}, sut.in_flight)
    settings = loadgen.settings(job, at_capacity)
    plan = preflight.performance(job, settings, calibration["median_sample_ns"])
    preflight.check_time(plan, job, scenario.least(job))
    qsl = _library(sut, job.inputs)
    qsl.load(range(qsl.count))
    seed = loadgen.test_settings(job).schedule_rng_seed
    beat.enter("rate", _hang_limit_s(calibration, sut))
    found = rate_search.find(
        lambda respond, watch: scenario.callbacks(sut, qsl, respond, job, watch),
        qsl.count,
        job,
        capacity,
        seed,
        beat,
    )
    if isinstance(sut, Replicated):
        qsl.close()
    return found


def _hang_limit_s(calibration: Calibration, sut: Inference) -> float:
    """Seconds without an answer after which a test counts as hung. Between requests nothing is
    answered. An engine gives up by itself, with a better reason.
    """
    between_s = 10 / calibration["rate"] if "rate" in calibration else 0
    return hang_limit_s(calibration["slowest_batch_ns"]) + between_s + _silence_s(sut)


def _silence_s(sut: Inference) -> float:
    return sut.silence_s if isinstance(sut, engine.EngineSut) else 0


def _look_back(
    job: Job, sut: Inference, qsl: Qsl, watch: Watch, beat: Heartbeat, hang_s: float
) -> Fields:
    """Write the recorded answers of a performance test. Then time fresh inputs, which shows whether
    the SUT reuses answers.

    The result has these fields of the WorkerOutcome: `kept_sha256`, and `fresh` if the job has
    fresh inputs.
    """
    kept = {"kept_sha256": watch.write(job.log_dir / "answers.npz", qsl.count)}
    if job.fresh is None:
        return kept
    requests = _requests(watch)
    if isinstance(sut, Replicated):
        beat.enter("fresh inputs", hang_s)
        return {**kept, "fresh": Fresh(**sut.of_one("fresh", requests=requests)["fresh"])}
    return {**kept, "fresh": fresh_inputs.compare(job, sut, qsl, beat, hang_s, requests)}


def _requests(watch: Watch) -> list[int]:
    """The numbers of requests that the test's batches had; empty if requests do not wait."""
    return sorted(set(watch.queue.record.taken)) if watch.queue else []


def calibrate(
    job: Job, sut: Inference, scenario: Any, beat: Heartbeat, slowest_ns: float
) -> Calibration:
    """Time the scenario's own loop on synthetic samples of the inputs' shapes. A bare predict loop
    would be wrong by a factor of up to two. An engine that forms its own batches is saturated
    instead.

    If answers end at end tokens, the inputs themselves are used, because a random prompt's answer
    has another length than a real one's. Windows grow until one lasts a twentieth of
    calibration_seconds. That one is dropped, and others of its size follow until three of them in
    a row agree within 5 %, or until there are _WINDOWS or the time is over.
    """
    from scenarios.worker import loadgen

    ends, watch = bool(job.workload.config.get("end_tokens")), Watch()
    samples_like = (
        _library(sut, job.inputs) if ends else _library(sut, job.synthetic, job.warmup_rows)
    )
    samples_like.load(range(samples_like.count))
    limit_s = hang_limit_s(slowest_ns) if slowest_ns else LOAD_LIMIT_S
    beat.enter("calibrate", limit_s + _silence_s(sut))
    if isinstance(sut, engine.EngineSut) and SCENARIOS[job.scenario].many_at_once:
        return saturation.calibrate(job, sut, samples_like, beat, slowest_ns)
    respond = loadgen.responder(beat, watch, dry=True)
    issue, flush = scenario.callbacks(sut, samples_like, respond, job, watch)
    batch = job.workload.batch_size
    began = _clock()
    # A window has at least as many batches as the SUT keeps in flight. A single batch of two that
    # overlap would look twice as slow. A generated batch is many forward passes.
    is_long = batch == 1 or job.answer == TOKENS
    least = max(1 if is_long else 2, sut.in_flight) * batch
    answer_all = partial(_answer_all, job, issue, flush)
    total_ns = job.limits.calibration_seconds * 1e9
    windows, samples = batching.answer_while(
        watch.queue, lambda: _windows(answer_all, samples_like.count, least, total_ns)
    )
    if isinstance(sut, Replicated):
        samples_like.close()
    # An honest answer may take many times as long as the mean of a window.
    if ends and isinstance(sut, Replicated):
        slowest_ns = max(slowest_ns, sut.slowest_ns)  # the gaps are between answers of all replicas
    elif ends and len(watch.times) > 1:
        slowest_ns = max(slowest_ns, float(watch.gaps_ns().max()))
    return {
        "fastest_sample_ns": min(windows),
        "median_sample_ns": statistics.median(windows),
        "slowest_batch_ns": max(max(windows) * batch, slowest_ns),
        "windows": len(windows),
        "window_samples": samples,
        "spent_ns": _clock() - began,
    }


def _answer_all(
    job: Job, issue: Callable[..., None], flush: Callable[[], None], rows: list[int]
) -> None:
    """Issue these rows as LoadGen would, all at once or in queries of one batch, and wait for the
    answers.
    """
    at_once = SCENARIOS[job.scenario].many_at_once
    size = len(rows) if at_once else job.workload.batch_size
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        issue(range(len(part)), part)
    flush()


def _windows(
    issue: Callable[[list[int]], None], count: int, samples: int, total_ns: float
) -> tuple[list[float], int]:
    """(nanoseconds of a sample in each window, samples of a window).

    Args:
        issue: issues these rows, out of `count`, and returns when they are answered.
        samples: the number of samples of the first window.
        total_ns: the time for all windows together.
    """
    order = shuffled(count)
    windows: list[float] = []
    issued = 0
    deadline = _clock() + total_ns
    while not _enough(windows) and (not windows or _clock() < deadline):
        rows = order[(issued + np.arange(samples)) % count].tolist()
        issued += samples
        start = _clock()
        issue(rows)
        elapsed = _clock() - start
        if elapsed < total_ns / 20 and not windows:
            samples, windows = samples * 2, []
            deadline = _clock() + total_ns
        else:
            windows.append(elapsed / samples)
    return windows[1:] or windows, samples


def _enough(windows: list[float]) -> bool:
    """Return whether the last three windows agree. The first window does not count."""
    if len(windows) >= _WINDOWS:
        return True
    last = windows[1:][-3:]
    return len(last) == 3 and max(last) <= _AGREE * min(last)


def _plan(
    job: Job,
    scenario: Any,
    count: int,
    settings: Settings,
    calibration: Calibration,
) -> Plan:
    """Predict the cost of a test, and write plan.json. Raises Refused if the cost is too high.

    `count`: the samples of the data set.
    """
    sample_ns = calibration["median_sample_ns"]
    if job.test == ACCURACY:
        # The performance test's answers had so many bytes.
        plan = preflight.accuracy(job, count, calibration.get("answer_bytes", 0), sample_ns)
    else:
        # audit.config overrides user.conf.
        plan = preflight.performance(job, {**settings, **job.audit}, sample_ns)
    write_json(job.log_dir / "plan.json", plan)
    if job.test == PERFORMANCE:
        preflight.check_time(plan, job, scenario.least(job))
    preflight.check_machine(plan, job.log_dir)
    return plan


def make_reference(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Answer every input without LoadGen, and write reference.npz and work.json. The first batch
    may take long, because nothing ran before it.
    """
    qsl = Qsl(job.inputs, sut.prepare)
    size = job.workload.batch_size
    beat.enter("test", LOAD_LIMIT_S, -(-qsl.count // size))
    path = job.log_dir / reference.FILE
    start = _clock()
    seconds = reference.write_reference(
        path,
        sut,
        qsl.arrays,
        prepared=qsl.in_turn(size),
        batch_size=size,
        logits_rows=job.logits_rows,
        on_batch=beat.bump,
        end_tokens=job.workload.config.get("end_tokens", ()),
        mask=job.workload.config.get("mask"),
    )
    spent_ns = _clock() - start
    seconds |= _count_work(dataclasses.replace(job, reference=path), sut, beat)
    fields: Fields = {"test_ns": spent_ns, "seconds": seconds}
    if hasattr(sut, "evidence"):  # a reference of Transformers has none
        fields["evidence_after"] = sut.evidence(lambda: None)
    return fields


def train(job: Job, sut: Any, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Train. A reference also writes work.json."""
    fields = fit.train(job, sut, beat, slowest_ns)
    if job.test == REFERENCE:
        fields["seconds"] = _count_work(job, sut, beat)
    return fields


def count_work(job: Job, sut: Any, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Write work.json of a reference."""
    return {"seconds": _count_work(job, sut, beat)}


def _count_work(job: Job, sut: Any, beat: Heartbeat) -> dict[str, float]:
    """Write work.json. Return its seconds."""
    beat.allow(LOAD_LIMIT_S)
    start = _clock()
    work.write(job, sut, beat)
    return {COUNT: (_clock() - start) / 1e9}


def write_logits(job: Job, sut: Any, beat: Heartbeat) -> None:
    """Write the SUT's logits on the reference's first answers, and on its own. Those of equal
    answers are computed once. One replica computes them.
    """
    if isinstance(sut, Replicated):
        beat.enter("teacher-forced logits", LOAD_LIMIT_S)
        sut.of_one("logits")
        return
    # It runs after the test and its evidence, because it may compile another graph.
    beat.enter("teacher-forced logits", LOAD_LIMIT_S)
    evidence.forget()
    size = job.workload.batch_size
    with np.load(job.inputs) as inputs:
        prompts = {k: inputs[k][:OWN_ROWS] for k in ("input_ids", "prompt_length")}
    with np.load(str(job.reference)) as reference:
        expected = reference["tokens"][: job.logits_rows]
    few = {name: values[: job.logits_rows] for name, values in prompts.items()}
    logits = teacher_forcing.forced_logits(sut, few, {"tokens": expected}, size)
    np.save(job.log_dir / "logits.npy", logits)
    # The first answers as LoadGen logged them, int32 [new]. A repeated one might differ.
    log = read_json(job.log_dir / "mlperf_log_accuracy.json")
    logged = {entry["qsl_idx"]: bytes.fromhex(entry["data"]) for entry in log}
    rows = range(len(prompts["prompt_length"]))
    answers = [np.frombuffer(logged[row], np.int32) for row in rows]
    longest = max(map(len, answers))
    tokens = np.array([np.pad(row, (0, longest - len(row))) for row in answers])
    # Logits follow from the tokens before them, so equal answers have equal logits.
    as_expected = len(expected) == len(answers) and all(
        np.array_equal(own, row[: len(own)]) for own, row in zip(answers, expected, strict=True)
    )
    if as_expected:
        own = teacher_forcing.of_chosen(logits[:, :longest], tokens)
    else:
        own = teacher_forcing.own_logits(sut, prompts, tokens, size)
    np.save(job.log_dir / "own_logits.npy", own)


PROCEDURES: dict[str, Procedure] = {
    LOADGEN: loadgen_test,
    "reference": make_reference,
    "fit": train,
    COUNT: count_work,
    SERVE: serving.serve,
    PROFILE: profile.profile,
}
