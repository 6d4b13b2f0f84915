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
from harness.messages import DoctorAdvice, DoctorFinding
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
    check_id = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Check(check_id, name, verdict, detail, fix=fix)


def _interpreter() -> Check:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return _check(
        "interpreter",
        good,
        DoctorFinding.PYTHON.format(version=platform.python_version()),
        DoctorAdvice.PYTHON,
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
        Path(compiler).name if compiler else DoctorFinding.NO_COMPILER,
        DoctorAdvice.COMPILER,
    )


def _headers() -> Check:
    """Check for Python.h, which torch.compile needs on a CPU and on a GPU."""
    there = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    return _check(
        "Python headers",
        there,
        DoctorFinding.HEADERS if there else DoctorFinding.NO_HEADERS,
        DoctorAdvice.HEADERS,
    )


def _disk(cache: Path) -> Check:
    free = psutil.disk_usage(str(_existing(cache))).free
    return _check(
        "disk",
        free > _LOW_DISK_BYTES,
        DoctorFinding.DISK.format(free=free / 1e9),
        DoctorAdvice.DISK.format(need=_LOW_DISK_BYTES / 1e9),
    )


def _memory(m: Machine) -> Check:
    available = available_memory_bytes() or psutil.virtual_memory().available
    all_bytes = m.memory_bytes or 0
    text = DoctorFinding.MEMORY.format(available=available / 1e9, all=all_bytes / 1e9)
    if m.memory_limit_bytes:
        text += DoctorFinding.MEMORY_LIMIT.format(limit=m.memory_limit_bytes / 1e9)
    return _check("memory", available > _LOW_MEMORY_BYTES, text, DoctorAdvice.MEMORY)


def _swap(m: Machine) -> Check:
    text: str = DoctorFinding.NO_SWAP
    if m.swap_used_bytes:
        text = DoctorFinding.SWAP.format(used=m.swap_used_bytes / 1e6)
    return _check("swap", not m.swap_used_bytes, text, DoctorAdvice.SWAP)


def _processors(m: Machine) -> Check:
    """Check the usable processors. Frameworks start a thread for each processor that they see, even
    if a container grants only a share of it.
    """
    quota = m.cpu_quota
    usable = m.usable_threads or m.threads or 1
    limited = quota is not None and quota < usable
    text = DoctorFinding.PROCESSORS.format(
        usable=usable,
        all=m.threads,
        cores=f" ({m.cores} cores)" if m.cores else "",
        quota=f", a quota of {quota:g}" if quota else "",
    )
    good = not limited and usable == m.threads
    return _check("processors", good, text, DoctorAdvice.PROCESSORS)


def _governor(m: Machine) -> Check:
    if m.governor is None:
        return _finding("governor", Verdict.NA, DoctorFinding.NO_GOVERNOR)
    is_good = m.governor == "performance"
    return _check("governor", is_good, m.governor, DoctorAdvice.GOVERNOR)


def _frequency(m: Machine) -> Check:
    """Check whether boost is on. It makes the first seconds faster than the tenth minute."""
    if m.boost is None:
        now = f"; {m.frequency_now_mhz} MHz now" if m.frequency_now_mhz else ""
        text = DoctorFinding.NO_BOOST.format(now=now)
        return _finding("frequency scaling", Verdict.NA, text)
    text = DoctorFinding.BOOST.format(
        state="on" if m.boost else "off", now=m.frequency_now_mhz, most=m.frequency_mhz
    )
    return _check("frequency scaling", not m.boost, text, DoctorAdvice.BOOST)


def _clock(m: Machine) -> Check:
    source = m.clock_source
    if source is None:
        return _finding("clock", Verdict.NA, DoctorFinding.NO_CLOCK)
    return _check("clock", source in _FAST_CLOCKS, source, DoctorAdvice.CLOCK)


