"""`python -m scenarios.worker JOB.json`, interpreter = the SUT's: load, warm-up, calibrate, ONE LoadGen test, outcome.

Exit code 0 with outcome.json, whatever its status; without outcome.json the parent tells from signal, kernel and disk what happened.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import os
import resource
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.table import SCENARIOS
from scenarios.worker import counters, disturbance, preflight, reference, teacher_forcing
from scenarios.worker import job as jobs
from scenarios.worker.answers import pack
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.job import Job, Outcome
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Inference, Unsupported
from sut.registry import load_module

_clock = time.perf_counter_ns
_WINDOWS = 5
# Loading and compiling have no heartbeat of their own: half an hour covers the slowest load seen (7 B parameters from a cold disk, XLA).
_LOAD_LIMIT_S = 1800
# torch, JAX and TensorFlow name running out of memory each in their own way; torch on a CPU only in words.
_OOM_WORDS = ("OutOfMemoryError", "ResourceExhausted", "RESOURCE_EXHAUSTED", "can't allocate memory", "Out of memory", "MemoryError")


def hang_limit_s(slowest_batch_ns: float) -> float:
    """Seconds without a completion after which a test counts as hung: 10 × the slowest calibrated batch + 60 s."""
    return 10 * slowest_batch_ns / 1e9 + 60


def main(argv: list[str]) -> None:
    die_with_parent(int(argv[2]))
    job = jobs.read_job(Path(argv[1]))
    beat = Heartbeat(job.log_dir / "heartbeat")
    try:
        outcome = measure(job, beat)
    except Unsupported as e:
        outcome = Outcome("unsupported", str(e))
    except preflight.Refused as e:
        outcome = Outcome("skipped", str(e))
    except Exception as e:  # noqa: BLE001  whatever a framework raises becomes a status; the traceback stays in worker.log
        traceback.print_exc()
        outcome = failure(e)
    jobs.write_json(job.log_dir / "outcome.json", outcome)
    beat.enter("done", 60)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # LoadGen's logger is undefined after an exception, and frameworks' threads may never end


def die_with_parent(parent: int) -> None:
    """Linux: SIGKILL this process when its parent dies however it dies, and volunteer as the kernel's out-of-memory victim."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the parent decides
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # it died before it could be watched
        os._exit(1)


def failure(error: Exception) -> Outcome:
    text = f"{type(error).__name__}: {error}".strip().split("\n")[0]
    return Outcome("oom" if any(word in f"{type(error).__name__} {error}" for word in _OOM_WORDS) else "error", text[:500])


def measure(job: Job, beat: Heartbeat) -> Outcome:
    beat.enter("load", _LOAD_LIMIT_S)
    versions = _versions()
    start = _clock()
    module = load_module(job.sut, job.family)
    import_ns = _clock() - start
    start = _clock()
    sut: Inference = module.load(job.workload)
    sut.synchronise()
    load_ns = _clock() - start
    warmup = warm_up(job, sut, beat)
    slowest_ns = max(w["second_ns"] for w in warmup)
    known: dict[str, Any] = {"import_ns": import_ns, "load_ns": load_ns, "warmup": warmup}
    if job.test == "reference":
        known |= _make_reference(job, sut, beat, slowest_ns)
    else:
        known |= _test(job, sut, beat, slowest_ns)
    return Outcome("ok", peak_host_bytes=_peak_host_bytes(), versions=versions, **known)


