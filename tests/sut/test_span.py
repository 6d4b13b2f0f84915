"""A folder that answers questions by a span gives the reference's answers on every SUT."""

from dataclasses import replace

import numpy as np
import pytest

from harness.inputs import dataset, unlisted, user_weights
from harness.inputs.architectures import UserFile
from sut.registry import SUTS
from tests.support import frameworks, squad_files
from tests.support.long import long_unless
from tests.sut.measured import UserSize

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


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """A folder of the model, and the features of the questions."""
    folder = tmp_path_factory.mktemp("span")
    data, weights = squad_files.write(folder)
    model = unlisted.model_of(weights)
    found = user_weights.look(weights, model)
    size = replace(found.size, batch_size={"Offline": 8})
    file = UserFile(path=data, model=model, size=size, tokenizer=found.tokenizer)
    return UserSize(model, size, found, folder, data, given=dataset.read(file))


@pytest.mark.parametrize("sut", long_unless(TESTED, lambda sut: sut in QUICK))
def test_a_folder_with_the_head_of_a_span_agrees_to_rounding(interpreter, questions, sut):
    found = questions.judged(questions.answered(interpreter, sut))
    assert found.passed
    assert found.detail["logits_error"] < 3e-5


def test_without_the_types_of_its_tokens_it_fails(interpreter, questions):
    sut = "native-torch-eager"
    questions.answered(interpreter, sut)
    untyped, out = (questions.folder / f"{name}.npz" for name in ("untyped", "answers-untyped"))
    with np.load(questions.inputs.path) as inputs:
        none = np.zeros_like(inputs["token_type_ids"])
        np.savez(untyped, **{**inputs, "token_type_ids": none})
    python = interpreter(SUTS[sut].environment)
    frameworks.answer(python, questions, sut, inputs=str(untyped), out=str(out))
    assert not questions.judged(out).passed
