"""A profile shows where a SUT loses time: what is slowed down on purpose is in its class."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from formats import reading
from formats.profile import OTHER, StepProfile
from sut.registry import SUTS
from tests.support.frameworks import run_module, tiny_workload

SUT = "native-torch-eager"
LAYERS, NORMS = 2, 5  # of BERT at size tiny
MOVED, NORM, PRODUCT = "data movement", "normalisation", "matrix product"


@pytest.fixture(scope="module")
def profiles(
    interpreter: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, StepProfile]:
    """Everything tests/sut/profile_cases.py left, from one task."""
    out = tmp_path_factory.mktemp("profile")
    python = interpreter(SUTS[SUT].environment)
    workload: Any = tiny_workload(SUT, "bert", out)
    run_module(python, "tests.sut.profile_cases", SUT, out / "spec.json", workload)
    found = json.loads((out / "profiles.json").read_text())
    return {case: reading.step_profile(step) for case, step in found.items()}


def calls(step: StepProfile, name: str) -> float:
    return sum(each.calls for each in step.operations if each.name == name)


def test_every_operator_of_bert_is_in_a_class(profiles):
    assert profiles["honest"].shares[OTHER] < 0.01


def test_a_norm_of_each_layer_is_seen(profiles):
    assert calls(profiles["honest"], "aten::native_layer_norm") == NORMS


def test_a_copy_in_each_layer_is_data_movement(profiles):
    honest, slow = profiles["honest"], profiles["copies_in_each_layer"]
    assert calls(slow, "aten::copy_") >= calls(honest, "aten::copy_") + LAYERS
    assert slow.seconds[MOVED] > 2 * honest.seconds[MOVED]
    assert slow.shares[MOVED] > honest.shares[MOVED] + 0.1


def test_a_norm_in_float64_is_normalisation(profiles):
    honest, slow = profiles["honest"], profiles["norms_in_float64"]
    assert slow.seconds[NORM] > 1.2 * honest.seconds[NORM]
    assert calls(slow, "aten::copy_") >= calls(honest, "aten::copy_") + 2 * NORMS
