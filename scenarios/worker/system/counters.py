"""Energy and clocks from the machine's own counters, read right before and right after a test. A
value is measured, or absent with the reason.

The sources are Linux powercap (Intel and AMD RAPL, Documentation/power/powercap/powercap.rst) for
whole processor packages, and NVML for whole GPUs. They count everything that runs there. They are
not the wall power that MLPerf Power requires, and nothing is estimated from them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from formats.outcome import Energy
from scenarios.worker.system.control_groups import text
from sut.devices import DEVICES

POWERCAP = Path("/sys/class/powercap")
# The limit for a zone that states none: no package draws more. A stated limit is for the average
# over seconds, so peaks may exceed it.
_MOST_WATTS = 1000.0
_PEAK = 1.5


@dataclass(frozen=True)
class Counter:
    """The counter of a source.

    Attributes:
        microjoules: since a moment of its own.
        span: where it starts again from 0; 0: it does not.
        wrap_s: it starts again at most once within so many seconds.
    """

    microjoules: int
    span: int = 0
    wrap_s: float = math.inf


@dataclass(frozen=True)
class Reading:
    """One reading of the counters, by their sources. `absent`: source → why it has none."""

    at_ns: int
    counters: Mapping[str, Counter]
    absent: Mapping[str, str] = field(default_factory=dict)
    clocks: Mapping[str, Any] = field(default_factory=dict)


def read(device: str, powercap: Path = POWERCAP) -> Reading:
    """Read every source that this process may read. It takes a few hundred microseconds and never
    raises.
    """
    found, absent = _packages(powercap)
    clocks: dict[str, Any] = {}
    if DEVICES[device].library == "nvml":
        microjoules, clocks, reason = _gpu()
        if reason:
            absent["gpu"] = reason
        else:
            found["gpu"] = Counter(microjoules)
    return Reading(time.monotonic_ns(), found, absent, clocks)


def between(before: Reading, after: Reading) -> Energy:
    """The energy spent from one reading to the other."""
    joules = {}
    absent = {**before.absent, **after.absent}
    seconds = (after.at_ns - before.at_ns) / 1e9
    for source in before.counters.keys() & after.counters.keys():
        first = before.counters[source]
        spent = after.counters[source].microjoules - first.microjoules
        if seconds > first.wrap_s:
            absent[source] = (
                f"the counter holds {first.span / 1e6:.0f} J and may have started again more than"
                f" once in {seconds:.0f} s"
            )
        elif spent < 0 and not first.span:
            absent[source] = "the counter was set back"
        else:
            joules[source] = (spent if spent >= 0 else spent + first.span) / 1e6
    return Energy(joules, absent, tuple(c for c in (before.clocks, after.clocks) if c))


def device_name(device: str) -> str:
    """The name of the device that this process uses. Empty: the system does not report it."""
    if DEVICES[device].library == "nvml":
        # The name of the first GPU that this process sees.
        with suppress(ImportError):
            import pynvml as nvml

            with suppress(nvml.NVMLError):
                nvml.nvmlInit()
                gpus = visible_gpus(nvml)
                return str(nvml.nvmlDeviceGetName(gpus[0])) if gpus else ""
        return ""
    if DEVICES[device].accelerator:
        return ""
    lines = text(Path("/proc/cpuinfo")).splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


def _packages(powercap: Path) -> tuple[dict[str, Counter], dict[str, str]]:
    """Read the zones `intel-rapl:N` with the name package-N; AMD's zones have the same names.
    Subzones are left out as parts of these zones, and psys because it is the whole platform.

    Returns (source → its counter, source → why it has none).
    """
    found: dict[str, Counter] = {}
    absent: dict[str, str] = {}
    for zone in sorted(powercap.glob("intel-rapl:*")):
        label = text(zone / "name")
        if not label.startswith("package"):
            continue
        name = f"cpu {label}"
        file = zone / "energy_uj"
        try:
            span = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
            microjoules = int(file.read_text(encoding="ascii"))
        except PermissionError:
            absent[name] = f"{file} is readable by root only (sudo chmod a+r {file})"
        except (OSError, ValueError) as e:
            absent[name] = f"{file} cannot be read: {e}"
        else:
            # The highest limit the zone states, with room for peaks.
            microwatts = [
                text(path)
                for pattern in ("constraint_*_max_power_uw", "constraint_*_power_limit_uw")
                for path in zone.glob(pattern)
            ]
            limits = [int(each) / 1e6 for each in microwatts if each.isdigit() and int(each)]
            most_watts = _PEAK * max(limits) if limits else _MOST_WATTS
            found[name] = Counter(microjoules, span, span / 1e6 / most_watts)
    if not found and not absent:
        absent["cpu"] = (
            "no powercap counter here (a virtual machine, not Linux, or a processor without RAPL)"
        )
    return found, absent


def _gpu() -> tuple[int, dict[str, Any], str]:
    """(microjoules since the driver was loaded of all GPUs that this process sees, clocks of the
    first one, why there is no energy). A worker sees one, and the LoadGen process of several
    replicas those of all.
    """
    try:
        import pynvml as nvml
    except ImportError:
        return 0, {}, "nvidia-ml-py is missing in the SUT's environment"
    clocks: dict[str, Any] = {}
    try:
        nvml.nvmlInit()
        visible = visible_gpus(nvml)
        if not visible:
            return 0, {}, "CUDA_VISIBLE_DEVICES names no GPU"
        clocks = _clocks(nvml, visible[0])
        with suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetMigMode(visible[0])[0]:
                return 0, clocks, "MIG is on: the counter is the whole GPU's, not the slice's"
        joules = [int(nvml.nvmlDeviceGetTotalEnergyConsumption(each)) for each in visible]
        return sum(joules) * 1000, clocks, ""
    except (nvml.NVMLError, ValueError) as e:
        return 0, clocks, f"NVML: {e}"
    finally:
        with suppress(nvml.NVMLError):  # it was not initialised
            nvml.nvmlShutdown()


def visible_gpus(nvml: Any) -> list[Any]:
    """NVML's handles of the GPUs that a framework may see, in the framework's order. NVML counts
    all GPUs of the machine by their place on the bus, and CUDA_DEVICE_ORDER gives workers the same
    order. As in CUDA, the list of CUDA_VISIBLE_DEVICES ends at its first wrong entry, and GPUs that
    this process may not use are not counted.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = []
    if named is None:
        for i in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):
                gpus.append(nvml.nvmlDeviceGetHandleByIndex(i))
        return gpus
    for entry in (e.strip() for e in named.split(",") if e.strip()):
        try:
            gpus.append(
                nvml.nvmlDeviceGetHandleByIndex(int(entry))
                if entry.isdigit()
                else nvml.nvmlDeviceGetHandleByUUID(entry)
            )
        except nvml.NVMLError:
            break
    return gpus


def _clocks(nvml: Any, handle: Any) -> dict[str, Any]:
    """Return the GPU's clocks, temperature, power limit and throttle reasons. A key is missing if
    the driver does not report its value.
    """
    asked: dict[str, Callable[[], Any]] = {
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "sm_most_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "throttle_reasons": lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    }
    clocks = {}
    for name, ask in asked.items():
        # Another release of nvidia-ml-py may lack a name.
        with suppress(nvml.NVMLError, AttributeError):
            clocks[name] = ask()
    return clocks
