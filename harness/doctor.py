"""`./run.sh doctor`: is this machine fit to measure on? Each finding with advice; FAIL only where nothing could run."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil

from compliance.check import Check, Outcome
from harness import machine
from harness.environments import is_made
from sut.registry import SUTS

_LOW_DISK_BYTES = 5 << 30
_BUSY_LOAD_PER_THREAD = 0.25


def examine(cache: Path, round_: str) -> list[Check]:
    m = machine.describe()
    return [
        _interpreter(),
        _compiler(),
        _disk(cache),
        _memory(m),
        _governor(m),
        _load(m),
        _virtual(m),
        _accelerator(m),
        *_environments(cache, round_),
    ]


def _check(name: str, good: bool, detail: str, fix: str = "", bad: Outcome = Outcome.MANUAL) -> Check:
    return Check(name, Outcome.PASS if good else bad, detail, fix="" if good else fix)


def _interpreter() -> Check:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return _check("interpreter", good, f"Python {platform.python_version()}", "LoadGen has wheels for Python 3.11 to 3.13", Outcome.FAIL)


def _compiler() -> Check:
    """Needed only where LoadGen has no wheel for this platform."""
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return _check(
        "C++ compiler",
        found is not None,
        Path(found).name if found else "none found; LoadGen's wheel needs none on Linux x86-64",
        "install g++ if setting up LoadGen fails (Debian, Ubuntu: apt install g++)",
    )


def _disk(cache: Path) -> Check:
    free = psutil.disk_usage(str(cache if cache.exists() else cache.parent)).free
    return _check(
        "disk", free > _LOW_DISK_BYTES, f"{free / 1e9:.1f} GB free", "environments take about 2 GB in all: free some, or give --cache DIR"
    )


def _memory(m: dict[str, Any]) -> Check:
    available = psutil.virtual_memory().available
    limit = m["memory_limit_bytes"]
    text = f"{available / 1e9:.1f} GB of {m['memory_bytes'] / 1e9:.1f} GB available" + (
        f", limited to {limit / 1e9:.1f} GB" if limit else ""
    )
    return _check("memory", available > 2 << 30, text, "end what else runs: the smallest cells need 2 GB")


def _governor(m: dict[str, Any]) -> Check:
    governor = m["governor"]
    if governor is None:
        return Check("frequency scaling", Outcome.NA, "the kernel does not tell (a virtual machine, or not Linux)")
    return _check(
        "frequency scaling",
        governor == "performance",
        f"governor {governor}, boost {m['boost'] or 'not told'}",
        "sudo cpupower frequency-set -g performance",
    )


def _load(m: dict[str, Any]) -> Check:
    one_minute = m["load_average"][0]
    return _check(
        "other load",
        one_minute < _BUSY_LOAD_PER_THREAD * (m["threads"] or 1),
        f"load average {one_minute:.2f} over the last minute on {m['threads']} threads; {m['usable_threads']} usable by this process",
        "end what else runs: a busy machine measures its neighbours",
    )


def _virtual(m: dict[str, Any]) -> Check:
    return _check(
        "virtual machine",
        m["virtualisation"] is None,
        m["virtualisation"] or "no hypervisor",
        "neighbours on the same host change the figures: compare cells within one run, interleaved",
    )


def _accelerator(m: dict[str, Any]) -> Check:
    found = m["accelerators"]
    if not found:
        return Check("accelerator", Outcome.NA, "no NVIDIA driver answers: cells run on the CPU")
    return Check(
        "accelerator", Outcome.PASS, ", ".join(f"{a['name']} {a['memory_bytes'] / 2**30:.0f} GiB, driver {a['driver']}" for a in found)
    )


def _environments(cache: Path, round_: str) -> list[Check]:
    names = dict.fromkeys(spec.environment for spec in SUTS.values())
    return [
        Check(
            f"environment {name}",
            Outcome.PASS if is_made(cache, name, "cpu", round_) else Outcome.NA,
            "made" if is_made(cache, name, "cpu", round_) else "made on first use",
        )
        for name in names
    ] + [_writable(cache)]


def _writable(cache: Path) -> Check:
    return _check("cache", os.access(cache if cache.exists() else cache.parent, os.W_OK), "writable", "give --cache DIR", Outcome.FAIL)