def _peak_host_bytes() -> int:
    """Of this program: on Linux the kernel's high-water mark, since ru_maxrss also remembers the parent it was forked from."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def warm_up(job: Job, sut: Inference, beat: Heartbeat) -> list[dict[str, Any]]:
    """Show the SUT every shape twice, with synthetic values: the first time compiles, the second tells the time of a batch."""
    synthetic = Qsl(job.synthetic, sut.prepare)
    synthetic.load(range(synthetic.count))
    times = []
    beat.enter("warm-up", _LOAD_LIMIT_S, 2 * job.warmup_rows)
    for row in range(job.warmup_rows):
        first_ns, second_ns = (_timed(sut, synthetic.batch([row], job.workload.batch_size), beat) for _ in range(2))
        times.append({"row": row, "first_ns": first_ns, "second_ns": second_ns})
    return times


def _timed(sut: Inference, batch: Batch, beat: Heartbeat) -> int:
    start = _clock()
    sut.to_host(sut.predict(batch))
    beat.bump(1)
    return _clock() - start


def _test(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> dict[str, Any]:
    from scenarios.worker import loadgen  # a reference needs no LoadGen

    scenario = SCENARIOS[job.scenario].load()
    qsl = Qsl(job.inputs, sut.prepare)
    calibration = job.calibration or calibrate(job, sut, scenario, loadgen.responder(beat, loadgen.Answered(), dry=True), beat, slowest_ns)
    settings = loadgen.settings(job, scenario.user_conf(job, calibration, sut.in_flight))
    plan = _plan(job, sut, qsl, settings, calibration["median_sample_ns"])
    jobs.write_json(job.log_dir / "plan.json", plan)
    if job.test == "performance":
        preflight.check_time(plan, job, scenario.least(job))
    preflight.check_machine(plan, job.log_dir)
    answered, gaps = loadgen.Answered(), disturbance.Gaps(calibration["slowest_batch_ns"])
    issue, flush = scenario.callbacks(sut, qsl, loadgen.responder(beat, answered, gaps), job, gaps.start)
    loadgen.write_user_conf(job, settings)
    loadgen.write_audit_config(job)
    before = sut.evidence()
    beat.enter("test", hang_limit_s(calibration["slowest_batch_ns"]), plan.samples)
    counted, quiet = counters.read(job.workload.device), disturbance.read()
    monotonic_ns, start = time.monotonic_ns(), _clock()
    loadgen.run(job, qsl, issue, flush, plan.trace)
    test_ns = _clock() - start
    disturbed = disturbance.between(quiet, disturbance.read(), test_ns / 1e9, gaps)
    energy = counters.between(counted, counters.read(job.workload.device))
    after = sut.evidence()
    if job.test == "accuracy" and job.logits_rows and job.reference:
        _write_forced_logits(job, sut, beat)
    return {
        "calibration": calibration,
        "plan": dataclasses.asdict(plan),
        "test_start_ns": monotonic_ns,
        "test_ns": test_ns,
        "answered": dataclasses.asdict(answered),
        "evidence_before": dataclasses.asdict(before),
        "evidence_after": dataclasses.asdict(after),
        "energy": dataclasses.asdict(energy),
        "disturbance": dataclasses.asdict(disturbed),
    }


def calibrate(
    job: Job, sut: Inference, scenario: Any, respond: Callable[..., None], beat: Heartbeat, slowest_ns: float
) -> dict[str, float]:
    """Time the scenario's own loop on synthetic samples of the inputs' shapes; a bare predict loop would be wrong by up to two times.

    Windows grow until one lasts a tenth of calibration_seconds, then four more of that size. The first is dropped where there are others.
    """
    synthetic = Qsl(job.synthetic, sut.prepare, start=job.warmup_rows)
    synthetic.load(range(synthetic.count))
    beat.enter("calibrate", hang_limit_s(slowest_ns))
    issue, _ = scenario.callbacks(sut, synthetic, respond, job)
    batch = job.workload.batch_size
    # One round of what the SUT keeps in flight at least: a single batch of two that overlap would look twice as slow.
    samples, wanted_ns = max(2 if batch > 1 else 1, sut.in_flight) * batch, job.limits.calibration_seconds * 1e9
    # In the order of the file its first rows alone would stand for all, and a user's file may be sorted by length.
    order = np.random.default_rng(0).permutation(synthetic.count)
    windows: list[float] = []
    issued = 0
    began = _clock()
    deadline = _clock() + wanted_ns
    while len(windows) < _WINDOWS and (not windows or _clock() < deadline):
        indices = order[(issued + np.arange(samples)) % synthetic.count].tolist()
        issued += samples
        start = _clock()
        scenario.drive(issue, indices)
        elapsed = _clock() - start
        if elapsed < wanted_ns / _WINDOWS / 2:
            samples, windows = samples * 2, []
            deadline = _clock() + wanted_ns
        else:
            windows.append(elapsed / samples)
    windows = windows[1:] or windows
    return {
        "fastest_sample_ns": min(windows),
        "median_sample_ns": statistics.median(windows),
        "slowest_batch_ns": max(max(windows) * batch, slowest_ns),
        "windows": len(windows),
        "window_samples": samples,
        "spent_ns": _clock() - began,
    }


def _plan(job: Job, sut: Inference, qsl: Qsl, settings: dict[str, float], sample_ns: float) -> preflight.Plan:
    if job.test != "accuracy":
        return preflight.performance(job, {**settings, **job.audit}, sample_ns)  # audit.config counts over user.conf
    synthetic = Qsl(job.synthetic, sut.prepare)
    longest = job.warmup_rows - 1  # the warm-up rows ascend
    synthetic.load([longest])
    rows, _ = pack(sut.to_host(sut.predict(synthetic.batch([longest], job.workload.batch_size))), job.answer)
    return preflight.accuracy(job, qsl.count, rows.nbytes // len(rows), sample_ns)


def _make_reference(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> dict[str, Any]:
    qsl = Qsl(job.inputs, sut.prepare)
    qsl.load(range(qsl.count))
    size = job.workload.batch_size
    batches = qsl.batches(size)
    beat.enter("test", 3 * hang_limit_s(slowest_ns), 2 * len(batches))
    start = _clock()
    ends = job.workload.config.get("end_tokens", ())
    reference.write_reference(job.log_dir / "reference.npz", sut, qsl.arrays, batches, size, job.logits_rows, lambda: beat.bump(1), ends)
    return {"test_ns": _clock() - start, "evidence_after": dataclasses.asdict(sut.evidence())}


def _write_forced_logits(job: Job, sut: Inference, beat: Heartbeat) -> None:
    """On the reference's own answers, after the test and after its evidence: this may compile a graph of its own."""
    beat.enter("teacher-forced logits", _LOAD_LIMIT_S)
    rows = slice(0, job.logits_rows)
    with np.load(str(job.reference)) as reference, np.load(job.inputs) as inputs:
        logits = teacher_forcing.forced_logits(
            sut,
            {k: inputs[k][rows] for k in ("input_ids", "prompt_length")},
            {"tokens": reference["tokens"][rows]},
            job.workload.batch_size,
        )
    np.save(job.log_dir / "logits.npy", logits)


def _versions() -> dict[str, str]:
    """Every distribution of this environment, and the interpreter."""
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    return {"python": sys.version.split()[0], **dict(sorted(found.items()))}


if __name__ == "__main__":
    main(sys.argv)
