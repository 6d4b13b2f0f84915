"""What a test is going to cost, from its calibration; refuses what cannot end well. Pure but for `check_machine`.

Costs a sample were measured on LoadGen 6.0.17 with ConstructFastSUT: at most 300 B of memory; in the trace 280 B in Offline and 1 KB in
SingleStream; in the accuracy log twice the payload and about 70 B.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from scenarios.job import Limits

_MEMORY_BYTES, _TRACE_BYTES, _ACCURACY_ROW_BYTES = 300, {"Offline": 280}, 70
_TRACE_BYTES_ELSEWHERE = 1024
_DISK_RESERVE_BYTES, _MEMORY_RESERVE_BYTES = 64 << 20, 256 << 20


class Refused(Exception):
    """The test would run out of memory or disk; the message says of what, how much and what to change."""


@dataclass(frozen=True)
class Plan:
    samples: int
    seconds: float
    memory_bytes: int
    log_bytes: int
    trace: bool


def performance(scenario: str, limits: Limits, conf: dict[str, float], sample_ns: float) -> Plan:
    """LoadGen's own arithmetic (test_settings_internal.cc): Offline issues 1.1 × duration × target_qps samples, padded to whole sets
    under equal issue; the others prepare queries for 2 × duration and stop at the later of duration and count."""
    duration_s, whole = limits.min_duration_ms / 1e3, limits.performance_sample_count
    if scenario == "Offline":
        samples = prepared = max(limits.min_query_count, int(1.1 * duration_s * conf["target_qps"]))
        if limits.equal_issue:
            samples = prepared = -(-samples // whole) * whole
    else:
        prepared = max(limits.min_query_count, int(2 * duration_s * 1e3 / conf["target_latency"]))
        samples = max(limits.min_query_count, int(duration_s * 1e9 / sample_ns) + 1)
        if limits.equal_issue:
            samples = prepared = (prepared // whole + 1) * whole
    trace_bytes = samples * _TRACE_BYTES.get(scenario, _TRACE_BYTES_ELSEWHERE)
    trace = trace_bytes <= limits.trace_bytes
    return Plan(samples, samples * sample_ns / 1e9, prepared * _MEMORY_BYTES, (trace_bytes if trace else 0) + (1 << 20), trace)


def accuracy(samples: int, payload_bytes: int, sample_ns: float) -> Plan:
    return Plan(samples, samples * sample_ns / 1e9, samples * _MEMORY_BYTES, samples * (2 * payload_bytes + _ACCURACY_ROW_BYTES), False)


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