def _load(m: Machine) -> Check:
    one_minute = m.load_average[0]
    threads = m.threads or 1
    return _check(
        "other load",
        one_minute < _BUSY_LOAD_PER_THREAD * threads,
        DoctorFinding.LOAD.format(load=one_minute, threads=threads),
        DoctorAdvice.LOAD,
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
    texts = []
    for percent, name, pid in sorted(_busy(processes), reverse=True)[:5]:
        texts.append(DoctorFinding.PROCESS.format(name=name, pid=pid, percent=percent))
    detail = ", ".join(texts) or DoctorFinding.NO_PROCESSES
    return _check("other processes", not texts, detail, DoctorAdvice.PROCESSES)


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
        m.virtualisation or DoctorFinding.NO_HYPERVISOR,
        DoctorAdvice.VIRTUAL,
    )


def _energy() -> Check:
    reading = counters.read("cpu")
    if reading.microjoules:
        return _finding("energy counter", Verdict.PASS, ", ".join(reading.microjoules))
    why = "; ".join(reading.absent.values())
    if "root" in why:
        return _check("energy counter", False, why, DoctorAdvice.ENERGY)
    return _finding("energy counter", Verdict.NA, why)


def _accelerators(m: Machine) -> list[Check]:
    if not m.accelerators:
        return [_finding("accelerator", Verdict.NA, DoctorFinding.NO_ACCELERATOR)]
    return [check for n, a in enumerate(m.accelerators) for check in _accelerator(n, a)]


def _accelerator(n: int, a: Accelerator) -> Iterator[Check]:
    """Check one GPU. Values that the driver does not report are not counted as faults."""
    yield _finding(
        f"gpu {n}",
        Verdict.PASS,
        DoctorFinding.GPU.format(name=a.name, memory=a.memory_bytes / 2**30, driver=a.driver),
    )
    yield _check(
        f"gpu {n} driver",
        a.cuda is None or int(a.cuda.partition(".")[0]) >= _CUDA,
        DoctorFinding.GPU_DRIVER.format(cuda=a.cuda or "unknown"),
        DoctorAdvice.GPU_DRIVER.format(cuda=_CUDA, driver=_DRIVER),
    )
    used_bytes = a.used_memory_bytes or 0
    yield _check(
        f"gpu {n} others",
        not a.processes,
        DoctorFinding.GPU_OTHERS.format(processes=a.processes or 0, used=used_bytes / 2**30),
        DoctorAdvice.GPU_OTHERS,
    )
    yield _check(
        f"gpu {n} persistence",
        a.persistence is not False,
        {True: "on", False: "off", None: "not reported"}[a.persistence],
        DoctorAdvice.GPU_PERSISTENCE,
    )
    yield _check(
        f"gpu {n} slices",
        not a.mig,
        DoctorFinding.GPU_SLICES if a.mig else DoctorFinding.GPU_WHOLE,
        DoctorAdvice.GPU_SLICES,
    )
    yield _finding(
        f"gpu {n} clocks",
        Verdict.PASS if a.sm_most_mhz else Verdict.NA,
        DoctorFinding.GPU_CLOCKS.format(now=a.sm_mhz, most=a.sm_most_mhz, power=a.power_limit_w),
    )


def _environments(cache: Path, round_: str) -> list[Check]:
    results = []
    for name in dict.fromkeys(spec.environment for spec in SUTS.values()):
        devices = made_for(cache, name, round_)
        verdict = Verdict.NA
        detail: str = DoctorFinding.NO_ENVIRONMENT
        if devices:
            verdict = Verdict.PASS
            detail = DoctorFinding.ENVIRONMENT.format(devices=", ".join(devices))
        results.append(_finding(f"environment {name}", verdict, detail))
    return results


def _writable(cache: Path) -> Check:
    good = os.access(_existing(cache), os.W_OK)
    detail = DoctorFinding.WRITABLE if good else DoctorFinding.NOT_WRITABLE
    return _check("cache", good, detail, DoctorAdvice.CACHE, Verdict.FAIL)


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())
