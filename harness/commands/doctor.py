"""`./run.sh doctor` checks whether this machine is fit to measure on. Each finding has advice.

The verdict is FAIL only if nothing could run, or if the machine is so busy that every figure would
be wrong.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from compliance.rules import CURRENT
from formats.checks import Check, Verdict
from formats.record import Accelerator, Machine
from harness import terminal
from harness.commands import checks
from harness.execution import machine
from harness.execution.environments import made_for
from harness.request.flags import Parser, add_common
from scenarios.worker import counters
from scenarios.worker.preflight import available_memory_bytes
from sut.registry import SUTS

# From environments/*-cuda.txt and https://docs.nvidia.com/cuda/cuda-toolkit-release-notes, which
# lists the driver that each CUDA needs.
_CUDA, _DRIVER = 13, 580
_LOW_DISK_BYTES = 8 << 30
_LOW_MEMORY_BYTES = 2 << 30
_BUSY_LOAD_PER_THREAD = 0.25
_BUSY_PROCESS_PERCENT = 5.0
_LOOK_S = 0.5
# Reading one of these takes nanoseconds. The others are read over a bus (hpet: a microsecond and
# more).
_FAST_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen")


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    parser = Parser(
        prog="./run.sh doctor", description="Is this machine fit to measure on?", allow_abbrev=False
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    results = examine(flags.cache.absolute(), CURRENT)
    code = checks.show(results, flags)
    for c in results:
        if c.verdict is Verdict.MANUAL and not flags.json:
            terminal.advice(c)
    return code


def examine(cache: Path, round_: str) -> list[Check]:
    """All findings about this machine, in the order in which they are shown."""
    m = machine.describe()
    return [
        _interpreter(),
        _compiler(),
        _headers(),
        _disk(cache),
        _memory(m),
        _swap(m),
        _processors(m),
        _governor(m),
        _frequency(m),
        _clock(m),
        _load(m),
        _other_processes(),
        _virtual(m),
        _energy(),
        *_accelerators(m),
        *_environments(cache, round_),
        _writable(cache),
    ]


def _check(
    name: str, good: bool, detail: str, fix: str = "", bad: Verdict = Verdict.MANUAL
) -> Check:
    return _finding(name, Verdict.PASS if good else bad, detail, "" if good else fix)


def _finding(name: str, verdict: Verdict, detail: str, fix: str = "") -> Check:
    """Return a check whose id is made from its name. So a name must not change between versions."""
    return Check(
        re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), name, verdict, detail, fix=fix
    )


def _interpreter() -> Check:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return _check(
        "interpreter",
        good,
        f"Python {platform.python_version()}",
        "LoadGen has wheels for Python 3.11 to 3.13",
        Verdict.FAIL,
    )


def _compiler() -> Check:
    """Check for a C++ compiler. It compiles LoadGen if there is no wheel, and torch.compile's CPU
    kernels each time.
    """
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return _check(
        "C++ compiler",
        compiler is not None,
        (
            Path(compiler).name
            if compiler
            else (
                "none found: native-torch-compile needs one on a CPU, and LoadGen where it has no"
                " wheel"
            )
        ),
        "install g++ (Debian, Ubuntu: apt install g++)",
    )


def _headers() -> Check:
    """Check for Python.h, which torch.compile needs on a CPU and on a GPU."""
    there = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    return _check(
        "Python headers",
        there,
        "Python.h is there" if there else "no Python.h: native-torch-compile needs it",
        "install them (Debian, Ubuntu: apt install python3-dev)",
    )


def _disk(cache: Path) -> Check:
    free = psutil.disk_usage(str(_existing(cache))).free
    return _check(
        "disk",
        free > _LOW_DISK_BYTES,
        f"{free / 1e9:.1f} GB free for environments and weights",
        f"all environments take about {_LOW_DISK_BYTES / 1e9:.0f} GB, a 7 B model 15 GB more: free"
        " some, or give --cache DIR",
    )


def _memory(m: Machine) -> Check:
    available, limit = (
        available_memory_bytes() or psutil.virtual_memory().available,
        m.memory_limit_bytes,
    )
    text = f"{available / 1e9:.1f} GB of {(m.memory_bytes or 0) / 1e9:.1f} GB available"
    return _check(
        "memory",
        available > _LOW_MEMORY_BYTES,
        text + (f", limited to {limit / 1e9:.1f} GB" if limit else ""),
        "end what else runs: the smallest cells need 2 GB",
    )


def _swap(m: Machine) -> Check:
    return _check(
        "swap",
        not m.swap_used_bytes,
        f"{m.swap_used_bytes / 1e6:.0f} MB in use" if m.swap_used_bytes else "none in use",
        "memory was short: end what else runs, then `sudo swapoff -a && sudo swapon -a`; a swapping"
        " cell measures the disk",
    )


def _processors(m: Machine) -> Check:
    """Check the usable processors. Frameworks start a thread for each processor that they see, even
    if a container grants only a share of it.
    """
    quota, usable = m.cpu_quota, m.usable_threads or m.threads or 1
    limited = quota is not None and quota < usable
    return _check(
        "processors",
        not limited and usable == m.threads,
        f"{usable} of {m.threads} threads usable"
        + (f" ({m.cores} cores)" if m.cores else "")
        + (f", a quota of {quota:g}" if quota else ""),
        "lift the container's CPU limit, or pin it to whole processors (--cpuset-cpus) and set"
        " OMP_NUM_THREADS to their number",
    )


def _governor(m: Machine) -> Check:
    if m.governor is None:
        return _finding(
            "governor", Verdict.NA, "the kernel does not tell (a virtual machine, or not Linux)"
        )
    return _check(
        "governor",
        m.governor == "performance",
        m.governor,
        "sudo cpupower frequency-set -g performance",
    )


def _frequency(m: Machine) -> Check:
    """Check whether boost is on. It makes the first seconds faster than the tenth minute."""
    if m.boost is None:
        now = f"; {m.frequency_now_mhz} MHz now" if m.frequency_now_mhz else ""
        return _finding(
            "frequency scaling", Verdict.NA, f"the kernel does not tell whether boost is on{now}"
        )
    return _check(
        "frequency scaling",
        not m.boost,
        f"boost {'on' if m.boost else 'off'}, {m.frequency_now_mhz} MHz now, {m.frequency_mhz} at"
        " most",
        "for figures that repeat, switch boost off: echo 0 | sudo tee"
        " /sys/devices/system/cpu/cpufreq/boost (Intel: echo 1 | sudo tee"
        " /sys/devices/system/cpu/intel_pstate/no_turbo)",
    )


def _clock(m: Machine) -> Check:
    source = m.clock_source
    if source is None:
        return _finding("clock", Verdict.NA, "the kernel does not tell its clock source")
    return _check(
        "clock",
        source in _FAST_CLOCKS,
        source,
        "a slow clock is in every latency: boot with clocksource=tsc",
    )


def _load(m: Machine) -> Check:
    one_minute, threads = m.load_average[0], m.threads or 1
    return _check(
        "other load",
        one_minute < _BUSY_LOAD_PER_THREAD * threads,
        f"load average {one_minute:.2f} over the last minute on {threads} threads",
        "end what else runs, and wait a minute: a busy machine measures its neighbours",
        Verdict.MANUAL if one_minute < threads else Verdict.FAIL,
    )


def _other_processes() -> Check:
    """Check which other processes use a processor now."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            process.cpu_percent()
            processes.append(process)
    time.sleep(_LOOK_S)
    busy = sorted(_busy(processes), reverse=True)
    return _check(
        "other processes",
        not busy,
        ", ".join(f"{name} (process {pid}) {percent:.0f} %" for percent, name, pid in busy[:5])
        or "none above 5 % of a processor",
        "end them, or wait until they are done",
    )


