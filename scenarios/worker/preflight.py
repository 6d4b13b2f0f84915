"""This module predicts the cost of a test from its calibration, and refuses a test that cannot
succeed.

The predictions are pure; `check_machine` and the functions about memory read the machine's state.
The costs of a sample were measured on LoadGen 6.0.17 with ConstructFastSUT: at most 300 B of
memory, and in the accuracy log twice the payload and about 70 B. The scenario says what a sample
costs in the trace (`scenarios.table`).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from formats.job import Job, Settings
from formats.outcome import PUT_OFF, TOO_SHORT, Plan
from scenarios.table import SCENARIOS
from scenarios.worker.system import control_groups

_MEMORY_BYTES = 300
_ACCURACY_ROW_BYTES = 70
_DISK_RESERVE_BYTES = 64 << 20
_MEMORY_RESERVE_BYTES = 256 << 20
_FAR_SLOWER = 1.5
"""A calibration is rough: two of one SUT may differ by 20 %."""


class Refused(Exception):
    """The test would run out of memory, disk or time. The message says of which, by how much, and
    what to change.

    Attributes:
        numbers: see `WorkerOutcome.refused`.
    """

    def __init__(self, reason: str, numbers: Mapping[str, float] | None = None):
        super().__init__(reason)
        self.numbers = numbers or {}


def performance(job: Job, settings: Settings, sample_ns: float) -> Plan:
    """Predict the cost of a performance test by LoadGen's own arithmetic.

    Args:
        settings: user.conf, overridden by audit.config.
    """
    scenario = SCENARIOS[job.scenario]
    samples, prepared = scenario.counts(settings, job.limits.performance_sample_count, sample_ns)
    arrival_ns = 1e9 / settings["target_qps"] if scenario.serves else 0
    trace_bytes = samples * scenario.trace_bytes_a_sample
    trace = trace_bytes <= job.limits.trace_bytes
    log_bytes = (trace_bytes if trace else 0) + (1 << 20)
    return Plan(
        samples,
        _batches(samples, job),
        samples * max(sample_ns, arrival_ns) / 1e9,
        prepared * _MEMORY_BYTES,
        log_bytes,
        trace,
    )


def accuracy(job: Job, samples: int, answer_bytes: float, sample_ns: float) -> Plan:
    """Predict the cost of an accuracy test of so many samples. Its log contains every answer in
    hex, which doubles the length.
    """
    log_bytes = int(samples * (2 * answer_bytes + _ACCURACY_ROW_BYTES))
    return Plan(
        samples,
        _batches(samples, job),
        samples * sample_ns / 1e9,
        samples * _MEMORY_BYTES,
        log_bytes,
        False,
    )


def _batches(samples: int, job: Job) -> int:
    return -(-samples // job.workload.batch_size)


def check_answers(job: Job) -> None:
    """Raises Refused if answers are streamed and one of the reference's has only one token. LoadGen
    logs an error for it (logging.cc), and MLPerf forbids errors.
    """
    if not job.stream or job.reference is None:
        return
    with np.load(job.reference) as reference:
        counts = reference["n_tokens"]
    short = np.flatnonzero(counts == 1)
    if len(short):
        raise Refused(
            f"preflight: {len(short)} of {len(counts)} answers have only one token, the first one"
            f" that of input {short[0] + 1}, and LoadGen logs an error for each one that is"
            " streamed: leave such inputs out of --dataset, or give --stream off"
        )


def check_time(plan: Plan, job: Job, least: str) -> None:
    """Raises Refused if a quick test would take far longer than requested.

    Args:
        least: the scenario's own minimum, in words. This function adds whole passes under equal
            issue.
    """
    limits = job.limits
    longest_s = limits.longest_ms / 1e3
    allowed_s = max(longest_s, limits.allowed_ms / 1e3)
    if limits.quick and plan.seconds > allowed_s:
        asked_s = limits.planned_ms / 1e3
        needed_s = float(f"{1.1 * asked_s * plan.seconds / longest_s:.2g}")
        passes = (
            f", and whole passes over the {limits.performance_sample_count} prompts, which cost"
            " different amounts"
        )
        least += passes if limits.equal_issue else ""
        samples = f"{plan.samples} sample{'' if plan.samples == 1 else 's'}"
        raise Refused(
            f"preflight: a quick {job.scenario} test measures at least {least}: {samples}, about"
            f" {plan.seconds:.3g} s, and --duration {asked_s:g} allows {longest_s:g} s: give"
            f" --duration {needed_s:g}",
            {TOO_SHORT: needed_s},
        )


def check_rival(sample_ns: float, job: Job) -> None:
    """Raises Refused if the SUT is far slower in its calibration than its fastest rival."""
    rival_ns = job.limits.rival_sample_ns
    if rival_ns and sample_ns > _FAR_SLOWER * rival_ns:
        raise Refused(
            f"put off: {_rate(sample_ns)} samples/s in its calibration, and the fastest SUT has"
            f" {_rate(rival_ns)} samples/s",
            {PUT_OFF: 1e9 / sample_ns},
        )


def _rate(sample_ns: float) -> str:
    rate = 1e9 / sample_ns
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def check_machine(plan: Plan, log_dir: Path) -> None:
    """Raises Refused if memory or disk would not be enough."""
    disk = os.statvfs(log_dir)
    free_bytes = disk.f_bavail * disk.f_frsize - _DISK_RESERVE_BYTES
    if plan.log_bytes > free_bytes:
        raise Refused(
            f"preflight: the logs need {plan.log_bytes / 1e6:.0f} MB and"
            f" {max(free_bytes, 0) / 1e6:.0f} MB are free at the run directory (64 MB kept back):"
            " free some space or choose another --out"
        )
    available = available_memory_bytes()
    if available is not None and plan.memory_bytes > available - _MEMORY_RESERVE_BYTES:
        raise Refused(
            f"preflight: LoadGen needs {plan.memory_bytes / 1e9:.1f} GB for {plan.samples} samples"
            f" and {available / 1e9:.1f} GB are available: choose a larger --size or, in quick"
            " mode, a shorter --duration"
        )


def available_memory_bytes() -> int | None:
    """Return how many bytes of memory are available without swapping. None if the system does not
    report it.

    It is the lesser of Linux' own estimate and what the control groups may still take.
    """
    found = list[int | None]([control_groups.available_bytes()])
    lines = control_groups.text(Path("/proc/meminfo")).splitlines()
    found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return _least(found)


def free_memory_bytes() -> int | None:
    """The bytes that this process may still allocate. They are fewer than the available ones if its
    address space is limited.
    """
    found = [available_memory_bytes()]
    with suppress(OSError, ValueError):
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        found.append(
            None if limit == resource.RLIM_INFINITY else limit - pages * resource.getpagesize()
        )
    return _least(found)


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
