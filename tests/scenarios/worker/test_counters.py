"""Energy counters: on a made-up powercap tree and a made-up NVML, since few machines let a test
read real ones.
"""

import math
import sys

import pytest

from scenarios.worker.system import counters
from scenarios.worker.system.counters import Counter, Reading
from tests.support import nvml as fake_nvml


def zone(root, name, label, microjoules, span=1_000_000_000):
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(label + "\n")
    (folder / "max_energy_range_uj").write_text(f"{span}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder / "energy_uj"


def spent(device, powercap):
    """The energy between two readings, one after the other."""
    return counters.between(*(counters.read(device, powercap) for _ in range(2)))


def test_packages_are_read_and_their_parts_are_not(tmp_path):
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 4_000_000)
    before = counters.read("cpu", tmp_path)
    counter.write_text("7500000\n")
    found = counters.between(before, counters.read("cpu", tmp_path))
    assert (found.joules, found.absent) == ({"cpu package-0": 2.5}, {})


def test_a_machine_without_counters_says_so(tmp_path):
    found = spent("cpu", tmp_path / "none")
    assert not found.joules
    assert "no powercap counter" in found.absent["cpu"]


def test_a_counter_that_is_no_number_is_absent(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", "garbage")
    found = spent("cpu", tmp_path)
    assert not found.joules
    assert "cannot be read" in found.absent["cpu package-0"]


def reading(seconds, microjoules, span=100_000_000_000):
    wrap_s = span / 1e9 if span else math.inf
    return Reading(int(seconds * 1e9), {"p": Counter(microjoules, span, wrap_s)})


@pytest.mark.parametrize(
    ("before", "after", "joules", "words"),
    [
        (reading(0, 99_999_000_000), reading(1, 4_000_000), {"p": 5.0}, ""),
        (reading(0, 10), reading(101, 2_000_000), {}, "more than once"),
        (reading(0, 10, span=0), reading(1, 2, span=0), {}, "the counter was set back"),
    ],
)
def test_a_counter_that_started_again_is_followed_once(before, after, joules, words):
    found = counters.between(before, after)
    assert found.joules == joules
    assert words in found.absent.get("p", "")
    assert bool(found.absent) == bool(words)


@pytest.fixture
def nvml(monkeypatch):
    module = fake_nvml.module()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return module


def test_a_gpu_tells_its_energy_and_clocks(nvml, tmp_path):
    found = spent("cuda", tmp_path)
    assert found.joules == {"gpu": 1.5}
    clocks = {"sm_mhz": 1980, "sm_most_mhz": 1980, "memory_mhz": 3201}
    assert found.clocks[0] == clocks | {"temperature_c": 41, "throttle_reasons": 1}


@pytest.mark.parametrize(
    ("visible", "handles"),
    [("2,3", [2, 3]), ("GPU-ab", ["GPU-ab"]), ("1,-1,2", [1]), ("", []), (None, [0])],
)
def test_the_gpus_are_those_the_framework_sees(nvml, monkeypatch, visible, handles):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert counters.visible_gpus(nvml) == handles


def test_no_visible_gpu_has_no_figure(nvml, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert counters.read("cuda", tmp_path).absent["gpu"] == "CUDA_VISIBLE_DEVICES names no GPU"


def wrap_s(powercap):
    found = counters.read("cpu", powercap).counters
    return {source: counter.wrap_s for source, counter in found.items()}


def test_a_stated_power_limit_tells_how_soon_a_counter_starts_again(tmp_path):
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 0, 262_143_000_000)
    zone(tmp_path, "intel-rapl:1", "psys", 0)
    assert wrap_s(tmp_path) == {"cpu package-0": pytest.approx(262.143)}
    (counter.parent / "constraint_0_max_power_uw").write_text("225000000\n")
    (counter.parent / "constraint_1_max_power_uw").write_text("0\n")
    assert wrap_s(tmp_path) == {"cpu package-0": pytest.approx(262_143 / 337.5)}


def test_a_slice_of_a_gpu_has_no_figure(nvml, tmp_path):
    nvml.nvmlDeviceGetMigMode = lambda _: (1, 1)
    found = spent("cuda", tmp_path)
    assert not found.joules
    assert "MIG" in found.absent["gpu"]


def test_a_gpu_that_counts_no_energy_still_tells_its_clocks(nvml, tmp_path):
    nvml.nvmlDeviceGetTotalEnergyConsumption = nvml.nvmlDeviceGetEnforcedPowerLimit
    reading = counters.read("cuda", tmp_path)
    assert (reading.absent["gpu"], reading.clocks["sm_mhz"]) == ("NVML: not supported", 1980)


def test_a_gpu_that_this_process_may_not_use_is_not_one_of_its_gpus(nvml, monkeypatch):
    def handle(i):
        if i == 0:
            raise nvml.NVMLError("insufficient permissions")
        return i

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml.nvmlDeviceGetCount, nvml.nvmlDeviceGetHandleByIndex = lambda: 3, handle
    assert counters.visible_gpus(nvml) == [1, 2]


def test_without_nvml_the_reason_stands(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py" in counters.read("cuda", tmp_path).absent["gpu"]