def _busy(processes: list[psutil.Process]) -> Iterator[tuple[float, str, int]]:
    for process in processes:
        with suppress(psutil.Error):
            percent = process.cpu_percent()
            if percent > _BUSY_PROCESS_PERCENT and process.pid != os.getpid():
                yield percent, process.name(), process.pid


def _virtual(m: Machine) -> Check:
    return _check(
        "virtual machine",
        m.virtualisation is None,
        m.virtualisation or "no hypervisor",
        "neighbours on the same host change the figures: measure rival cells in turns (A B A B …),"
        " and compare their medians",
    )


def _energy() -> Check:
    reading = counters.read("cpu")
    if reading.microjoules:
        return _finding("energy counter", Verdict.PASS, ", ".join(reading.microjoules))
    why = "; ".join(reading.absent.values())
    if "root" in why:
        return _check("energy counter", False, why, "allow it, and cells record their energy")
    return _finding("energy counter", Verdict.NA, why)


def _accelerators(m: Machine) -> list[Check]:
    if not m.accelerators:
        return [
            _finding("accelerator", Verdict.NA, "no NVIDIA driver answers: cells run on the CPU")
        ]
    return [check for n, a in enumerate(m.accelerators) for check in _accelerator(n, a)]


def _accelerator(n: int, a: Accelerator) -> Iterator[Check]:
    """Check one GPU. Values that the driver does not report are not counted as faults."""
    yield _finding(
        f"gpu {n}",
        Verdict.PASS,
        f"{a.name}, {a.memory_bytes / 2**30:.0f} GiB, driver {a.driver}",
    )
    yield _check(
        f"gpu {n} driver",
        a.cuda is None or int(a.cuda.partition(".")[0]) >= _CUDA,
        f"serves CUDA up to {a.cuda or 'unknown'}",
        f"the environments of PyTorch and JAX are for CUDA {_CUDA}, which needs driver {_DRIVER} or"
        " newer: update it, or take --python",
    )
    yield _check(
        f"gpu {n} others",
        not a.processes,
        f"{a.processes or 0} processes on it, {(a.used_memory_bytes or 0) / 2**30:.1f} GiB in use",
        "end them (nvidia-smi names them), or choose another GPU with CUDA_VISIBLE_DEVICES",
    )
    yield _check(
        f"gpu {n} persistence",
        a.persistence is not False,
        {True: "on", False: "off", None: "not told"}[a.persistence],
        "sudo nvidia-smi -pm 1: else the driver unloads between cells, and the first call pays"
        " for it",
    )
    yield _check(
        f"gpu {n} slices",
        not a.mig,
        "MIG is on" if a.mig else "the whole GPU",
        "a slice shares the GPU with others: its figures are the slice's, and its energy is not"
        " told",
    )
    yield _finding(
        f"gpu {n} clocks",
        Verdict.PASS if a.sm_most_mhz else Verdict.NA,
        f"{a.sm_mhz} MHz now, {a.sm_most_mhz} at most, limited to {a.power_limit_w} W (recorded"
        " with each cell)",
    )


def _environments(cache: Path, round_: str) -> list[Check]:
    results = []
    for name in dict.fromkeys(spec.environment for spec in SUTS.values()):
        devices = made_for(cache, name, round_)
        detail = f"made for {', '.join(devices)}" if devices else "made on first use"
        results.append(
            _finding(f"environment {name}", Verdict.PASS if devices else Verdict.NA, detail)
        )
    return results


def _writable(cache: Path) -> Check:
    good = os.access(_existing(cache), os.W_OK)
    return _check(
        "cache", good, f"{'' if good else 'not '}writable", "give --cache DIR", Verdict.FAIL
    )


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())
