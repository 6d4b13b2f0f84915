"""What the doctor finds, on this machine and on made-up ones."""

import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

from formats.checks import Verdict
from harness.commands import doctor
from harness.execution import machine
from harness.execution.environments import LOCKS
from tests.support import nvml as fake_nvml


def by_name(found):
    return {check.name: check for check in found}


def test_every_finding_that_asks_for_something_says_what_to_do(tmp_path):
    found = doctor.examine(tmp_path / "cache")
    hardware = {"disk", "memory", "governor", "frequency scaling"}
    assert hardware | {"interpreter", "C++ compiler", "other load"} <= set(by_name(found))
    assert all(check.fix for check in found if check.verdict in (Verdict.MANUAL, Verdict.FAIL))


@pytest.fixture
def described(monkeypatch):
    """Changes what the machine's description says."""
    known = machine.describe()

    def change(**values):
        monkeypatch.setattr(machine, "describe", lambda: replace(known, **values))

    return change


BUSY = {"load_average": [1.0, 1, 1], "threads": 2, "usable_threads": 2}


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("governor", {"governor": "powersave"}, "cpupower"),
        ("frequency scaling", {"boost": True}, "no_turbo"),
        ("processors", {"cpu_quota": 0.5}, "--threads auto"),
        ("processors", {"usable_threads": 1, "threads": 2}, "cpuset"),
        ("swap", {"swap_used_bytes": 1 << 20}, "swapoff"),
        ("clock", {"clock_source": "hpet"}, "clocksource=tsc"),
        ("other load", BUSY, "end other programs"),
        ("virtual machine", {"virtualisation": "QEMU"}, "in turns"),
    ],
)
def test_what_disturbs_a_measurement_gets_advice(described, tmp_path, name, changes, words):
    described(**changes)
    found = by_name(doctor.examine(tmp_path))[name]
    assert found.verdict is Verdict.MANUAL
    assert words in found.fix


def test_a_gpu_is_described_and_its_troubles_named(monkeypatch, tmp_path):
    nvml = fake_nvml.module()
    nvml.processes = ["somebody's"]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    found = by_name(doctor.examine(tmp_path))
    assert "H200, 139 GiB, driver 570.1" in found["gpu 0"].detail
    assert found["gpu 0 driver"].detail == "supports CUDA up to 12.8"
    assert found["gpu 0 driver"].verdict == found["gpu 0 others"].verdict
    assert "for CUDA 13, which needs driver 580 or newer" in found["gpu 0 driver"].fix
    for name in ("native-torch", "keras3-jax"):
        lock = (LOCKS / f"{name}-cuda.txt").read_text()
        assert f"nvidia-cuda-runtime=={doctor._CUDA}." in lock
    assert "nvidia-smi" in found["gpu 0 others"].fix
    assert "-pm 1" in found["gpu 0 persistence"].fix
    assert found["gpu 0 slices"].verdict is Verdict.PASS


def test_a_cache_nobody_may_write_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert by_name(doctor.examine(tmp_path))["cache"].verdict is Verdict.FAIL


def test_a_machine_that_is_clearly_busy_fails(described, tmp_path):
    described(load_average=[2.84, 1, 1], threads=2)
    assert by_name(doctor.examine(tmp_path))["other load"].verdict is Verdict.FAIL


def test_a_sandbox_that_tells_neither_its_cores_nor_its_swapping_is_described_without_a_warning(
    monkeypatch, tmp_path
):
    """Such as gVisor, which has no /proc/vmstat: psutil warns and counts no page that was swapped
    in or out.
    """

    def swap_memory():
        words = "'sin' and 'sout' swap memory stats couldn't be determined"
        warnings.warn(words, RuntimeWarning, stacklevel=2)
        return SimpleNamespace(used=0)

    monkeypatch.setattr(machine.psutil, "swap_memory", swap_memory)
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda logical=True: 2 if logical else None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = by_name(doctor.examine(tmp_path))
    assert found["processors"].detail.endswith("of 2 threads usable")
    assert found["swap"].verdict is Verdict.PASS
