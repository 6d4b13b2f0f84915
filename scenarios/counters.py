"""Energy and clocks by the machine's own counters, read right before and right after a test: measured, or absent with the reason.

Sources: Linux powercap (Intel and AMD RAPL, Documentation/power/powercap/powercap.rst) for whole processor packages, NVML for whole GPUs.
They count everything that runs there, they are not the wall power MLPerf Power asks for, and nothing is estimated from them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
# No package draws more: within range / this many watts a counter wraps at most once.
_MOST_WATTS = 1000


@dataclass(frozen=True)
class Reading:
    """`microjoules`: of each source since some moment of its own. `ranges`: where a counter starts again from 0."""

    at_ns: int
    microjoules: Mapping[str, int]
    ranges: Mapping[str, int]
    absent: Mapping[str, str]
    clocks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Energy:
    """`joules`: by source; `absent`: source → why there is no figure; `clocks`: of the GPU, before and after."""

    joules: Mapping[str, float]
    absent: Mapping[str, str]
    clocks: tuple[Mapping[str, Any], ...] = ()


def read(device: str, powercap: Path = POWERCAP) -> Reading:
    """Every source this process may read. A few hundred microseconds; never raises."""
    found, ranges, absent = _packages(powercap)
    clocks: dict[str, Any] = {}
    if device == "cuda":
        gpu, clocks, reason = _gpu()
        found |= gpu
        absent |= {"gpu": reason} if reason else {}
    return Reading(time.monotonic_ns(), found, ranges, absent, clocks)


def between(before: Reading, after: Reading) -> Energy:
    """Of the span from one reading to the other."""
    joules, absent = {}, {**before.absent, **after.absent}
    seconds = (after.at_ns - before.at_ns) / 1e9
    for source in before.microjoules.keys() & after.microjoules.keys():
        spent, span = after.microjoules[source] - before.microjoules[source], before.ranges.get(source)
        if span and seconds * _MOST_WATTS * 1e6 > span:
            absent[source] = f"the counter holds {span / 1e6:.0f} J and may have started again more than once in {seconds:.0f} s"
        elif spent < 0 and not span:
            absent[source] = "the counter was set back"
        else:
            joules[source] = (spent + span if spent < 0 and span else spent) / 1e6
    return Energy(joules, absent, tuple(c for c in (before.clocks, after.clocks) if c))


def _packages(powercap: Path) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    """Zones `intel-rapl:N` are packages; AMD's have the same name. Their subzones are parts of them and are left out."""
    found, ranges, absent = {}, {}, {}
    for zone in sorted(p for p in powercap.glob("intel-rapl:*") if p.name.count(":") == 1):
        name = f"cpu {_text(zone / 'name') or zone.name}"
        try:
            found[name] = int((zone / "energy_uj").read_text(encoding="ascii"))
            ranges[name] = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
        except PermissionError:
            absent[name] = f"{zone / 'energy_uj'} is readable by root only (sudo chmod a+r {zone}/energy_uj)"
        except (OSError, ValueError) as e:
            absent[name] = f"{zone / 'energy_uj'} cannot be read: {e}"
        if name in absent:
            found.pop(name, None)
    if not found and not absent:
        absent["cpu"] = "no powercap counter here (a virtual machine, not Linux, or a processor without RAPL)"
    return found, ranges, absent


def _gpu() -> tuple[dict[str, int], dict[str, Any], str]:
    """(microjoules since the driver was loaded, clocks, reason) of the first GPU this process sees."""
    try:
        import pynvml as nvml
    except ImportError:
        return {}, {}, "nvidia-ml-py is missing in the SUT's environment"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as e:
        return {}, {}, f"NVML: {e}"
    try:
        handle = _visible(nvml)
        return {"gpu": int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1000}, _clocks(nvml, handle), ""
    except (nvml.NVMLError, ValueError) as e:
        return {}, {}, f"NVML: {e}"
    finally:
        nvml.nvmlShutdown()


def _visible(nvml: Any) -> Any:
    """NVML counts the machine's GPUs, frameworks those of CUDA_VISIBLE_DEVICES. Raises ValueError for a slice of a GPU."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    if first.startswith("MIG-"):
        raise ValueError("a MIG slice has no energy counter of its own")
    return nvml.nvmlDeviceGetHandleByUUID(first) if first.startswith("GPU-") else nvml.nvmlDeviceGetHandleByIndex(int(first))


def _clocks(nvml: Any, handle: Any) -> dict[str, Any]:
    """What the driver tells; a key is left out where it does not."""
    asked: dict[str, Callable[[], Any]] = {
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "sm_most_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "throttle_reasons": lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    }
    found = {}
    for name, ask in asked.items():
        with suppress(nvml.NVMLError):
            found[name] = ask()
    return found


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return ""
