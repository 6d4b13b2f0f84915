"""Environment variables that change what a framework runs: refused, part of the cell, or
neither.
"""

import pytest

from harness.errors import UsageError
from sut import variables
from sut.registry import SUTS
from tests.support.cells import request

TENSORFLOW, JAX, TORCH = (
    SUTS["keras3-tensorflow-graph"],
    SUTS["keras3-jax"],
    SUTS["native-torch-compile"],
)


@pytest.mark.parametrize(
    ("spec", "device", "name"),
    [
        (TENSORFLOW, "cpu", "TF_XLA_FLAGS"),
        (TENSORFLOW, "cpu", "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE"),
        (TENSORFLOW, "cpu", "TF_SET_ONEDNN_FPMATH_MODE"),
        (TENSORFLOW, "cuda", "NVIDIA_TF32_OVERRIDE"),
        (JAX, "cpu", "JAX_ENABLE_X64"),
        (JAX, "cpu", "JAX_DISABLE_JIT"),
        (JAX, "cuda", "JAX_DEFAULT_MATMUL_PRECISION"),
        (TORCH, "cpu", "TORCH_COMPILE_DISABLE"),
        (TORCH, "cpu", "TORCHDYNAMO_DISABLE"),
        (TORCH, "cpu", "ONEDNN_DEFAULT_FPMATH_MODE"),
    ],
)
def test_what_changes_execution_or_precision_is_refused_with_its_name(spec, device, name):
    assert variables.refusal(spec, device, {name: "1"}).startswith(
        f"{name}=1 is set in the environment: it changes"
    )
    assert variables.refusal(spec, device, {name: ""}) is None


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (TORCH, "TF_XLA_FLAGS"),
        (JAX, "TORCH_COMPILE_DISABLE"),
        (TORCH, "NVIDIA_TF32_OVERRIDE"),
        (TENSORFLOW, "JAX_ENABLE_X64"),
    ],
)
def test_a_variable_that_the_sut_does_not_read_is_neither_refused_nor_part_of_its_cell(spec, name):
    assert variables.refusal(spec, "cpu", {name: "1"}) is None
    assert variables.of_cell(spec, "cpu", {name: "1"}) == {}


def test_what_may_change_a_figure_is_part_of_the_cell_and_places_and_logs_are_not():
    set_by_user = {
        "OMP_NUM_THREADS": "1",
        "XLA_FLAGS": "--x",
        "LD_PRELOAD": "libtcmalloc.so",
        "MALLOC_CONF": "x",
    }
    others = {
        "TORCHINDUCTOR_CACHE_DIR": "/x",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "1",
        "HOME": "/",
        "KERAS_BACKEND": "jax",
    }
    assert variables.of_cell(JAX, "cuda", set_by_user | others) == dict(sorted(set_by_user.items()))


def test_a_cell_with_such_a_variable_is_another_cell(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    without = request(tmp_path).cell()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    asked = request(tmp_path)
    assert asked.cell().digest != without.digest
    assert any("OMP_NUM_THREADS=1" in reason for reason in asked.reasons)
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    with pytest.raises(UsageError, match="ONEDNN_DEFAULT_FPMATH_MODE=BF16 is set"):
        request(tmp_path)
