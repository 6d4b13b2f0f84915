"""`./run.sh doctor` checks whether this machine is fit to measure on. Each finding has advice. With
`--limits` it measures what the frameworks reach here.

The verdict is FAIL only if nothing could run, or if the machine is so busy that every figure would
be wrong.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from formats.checks import Check, Verdict
from formats.record import Accelerator, Machine
from harness import terminal
from harness.commands import checks
from harness.errors import UsageError
from harness.execution import machine
from harness.request.flags import Parser, add_common
from scenarios.worker.preflight import available_memory_bytes

# From environments/*-cuda.txt and https://docs.nvidia.com/cuda/cuda-toolkit-release-notes, which
# lists the driver that each CUDA needs.
_CUDA = 13
_DRIVER = 580
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
    flags = _parser().parse_args(arguments)
    if flags.limits is not None:
        from harness.commands import limits  # the findings need none of its imports

        return limits.measure(flags, shlex.join(["./run.sh", "doctor", *arguments]))
    for name in ("python", "threads", "again"):
        if getattr(flags, name):
            raise UsageError(f"--{name}: is for the limits: also give --limits")
    results = examine(flags.cache.absolute())
    code = checks.show(results, flags)
    for c in results:
        if c.verdict is Verdict.MANUAL and not flags.json:
            terminal.advice(c)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "doctor",
        description="Is this machine fit to measure on, and what do the frameworks reach here?",
    )
    parser.add_argument(
        "--limits",
        nargs="?",
        const="",
        metavar="A,B",
        help=(
            "measure the speed that each framework reaches, by precision: matrix products and"
            " memory, about a minute each. A,B: only the environments of these SUTs, or `all`;"
            " default: those that are made. The cache keeps the figures until the machine, the"
            " packages or the environment variables change"
        ),
    )
    parser.add_argument(
        "--python", metavar="PATH", help="with --limits A: measure this interpreter as that of A"
    )
    parser.add_argument(
        "--threads", metavar="N", help="with --limits: as many threads as cells of --threads N"
    )
    parser.add_argument(
        "--again", action="store_true", help="with --limits: measure what is kept, too"
    )
    add_common(parser)
    return parser


def examine(cache: Path) -> list[Check]:
    """All findings about this machine, in the order in which they are shown."""
    m = machine.describe()
    gpus = [check for n, a in enumerate(m.accelerators) for check in _accelerator(n, a)]
    no_gpu = _finding("accelerator", Verdict.NA, "no NVIDIA driver answers: cells run on the CPU")
    existing = next(p for p in (cache, *cache.parents) if p.exists())
    can_write = os.access(existing, os.W_OK)
    return [
        *_tools(),
        *_memories(m, psutil.disk_usage(str(existing)).free),
        *_speeds(m),
        *_disturbances(m),
        *(gpus or [no_gpu]),
        _check(
            "cache",
            can_write,
            "writable" if can_write else "not writable",
            "give --cache DIR",
            Verdict.FAIL,
        ),
    ]


def _check(
    name: str, good: bool, detail: str, fix: str = "", bad: Verdict = Verdict.MANUAL
) -> Check:
    return _finding(name, Verdict.PASS if good else bad, detail, "" if good else fix)


def _reported(name: str, value: str | None, good: bool, fix: str) -> Check:
    """Check what the kernel reports. None: it does not."""
    if value is None:
        text = "the kernel does not report it (a virtual machine, or not Linux)"
        return _finding(name, Verdict.NA, text)
    return _check(name, good, value, fix)


def _finding(name: str, verdict: Verdict, detail: str, fix: str = "") -> Check:
    """Return a check whose id is made from its name. So a name must not change between versions."""
    check_id = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Check(check_id, name, verdict, detail, fix=fix)


def _tools() -> Iterator[Check]:
    """Check Python and what compiles: LoadGen if it has no wheel, and torch.compile's kernels on a
    CPU each time. It needs Python.h on a CPU and on a GPU.
    """
    yield _check(
        "interpreter",
        (3, 11) <= sys.version_info[:2] <= (3, 13),
        f"Python {platform.python_version()}",
        "LoadGen has wheels for Python 3.11 to 3.13",
        Verdict.FAIL,
    )
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), "")
    missing = "none found: native-torch-compile needs one on a CPU, and LoadGen if it has no wheel"
    yield _check(
        "C++ compiler",
        bool(compiler),
        Path(compiler).name or missing,
        "install g++ (Debian, Ubuntu: apt install g++)",
    )
    there = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    yield _check(
        "Python headers",
        there,
        "Python.h is there" if there else "no Python.h: native-torch-compile needs it",
        "install them (Debian, Ubuntu: apt install python3-dev)",
    )


def _memories(m: Machine, free_bytes: int) -> Iterator[Check]:
    """Check disk, memory and swap. `free_bytes`: on the disk of the cache."""
    yield _check(
        "disk",
        free_bytes > _LOW_DISK_BYTES,
        f"{free_bytes / 1e9:.1f} GB free for environments and weights",
        (
            f"all environments take about {_LOW_DISK_BYTES / 1e9:.0f} GB, a 7 B model 15 GB more:"
            " free some space, or give --cache DIR"
        ),
    )
    available = available_memory_bytes() or psutil.virtual_memory().available
    text = f"{available / 1e9:.1f} GB of {(m.memory_bytes or 0) / 1e9:.1f} GB available"
    if m.memory_limit_bytes:
        text += f", limited to {m.memory_limit_bytes / 1e9:.1f} GB"
    fix = "end other programs: the smallest cells need 2 GB"
    yield _check("memory", available > _LOW_MEMORY_BYTES, text, fix)
    used = m.swap_used_bytes or 0
    yield _check(
        "swap",
        not used,
        f"{used / 1e6:.0f} MB in use" if used else "none in use",
        (
            "memory was short: end other programs, then `sudo swapoff -a && sudo swapon -a`; if a"
            " cell swaps, its figures are those of the disk"
        ),
    )


def _speeds(m: Machine) -> Iterator[Check]:
    """Check the processors and their clocks. Frameworks start a thread for each processor that they
    see, even if a container grants only a share of it. Boost makes the first seconds faster than
    the tenth minute.
    """
    threads = m.threads
    usable = m.usable_threads or threads or 1
    text = f"{usable} of {threads} threads usable"
    if m.cores:
        text += f" ({m.cores} cores)"
    cpu_quota = m.cpu_quota
    if cpu_quota:
        text += f", a quota of {cpu_quota:g}"
    yield _check(
        "processors",
        usable == threads and (cpu_quota is None or cpu_quota >= usable),
        text,
        (
            "lift the container's CPU limit, or pin it to whole processors (--cpuset-cpus);"
            " --threads auto gives SUTs at most the quota, rounded up"
        ),
    )
    fix = "sudo cpupower frequency-set -g performance"
    yield _reported("governor", m.governor, m.governor == "performance", fix)
    boost = None
    if m.boost is not None:
        state = "on" if m.boost else "off"
        boost = f"boost {state}, {m.frequency_now_mhz} MHz now, {m.frequency_mhz} at most"
    fix = (
        "for figures that repeat, switch boost off: echo 0 | sudo tee"
        " /sys/devices/system/cpu/cpufreq/boost (Intel: echo 1 | sudo tee"
        " /sys/devices/system/cpu/intel_pstate/no_turbo)"
    )
    yield _reported("frequency scaling", boost, not m.boost, fix)
    fix = "a slow clock adds to every latency: boot with clocksource=tsc"
    yield _reported("clock", m.clock_source, m.clock_source in _FAST_CLOCKS, fix)


def _disturbances(m: Machine) -> Iterator[Check]:
    """Check what other programs and other machines use now."""
    one_minute = m.load_average[0]
    threads = m.threads or 1
    yield _check(
        "other load",
        one_minute < _BUSY_LOAD_PER_THREAD * threads,
        f"load average {one_minute:.2f} over the last minute on {threads} threads",
        "end other programs, and wait a minute: they make every figure worse",
        Verdict.MANUAL if one_minute < threads else Verdict.FAIL,
    )
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            process.cpu_percent()
            processes.append(process)
    time.sleep(_LOOK_S)
    busy = []
    for process in processes:
        with suppress(psutil.Error):
            percent = process.cpu_percent()
            if percent > _BUSY_PROCESS_PERCENT and process.pid != os.getpid():
                busy.append((percent, process.name(), process.pid))
    texts = [f"{name} (process {pid}) {n:.0f} %" for n, name, pid in sorted(busy, reverse=True)]
    detail = ", ".join(texts[:5]) or "none above 5 % of a processor"
    yield _check("other processes", not busy, detail, "end them, or wait until they are done")
    yield _check(
        "virtual machine",
        m.virtualisation is None,
        m.virtualisation or "no hypervisor",
        (
            "other machines on the same host change the figures: measure rival cells in turns (A"
            " B A B …), and compare their medians"
        ),
    )


def _accelerator(n: int, a: Accelerator) -> Iterator[Check]:
    """Check one GPU. Values that the driver does not report are not counted as faults."""
    yield _finding(
        f"gpu {n}",
        Verdict.PASS,
        f"{a.name}, {a.memory_bytes / 2**30:.0f} GiB, driver {a.driver}",
    )
    cuda = a.cuda or "unknown"
    yield _check(
        f"gpu {n} driver",
        a.cuda is None or int(a.cuda.partition(".")[0]) >= _CUDA,
        f"supports CUDA up to {cuda}",
        (
            f"the environments of PyTorch and JAX are for CUDA {_CUDA}, which needs driver"
            f" {_DRIVER} or newer: update it, or take --python"
        ),
    )
    used_bytes = a.used_memory_bytes or 0
    processes = a.processes or 0
    yield _check(
        f"gpu {n} others",
        not a.processes,
        f"{processes} processes on it, {used_bytes / 2**30:.1f} GiB in use",
        "end them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES",
    )
    yield _check(
        f"gpu {n} persistence",
        a.persistence is not False,
        {True: "on", False: "off", None: "not reported"}[a.persistence],
        (
            "sudo nvidia-smi -pm 1: otherwise the driver unloads between cells, and the first"
            " call takes longer"
        ),
    )
    yield _check(
        f"gpu {n} slices",
        not a.mig,
        "MIG is on" if a.mig else "the whole GPU",
        (
            "a slice shares the GPU with others: its figures are those of the slice, and its"
            " energy is not reported"
        ),
    )
