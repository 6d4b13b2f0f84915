"""The limits that the cache keeps: found for the same machine, packages and variables only."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from formats.record import Accelerator, SutEnvironment
from formats.writing import write_json
from harness.errors import EnvironmentFailure
from harness.execution import limits, machine
from harness.execution.environments import Environment
from tests.support.files import program, read_json
from tests.support.limits_values import limits as values
from tests.support.limits_values import measured

TORCH = SutEnvironment(name="native-torch", lock_sha256="0" * 64, versions={})
GPU = Accelerator(name="H200", memory_bytes=1 << 37, driver="580.1", power_limit_w=700.0)


@pytest.fixture(scope="module")
def here():
    return machine.describe()


def keep(cache, environment, here, device="cpu", **others):
    """Keep the limits of one precision as if they were measured."""
    made_with = limits.facts(environment, here, device)
    path = limits.file(cache, made_with)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, measured(values(device=device, **others), made_with=made_with))
    return path


def test_kept_limits_are_found_by_their_precision(tmp_path, here):
    keep(tmp_path, TORCH, here)
    found = limits.known(tmp_path, TORCH, here, "cpu", "float32")
    assert found == values()
    assert limits.known(tmp_path, TORCH, here, "cpu", "bfloat16") is None


def test_limits_of_a_machine_with_a_gpu_are_found_again(tmp_path, here):
    with_gpu = replace(here, accelerators=(GPU,), cpu_quota=1.5)
    keep(tmp_path, TORCH, with_gpu, "cuda")
    assert limits.known(tmp_path, TORCH, with_gpu, "cuda", "float32")


@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "another"},
        {"cpu_flags": ("avx10",)},
        {"usable_threads": 1},
        {"cpu_quota": 0.5},
        {"governor": "powersave"},
        {"accelerators": (GPU,)},
    ],
)
def test_another_machine_has_no_limits(tmp_path, here, change):
    keep(tmp_path, TORCH, here)
    assert limits.read(tmp_path, TORCH, replace(here, **change), "cpu") is None


@pytest.mark.parametrize(
    "change",
    [
        {"lock_sha256": "1" * 64},
        {"name": "keras3-torch"},
        {"variables": {"OMP_NUM_THREADS": "1"}},
        {"variables": {"TORCHINDUCTOR_FREEZING": "1"}},
    ],
)
def test_another_environment_has_no_limits(tmp_path, here, change):
    keep(tmp_path, TORCH, here)
    assert limits.read(tmp_path, replace(TORCH, **change), here, "cpu") is None


def test_variables_of_other_frameworks_and_devices_change_no_limits(tmp_path, here):
    keep(tmp_path, TORCH, here)
    other = replace(TORCH, variables={"XLA_FLAGS": "--x", "TORCH_LOGS": "+all"})
    assert limits.read(tmp_path, other, here, "cpu")
    assert limits.read(tmp_path, TORCH, here, "cuda") is None


def test_another_format_of_the_measurement_has_no_limits(tmp_path, here, monkeypatch):
    keep(tmp_path, TORCH, here)
    monkeypatch.setattr(limits, "_FORMAT", 0)
    assert limits.read(tmp_path, TORCH, here, "cpu") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": "limits-1"}'])
def test_a_damaged_file_is_measured_again(tmp_path, here, text):
    path = keep(tmp_path, TORCH, here)
    path.write_text(text)
    assert limits.read(tmp_path, TORCH, here, "cpu") is None


def test_a_record_and_the_command_have_the_same_limits(tmp_path, here, monkeypatch):
    """The record of a run has all variables of any framework, and the environment's own name."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("XLA_FLAGS", "--x")
    own = Environment("native-torch (--python)", Path("python"), "0" * 64)
    path = keep(tmp_path, limits.recorded(own), here)
    kept = read_json(path)["made_with"]["variables"]
    assert kept["OMP_NUM_THREADS"] == "2"
    assert "XLA_FLAGS" not in kept
    record = replace(limits.recorded(own), versions={"torch": "2"}, python="")
    assert limits.read(tmp_path, record, here, "cpu")


def worker(tmp_path, body):
    """An environment whose interpreter is a shell script."""
    return Environment("native-torch", program(tmp_path / "python", body), "0" * 64)


def test_a_worker_that_ends_early_is_an_error_with_its_last_words(tmp_path, here):
    environment = worker(tmp_path, "echo 'MemoryError: too much' >&2; exit 1")
    with pytest.raises(EnvironmentFailure, match="native-torch: MemoryError: too much"):
        limits.measure(tmp_path, environment, here, "cpu")
    assert not (tmp_path / "limits").exists()


def test_what_a_worker_measured_is_kept(tmp_path, here):
    document = {"limits": [], "lacking": {"float16": "RuntimeError: no product"}}
    # The last argument is the path of the job; the result is written next to it.
    body = f"for job; do :; done; echo '{json.dumps(document)}' > \"$(dirname $job)/limits.json\""
    environment = worker(tmp_path, body)
    found = limits.measure(tmp_path, environment, here, "cpu")
    assert found.lacking == document["lacking"]
    assert limits.read(tmp_path, limits.recorded(environment), here, "cpu") == found


def test_arrays_are_larger_than_the_last_level_caches_and_fit_into_memory(here, monkeypatch):
    monkeypatch.setattr(limits, "available_memory_bytes", lambda: 1 << 40)
    for caches in (0, 1 << 20, 1 << 30):
        monkeypatch.setattr(machine, "last_level_caches_bytes", lambda caches=caches: caches)
        assert limits._array_bytes(here, "cpu") >= max(4 * caches, 1 << 28)
    monkeypatch.setattr(limits, "available_memory_bytes", lambda: 1 << 30)
    with pytest.raises(EnvironmentFailure, match="fit into the processor's last-level caches"):
        limits._array_bytes(here, "cpu")
    monkeypatch.setattr(machine, "last_level_caches_bytes", lambda: 1 << 20)
    assert limits._array_bytes(here, "cpu") == 1 << 26
