"""A profile shows where a SUT loses time: what is slowed down on purpose is in its class."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from formats import reading
from formats.profile import OTHER, StepProfile
from sut.registry import SUTS
from tests.support.frameworks import run_module, tiny_workload

TORCH, JAX = "native-torch-eager", "native-jax"
SLOWED = ("copies_in_each_layer", "norms_in_float64")
LAYERS, NORMS = 2, 5  # of BERT at size tiny
MOVED, NORM, PRODUCT, ATTENTION = "data movement", "normalisation", "matrix product", "attention"

Profiles = Callable[[str], dict[str, StepProfile]]


@pytest.fixture(scope="module")
def profiles(
    interpreter: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Profiles:
    """SUT → everything tests/sut/profile_cases.py left of it, from one task."""
    out = tmp_path_factory.mktemp("profile")

    def of(sut: str) -> dict[str, StepProfile]:
        path = out / f"{sut}.json"
        if not path.exists():
            workload = tiny_workload(sut, "bert", out)
            cases = SLOWED if sut == TORCH else ()
            content = {"sut": sut, "workload": workload, "cases": cases}
            python = interpreter(SUTS[sut].environment)
            run_module(python, "tests.sut.profile_cases", sut, out / "spec.json", content)
        found = json.loads(path.read_text())
        return {case: reading.convert(step, StepProfile) for case, step in found.items()}

    return of


def calls(step: StepProfile, name: str) -> float:
    return sum(each.calls for each in step.operations if each.name == name)


@pytest.mark.parametrize("sut", [TORCH, JAX])
def test_what_bert_runs_is_in_a_class(profiles: Profiles, sut: str):
    honest = profiles(sut)["honest"]
    assert honest.shares[OTHER] < 0.02
    assert honest.seconds[PRODUCT] > 0 and honest.seconds[NORM] > 0
    assert honest.kernels > 20


@pytest.mark.parametrize("sut", [TORCH])
def test_each_norm_is_seen(profiles: Profiles, sut: str):
    assert calls(profiles(sut)["honest"], "aten::native_layer_norm") == NORMS


@pytest.mark.parametrize("sut", [TORCH])
def test_a_copy_of_each_layer_in_another_thread_is_data_movement(profiles: Profiles, sut: str):
    honest, slow = profiles(sut)["honest"], profiles(sut)["copies_in_each_layer"]
    assert calls(slow, "aten::copy_") == calls(honest, "aten::copy_") + LAYERS
    assert slow.shares[MOVED] > 0.5 > honest.shares[MOVED]


@pytest.mark.parametrize("sut", [TORCH])
def test_norms_in_float64_are_normalisation(profiles: Profiles, sut: str):
    honest, slow = profiles(sut)["honest"], profiles(sut)["norms_in_float64"]
    assert calls(slow, "aten::copy_") == calls(honest, "aten::copy_") + 2 * NORMS
    assert slow.shares[NORM] > 0.5 > honest.shares[NORM]
