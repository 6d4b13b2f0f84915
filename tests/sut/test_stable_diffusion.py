"""Stable Diffusion: a SUT that is intact passes its accuracy test, a broken one fails it; every tensor has one place in each library."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.disagreement import MeasuredSize
from compliance.scoring.accuracy import Accuracy
from harness.inputs import limits, models
from sut.registry import REFERENCE
from sut.weight_maps import stable_diffusion as weight_map
from tests.conftest import CACHE
from tests.sut import stable_diffusion_cases as broken

MODEL = models.load("stable-diffusion")
TINY = replace(MODEL.sizes["tiny"], inputs={**MODEL.sizes["tiny"].inputs, "quick_samples": 4})
KERAS = ("keras3-jax", "keras2-tensorflow-graph")
CASES = {
    "native-torch-eager": [*broken.INPUTS, *(case for case in broken.BROKEN if case != broken.KERAS)],
    **dict.fromkeys(KERAS, ["prompts permuted", "noise permuted", broken.KERAS]),
}
OF_THE_ENCODER = ("vae/encoder.", "vae/quant_conv.")
"""What the names of the tensors begin with that make no image; `test_fit` trains them."""


@pytest.fixture(scope="session")
def answered(interpreter: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[MeasuredSize, Path]]:
    """SUT → (its cell, the folder with the answers of every case): one process for each."""
    folder = tmp_path_factory.mktemp("stable-diffusion")
    cell = MeasuredSize(MODEL, TINY, "cpu", folder, CACHE)
    done: set[str] = set()

    def answer(sut: str) -> tuple[MeasuredSize, Path]:
        if not done:
            cell.answer(REFERENCE, "float32")
        if sut not in done:
            done.add(sut)
            cell.answer(sut, "float32", "tests.sut.stable_diffusion_cases", cases=["intact", *CASES[sut]], folder=str(folder))
        return cell, folder

    return answer


@pytest.fixture(scope="session")
def scored(answered: Callable[[str], tuple[MeasuredSize, Path]]) -> Callable[[str, str, str], Accuracy]:
    def score(sut: str, case: str, precision: str = "float32") -> Accuracy:
        cell, folder = answered(sut)
        return cell.score(
            folder / f"{sut} {case}.npz", limits.limits(MODEL, cell.size, precision, "cuda" if precision == "tf32" else "cpu")
        )

    return score


@pytest.fixture(scope="session")
def seen(answered: Callable[[str], tuple[MeasuredSize, Path]]) -> Callable[[str], Any]:
    return lambda sut: json.loads((answered(sut)[1] / f"{sut}.json").read_text())


@pytest.mark.parametrize("sut", CASES)
def test_an_intact_sut_agrees_to_rounding(scored, sut):
    found = scored(sut, "intact")
    assert found.passed
    assert found.detail["latents_error"] < 1e-4
    assert found.detail["image_smallest_psnr"] > 75


@pytest.mark.parametrize(("sut", "case"), [(sut, case) for sut, cases in CASES.items() for case in cases])
def test_a_broken_sut_fails(scored, sut, case):
    found = scored(sut, case)
    assert not found.passed
    far = found.detail["latents_error"] > 2 * found.detail["latents_error_limit"]
    assert far or found.detail["image_smallest_psnr"] < found.detail["image_smallest_psnr_limit"] - 6  # errors of twice the size


@pytest.mark.parametrize("case", ["prompts permuted", "noise permuted", "guidance dropped", "a transformer of the UNet zeroed"])
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_large_mistake_fails_in_low_precision_too(scored, case, precision):
    assert not scored("native-torch-eager", case, precision).passed


def test_the_tensors_are_those_of_diffusers_own_state_dicts(seen):
    assert seen("native-torch-eager")["shapes"] == {t.name: list(t.shape) for t in TINY.tensors}


@pytest.mark.parametrize("sut", KERAS)
def test_every_tensor_of_the_checkpoint_is_one_variable_of_keras(seen, sut):
    assert sorted(seen(sut)["names"]) == sorted(t.name for t in TINY.tensors if not t.name.startswith(OF_THE_ENCODER))


@pytest.mark.parametrize("size", MODEL.sizes)
def test_the_map_of_names_uses_every_tensor_once(size):
    names = {t.name for t in MODEL.sizes[size].tensors}
    table = weight_map.keras_cv(names, MODEL.sizes[size].config["num_hidden_layers"]) | weight_map.keras_cv_encoder(names)
    hit = [name for name in names for row in table if name == row or (row.endswith(".*") and name.rpartition(".")[0] == row[:-2])]
    assert sorted(hit) == sorted(names)
    assert len(set(table.values())) == len(table)
