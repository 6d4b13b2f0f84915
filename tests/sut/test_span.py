"""A folder that answers questions by a span gives the reference's answers on every SUT."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.disagreement import MeasuredSize
from harness.inputs import checkpoint, dataset, depth_limits, unlisted, user_weights
from harness.inputs.architectures import UserFile
from sut.registry import REFERENCE, SUTS
from tests.conftest import CACHE
from tests.support import squad_files
from tests.support.frameworks import run_module
from tests.support.long import long_unless

TESTED = (
    "native-torch-eager",
    "keras3-jax",
    "native-jax",
    "native-torch-compile",
    "keras3-tensorflow",
    "keras3-torch",
    "hf-tensorflow",
    "keras3-openvino",
)
QUICK = ("native-torch-eager", "keras3-jax", "native-jax")


class Questions(MeasuredSize):
    """A folder of the model, and the features of the questions."""

    def __init__(self, folder):
        data, weights = squad_files.write(folder)
        self.model = unlisted.model_of(weights)
        found = user_weights.look(weights, self.model)
        self.size = replace(found.size, batch_size={"Offline": 8})
        self.device = "cpu"
        self.folder = folder
        self.cache = CACHE
        file = UserFile(path=data, model=self.model, size=found.size, tokenizer=found.tokenizer)
        given = dataset.read(file)
        self.inputs = dataset.prepare(self.model, found.size, 0, data, CACHE, given=given)
        self.checkpoint = checkpoint.of_folder(found, self.model, folder)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return Questions(tmp_path_factory.mktemp("span"))


@pytest.fixture(scope="module")
def answered(interpreter, questions):
    """SUT → the file of its answers. The first call makes the reference, too."""

    def answer(sut):
        for name in (REFERENCE, sut):
            if not questions.file(name).exists():
                environment = SUTS["native-torch-eager" if name == REFERENCE else sut].environment
                spec = questions.specification(name, "float32")
                module, file = "benchmarks.answers", questions.folder / "spec.json"
                run_module(interpreter(environment), module, name, file, spec)
        return questions.file(sut)

    return answer


def score(questions, answers):
    with np.load(questions.file(REFERENCE)) as reference:
        limits, reason = depth_limits.of_weights(questions.size, "float32", dict(reference))
    assert reason == ""
    return questions.score(answers, limits)


@pytest.mark.parametrize("sut", long_unless(TESTED, lambda sut: sut in QUICK))
def test_a_folder_with_the_head_of_a_span_agrees_to_rounding(answered, questions, sut):
    found = score(questions, answered(sut))
    assert found.passed
    assert found.detail["logits_error"] < 3e-5


def test_without_the_types_of_its_tokens_it_fails(answered, questions, interpreter):
    answered("native-torch-eager")
    untyped = questions.folder / "untyped.npz"
    with np.load(questions.inputs.path) as inputs:
        arrays = dict(inputs)
    np.savez(untyped, **{**arrays, "token_type_ids": np.zeros_like(arrays["token_type_ids"])})
    out = questions.folder / "answers-untyped.npz"
    spec = questions.specification(
        "native-torch-eager", "float32", inputs=str(untyped), out=str(out)
    )
    python = interpreter(SUTS["native-torch-eager"].environment)
    run_module(
        python, "benchmarks.answers", "native-torch-eager", questions.folder / "spec.json", spec
    )
    assert not score(questions, out).passed
