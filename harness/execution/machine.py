"""Facts about this machine for the system description, the record, the defaults and the doctor.
Nothing is guessed: None means unknown.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from compliance.logs.files import source_digest
from formats.record import Accelerator, Git, Machine
from harness.execution import wheels
from harness.execution.environments import ROOT
from scenarios.worker.replicas.placement import NODE
from scenarios.worker.system import control_groups, counters
from sut.evidence import matrix_library

_OF_JOBS = ("SLURM_JOB_ID", "RAY_JOB_ID", NODE)
"""Variables that a job of a cluster has."""


def accelerators() -> list[Accelerator]:
    """The NVIDIA GPUs that a worker may use (CUDA_VISIBLE_DEVICES), by NVML. Empty without a
    driver. A cell runs on the first.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_accelerator(pynvml, handle) for handle in counters.visible_gpus(pynvml)]
    finally:
        pynvml.nvmlShutdown()


def hold_open() -> None:
    """Hold the driver open. If it is not persistent, each opening starts the GPU again."""
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()


def _accelerator(nvml: Any, handle: Any) -> Accelerator:
    def answer(ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except nvml.NVMLError:
            return None

    power_mw = answer(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    mig = answer(nvml.nvmlDeviceGetMigMode, handle)
    # If the GPU has slices, CUDA uses the first.
    is_sliced = bool(mig and mig[0])
    part = answer(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, 0) if is_sliced else None
    # A GPU that shares the machine's memory reports no memory.
    memory = answer(nvml.nvmlDeviceGetMemoryInfo, part or handle)
    cuda = answer(nvml.nvmlSystemGetCudaDriverVersion_v2)
    persistence = answer(nvml.nvmlDeviceGetPersistenceMode, handle)
    held_by = answer(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    clock = nvml.NVML_CLOCK_SM
    return Accelerator(
        name=_text(answer(nvml.nvmlDeviceGetName, handle) or "an NVIDIA GPU"),
        memory_bytes=int(memory.total) if memory else psutil.virtual_memory().total,
        driver=_text(answer(nvml.nvmlSystemGetDriverVersion) or "unknown"),
        cuda=cuda and f"{cuda // 1000}.{cuda % 1000 // 10}",
        used_memory_bytes=int(memory.used) if memory else None,
        sm_mhz=answer(nvml.nvmlDeviceGetClockInfo, handle, clock),
        sm_most_mhz=answer(nvml.nvmlDeviceGetMaxClockInfo, handle, clock),
        power_limit_w=power_mw and power_mw / 1000,
        persistence=None if persistence is None else bool(persistence),
        mig=None if mig is None else is_sliced,
        processes=None if held_by is None else len(held_by),
    )


def gpus_without_nvml() -> int:
    """Count the GPUs that CUDA finds without NVML. 0 if there is no CUDA driver.

    A container may have the driver and lack NVML (NVIDIA_DRIVER_CAPABILITIES without `utility`).
    """
    count = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        cuda = ctypes.CDLL("libcuda.so.1")
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def command_started_monotonic_ns() -> int:
    """When the user's command began, on the monotonic clock. run.sh becomes this process by exec,
    so the start of this process counts.
    """
    # This may be a second off: Linux reports its own start in whole seconds.
    age_s = time.time() - psutil.Process().create_time()
    with suppress(OSError, ValueError, IndexError, AttributeError):
        # proc_pid_stat(5)
        started_ticks = int(
            Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]
        )
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic_ns() - int(age_s * 1e9)


def describe() -> Machine:
    """The present state of this machine."""
    text = _read("/proc/cpuinfo") or ""
    first = text.split("\n\n")[0]
    cpu = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in first.splitlines())}
    frequency = None
    with suppress(OSError, NotImplementedError):
        frequency = psutil.cpu_freq()
    system = None
    with suppress(OSError):
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    vendor = None
    if "hypervisor" in cpu.get("flags", ""):
        vendor = _read("/sys/class/dmi/id/sys_vendor") or "vendor not told"
    disk = psutil.disk_usage(str(ROOT))
    in_job = any(name in os.environ for name in _OF_JOBS)
    return Machine(
        node=platform.node() if in_job else None,
        cpu=cpu.get("model name") or platform.processor() or platform.machine(),
        # An ARM processor has no name there, but numbers of its maker and its part.
        cpu_family=cpu.get("cpu family") or cpu.get("CPU implementer"),
        cpu_model=cpu.get("model") or cpu.get("CPU part"),
        cpu_stepping=cpu.get("stepping"),
        cpu_flags=tuple(cpu.get("flags", "").split()),
        sockets=len(set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.M))) or None,
        cores=psutil.cpu_count(logical=False),
        threads=psutil.cpu_count(),
        usable_threads=matrix_library.processors(),
        frequency_mhz=round(frequency.max) if frequency and frequency.max else None,
        frequency_now_mhz=round(frequency.current) if frequency else None,
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        boost=_boost(),
        cpu_quota=control_groups.processors(),
        clock_source=_read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        swap_used_bytes=_swap_used(),
        caches=_caches(),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=control_groups.memory_bytes(),
        disk_bytes=disk.total,
        disk_free_bytes=disk.free,
        disk_kind=_disk_kind(),
        network_cards=len(list(Path("/sys/class/net").glob("*/device"))),
        operating_system=system or platform.platform(),
        kernel=f"{platform.system()} {platform.release()}",
        virtualisation=vendor,
        load_average=os.getloadavg(),
        accelerators=tuple(accelerators()),
    )


