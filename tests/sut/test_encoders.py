"""Users' folders of encoders of text and pictures: an intact SUT agrees with the reference, and a
broken one fails.
"""

from dataclasses import replace

import numpy as np
import pytest

from harness.inputs import architectures, limits, unlisted, user_weights
from sut.registry import REFERENCE, SUTS
from tests.support.frameworks import run_module
from tests.support.long import long_unless
from tests.sut import encoder_cases
from tests.sut.measured import UserSize

TEXT = ["distilbert-classes", "deberta", "modernbert", "modernbert-tokens", "xlm-roberta", "albert"]
PICTURES = ["vit", "dinov2", "swin", "resnet"]
TESTED = {
    "native-torch-eager": [*TEXT, *PICTURES],
    "keras3-jax": ["xlm-roberta", "albert", "vit", "dinov2", "swin"],
}
PAIRS = [(sut, name) for sut, names in TESTED.items() for name in names]
QUICK = ("native-torch-eager",)
PROMPTS = "a\n\nfive words make this one\n\nno\n\na longer prompt, so that rows are padded"


class Folder(UserSize):
    """A user's folder with uneven prompts, or random pictures."""

    def __init__(self, path, folder):
        model = unlisted.model_of(path)
        found = user_weights.look(path, model)
        size = replace(found.size, batch_size={"Offline": 3})
        folder = folder / path.name
        folder.mkdir()
        prompts = None
        if "input_ids" in architectures.of(model).synthetic(size, 1, 0):
            prompts = folder / "prompts.txt"
            prompts.write_text(PROMPTS)
        super().__init__(model, size, found, folder, prompts, samples=6)

    def tolerance(self, precision):
        of_answers = architectures.of(self.model).limits
        if of_answers is None:
            return limits.limits(self.model, self.size, precision, "cpu")
        with np.load(self.file(REFERENCE)) as reference:
            found, reason = of_answers(self.size, precision, dict(reference))
        assert not reason
        return found


@pytest.fixture(scope="session")
def folders(saved, tmp_path_factory):
    root = tmp_path_factory.mktemp("encoders")
    return {name: Folder(saved / name, root) for name in (*TEXT, *PICTURES)}


@pytest.fixture(scope="session")
def scored(interpreter, folders, tmp_path_factory):
    """(SUT, folder, case, precision) → the score: one task for each SUT."""
    out = tmp_path_factory.mktemp("answers")
    done = set()

    def run(sut):
        if sut in done:
            return
        if sut != "native-torch-eager":
            run("native-torch-eager")  # which makes the references too
        python = interpreter(SUTS[sut].environment)
        done.add(sut)
        references = []
        if sut == "native-torch-eager":
            references = [each.specification(REFERENCE, "float32") for each in folders.values()]
        cells = {name: folders[name].specification(sut, "float32") for name in TESTED[sut]}
        told = {"references": references, "cells": cells, "folder": str(out)}
        run_module(python, "tests.sut.encoder_cases", sut, out / "cases.json", told)

    def score(sut, name, case, precision="float32"):
        run(sut)
        tolerance = folders[name].tolerance(precision)
        return folders[name].score(out / f"{sut} {name} {case}.npz", tolerance)

    return score


def quick(rows):
    return long_unless(rows, lambda row: row[0] in QUICK)


def cases():
    rows = []
    for sut, name in PAIRS:
        changes = encoder_cases.PICTURES if name in PICTURES else encoder_cases.TEXT
        rows += [(sut, name, case) for case in (*changes, "a layer zeroed")]
    return rows


@pytest.mark.parametrize(("sut", "name"), quick(PAIRS))
def test_an_intact_sut_agrees_to_rounding(scored, sut, name):
    found = scored(sut, name, "intact")
    assert found.passed
    errors = [found.value]
    if found.metric == "used_tolerance":
        errors = [value for key, value in found.detail.items() if key.endswith("_error")]
    assert max(errors) < 5e-6


@pytest.mark.parametrize(("sut", "name", "case"), quick(cases()))
def test_a_broken_sut_fails_in_every_precision(scored, sut, name, case):
    for precision in ("float32", "bfloat16"):
        assert not scored(sut, name, case, precision).passed


@pytest.mark.parametrize("name", [*TEXT, *PICTURES])
def test_bfloat16_passes_its_own_tolerance_and_not_that_of_float32(scored, name):
    assert scored("native-torch-eager", name, "bfloat16", "bfloat16").passed
    assert not scored("native-torch-eager", name, "bfloat16").passed
