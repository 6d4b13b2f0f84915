"""The folder of compiled programs: one for each environment, kind of machine and number
of threads."""

from dataclasses import replace
from pathlib import Path

from formats.job import Place
from harness.execution import kernels, machine
from harness.execution.environments import Environment
from tests.support.synthetic_runs import cell

ENVIRONMENT = Environment("keras3-jax", Path("python"), "0" * 64, ())


def test_another_environment_machine_device_or_number_of_threads_has_another_folder(tmp_path):
    here = machine.describe()
    other = replace(here, cpu_flags=(*here.cpu_flags, "avx10"))
    newer = replace(ENVIRONMENT, lock_sha256="1" * 64)
    folders = {
        kernels.folder(tmp_path, ENVIRONMENT, here, "cpu"),
        kernels.folder(tmp_path, ENVIRONMENT, here, "cuda"),
        kernels.folder(tmp_path, ENVIRONMENT, other, "cpu"),
        kernels.folder(tmp_path, newer, here, "cpu"),
        kernels.folder(tmp_path, ENVIRONMENT, here, "cpu", (Place(cores=tuple(range(99))),)),
    }
    assert len(folders) == 5
    assert kernels.folder(tmp_path, ENVIRONMENT, here, "cpu") in folders


def test_a_folder_that_the_user_names_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    found = kernels.variables(tmp_path)
    assert "JAX_COMPILATION_CACHE_DIR" not in found
    assert found["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")


def test_the_first_compile_time_is_kept_for_each_cell(tmp_path):
    one, other = cell(), cell(batch_size=1)
    kernels.note_first_seconds(tmp_path, one, 4.5)
    assert kernels.first_seconds(tmp_path, one) == 4.5
    assert kernels.first_seconds(tmp_path, other) is None