SOURCES = (
    "run.sh",
    "harness",
    "results",
    "scenarios",
    "sut",
    "compliance",
    "formats",
    "environments",
)
"""The source that a figure depends on. Changes to other files do not make the checkout dirty."""


def git() -> Git:
    """The revision of this source tree, and the changed files. In a bundle both are in its
    manifest.
    """
    source = source_digest(ROOT)
    if wheels.bundle(ROOT) == ROOT:
        dirty = wheels.manifest(ROOT)["dirty"]
        return Git(revision=revision(), dirty=dirty, worker_source_sha256=source)
    changed = _git("status", "--porcelain", "--", *SOURCES)
    return Git(
        revision=revision(),
        dirty=None if changed is None else bool(changed),
        changed=tuple((changed or "").splitlines()[:50]),
        worker_source_sha256=source,
    )


@cache
def revision() -> str | None:
    """The revision of this source tree. None: it is neither a checkout nor a bundle."""
    if wheels.bundle(ROOT) == ROOT:
        return str(wheels.manifest(ROOT)["revision"])
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str | None:
    try:
        process = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def _swap_used() -> int:
    with warnings.catch_warnings():
        # psutil warns if /proc/vmstat is missing, which counts pages that were swapped in and out.
        warnings.simplefilter("ignore", RuntimeWarning)
        return int(psutil.swap_memory().used)


def _caches() -> str | None:
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    names = []
    for index in sorted(base.glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        names.append(f"L{level}{'' if kind == 'Unified' else (kind or '')[:1].lower()} {size}")
    return ", ".join(names) or None


def last_level_caches_bytes() -> int:
    """The bytes of all last-level caches together. 0: the system does not report them."""
    sizes: dict[str, int] = {}  # processors that share a cache → its bytes
    for cpu in Path("/sys/devices/system/cpu").glob("cpu[0-9]*"):
        levels = {_read(index / "level") or "": index for index in cpu.glob("cache/index*")}
        if not levels:
            continue
        last = levels[max(levels)]
        kibibytes = (_read(last / "size") or "").removesuffix("K")
        shared = _read(last / "shared_cpu_list") or cpu.name
        sizes[shared] = 1024 * int(kibibytes) if kibibytes.isdigit() else 0
    return sum(sizes.values())


def _boost() -> bool | None:
    """Whether the processor may run above its base frequency."""
    if (flag := _read("/sys/devices/system/cpu/cpufreq/boost")) is not None:
        return flag == "1"
    flag = _read("/sys/devices/system/cpu/intel_pstate/no_turbo")
    return None if flag is None else flag == "0"


def _disk_kind() -> str | None:
    """Return the kind and the name of the disk with this source tree: `HDD (sda)`, `SSD (sda)` or
    `virtual disk (vda)`.

    The kernel's `rotational` flag of the block device decides between HDD and SSD. None if there is
    no such flag.
    """
    with suppress(OSError):
        device = ROOT.stat().st_dev
        node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        for place in (node, node.parent):
            flag = _read(place / "queue/rotational")
            if flag is not None:
                if place.name.startswith(("vd", "xvd")):
                    return f"virtual disk ({place.name})"  # its `rotational` flag has no meaning
                return f"{'HDD' if flag == '1' else 'SSD'} ({place.name})"
    return None


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
