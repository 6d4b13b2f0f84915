"""What a test is going to cost, from its calibration; refuses what cannot end well. Pure but for `check_machine`.

Costs a sample were measured on LoadGen 6.0.17 with ConstructFastSUT: at most 300 B of memory; in the trace 280 B in Offline and 1 KB in
SingleStream; in the accuracy log twice the payload and about 70 B.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scenarios.worker.job import Job

_MEMORY_BYTES, _TRACE_BYTES, _ACCURACY_ROW_BYTES = 300, {"Offline": 280}, 70
_TRACE_BYTES_ELSEWHERE = 1024
_DISK_RESERVE_BYTES, _MEMORY_RESERVE_BYTES = 64 << 20, 256 << 20


class Refused(Exception):
    """The test would run out of memory, disk or time; the message says of what, how much and what to change."""


@dataclass(frozen=True)
class Plan:
    """What a test is predicted to cost. `batches`: of the SUT's batch size, the last one perhaps filled up."""

    samples: int
    batches: int
    seconds: float
    memory_bytes: int
    log_bytes: int
    trace: bool


def performance(job: Job, settings: Mapping[str, float], sample_ns: float) -> Plan:
    """LoadGen's own arithmetic (test_settings_internal.cc): Offline issues 1.1 × duration × target_qps samples, padded to whole sets
    under equal issue; the others prepare queries for 2 × duration and stop at the later of duration and count.

    Args:
        settings: user.conf and, over it, audit.config.
    """
    least, duration_s = int(settings["min_query_count"]), settings["min_duration"] / 1e3
    whole, equal_issue = job.limits.performance_sample_count, bool(settings["sample_concatenate_permutation"])
    if job.scenario == "Offline":
        samples = prepared = max(least, int(1.1 * duration_s * settings["target_qps"]))
        if equal_issue:
            samples = prepared = -(-samples // whole) * whole
    else:
        prepared = max(least, int(2 * duration_s * 1e3 / settings["target_latency"]))
        samples = max(least, int(duration_s * 1e9 / sample_ns) + 1)
        if equal_issue:
            samples = prepared = (prepared // whole + 1) * whole
    trace_bytes = samples * _TRACE_BYTES.get(job.scenario, _TRACE_BYTES_ELSEWHERE)
    trace = trace_bytes <= job.limits.trace_bytes
    log_bytes = (trace_bytes if trace else 0) + (1 << 20)
    return Plan(samples, _batches(samples, job), samples * sample_ns / 1e9, prepared * _MEMORY_BYTES, log_bytes, trace)


def accuracy(job: Job, samples: int, payload_bytes: int, sample_ns: float) -> Plan:
    log_bytes = samples * (2 * payload_bytes + _ACCURACY_ROW_BYTES)
    return Plan(samples, _batches(samples, job), samples * sample_ns / 1e9, samples * _MEMORY_BYTES, log_bytes, False)


def _batches(samples: int, job: Job) -> int:
    return -(-samples // job.workload.batch_size)


def check_time(plan: Plan, job: Job, least: str) -> None:
    """Raises Refused if a quick test would take far longer than was asked for. `least`: what it needs at least, in words."""
    longest_s = job.limits.longest_ms / 1e3
    if job.limits.quick and plan.seconds > longest_s:
        asked_s = job.limits.planned_ms / 1e3
        needed_s = asked_s * plan.seconds / longest_s
        raise Refused(
            f"preflight: a quick {job.scenario} test measures at least {least}: {plan.samples} samples, about {plan.seconds:.3g} s, and "
            f"--load-seconds {asked_s:g} allows {longest_s:g} s: give --load-seconds {float(f'{1.1 * needed_s:.2g}'):g}"
        )


def check_machine(plan: Plan, log_dir: Path) -> None:
    """Raises Refused if memory or disk would not last."""
    disk = os.statvfs(log_dir)
    free_bytes = disk.f_bavail * disk.f_frsize - _DISK_RESERVE_BYTES
    if plan.log_bytes > free_bytes:
        raise Refused(
            f"preflight: the logs need {plan.log_bytes / 1e6:.0f} MB and {max(free_bytes, 0) / 1e6:.0f} MB are free at the run "
            "directory (64 MB kept back): free some space or choose another --out"
        )
    available = available_memory_bytes()
    if available is not None and plan.memory_bytes > available - _MEMORY_RESERVE_BYTES:
        raise Refused(
            f"preflight: LoadGen needs {plan.memory_bytes / 1e9:.1f} GB for {plan.samples} samples and {available / 1e9:.1f} GB "
            "are available: choose a larger --size or, in quick mode, fewer --load-seconds"
        )


def available_memory_bytes() -> int | None:
    """Linux' own estimate of what can be had without swapping; None elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
