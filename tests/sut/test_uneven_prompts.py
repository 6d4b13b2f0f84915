"""Prompts of 3 to 200 tokens in batches of two get the same tokens as each alone, and the same on
every SUT. The windows of gemma3, and of the folder of a Phi 3, are shorter than most prompts.
"""

import numpy as np
import pytest

from sut.registry import REFERENCE
from tests.support.long import LONG
from tests.sut.conftest import FOLDER, of_folder, seeded, tokens_of

LENGTHS = np.array([3, 200, 17, 60], np.int32)
NEW = 16
TORCH = ("native-torch-eager", "native-torch-compile")
KERAS = ("keras3-jax", "keras3-tensorflow", "keras3-torch")
QUICK = ("native-torch-eager", "gemma3")
CELLS = [
    *((sut, "qwen3") for sut in ("native-torch-eager", *KERAS, "native-jax")),
    *((sut, "gemma3") for sut in (*TORCH, *KERAS)),
    ("native-torch-eager", "mistral"),
    *((sut, name) for sut in ("onnxruntime", "openvino") for name in ("qwen3", "mistral", "qwen2")),
    *((sut, "mistral") for sut in (*KERAS, "keras3-tensorflow-graph", "native-jax")),
    ("native-torch-eager", FOLDER),
    *((sut, "qwen2") for sut in ("native-torch-eager", "keras3-jax", "native-jax")),
]


@pytest.fixture(scope="module")
def answers(interpreter, tmp_path_factory, request):
    """(SUT, model) → its tokens, of batches of two prompts and of one."""
    root = tmp_path_factory.mktemp("uneven")
    known = {}

    def load(name):
        if name in (FOLDER, "qwen2"):
            return of_folder(request.getfixturevalue("saved") / name, root)
        return seeded(name, root)

    def answer(sut, name):
        if (sut, name) not in known:
            known[sut, name] = tokens_of(
                interpreter,
                sut,
                load(name),
                root / f"{sut}-{name}",
                LENGTHS,
                np.full(len(LENGTHS), NEW, np.int32),
                {"prompt_buckets": [16, 64, int(LENGTHS.max())], "new_token_buckets": [NEW]},
                batch_sizes=[2, 1],
                streams=False,
            )
        return known[sut, name]

    return answer


@pytest.mark.parametrize(
    ("sut", "name"), [pytest.param(*cell, marks=[] if cell == QUICK else LONG) for cell in CELLS]
)
def test_uneven_prompts_are_answered_as_alone_and_as_by_the_reference(answers, sut, name):
    found, reference = answers(sut, name), answers(REFERENCE, name)
    np.testing.assert_array_equal(found["whole 2"], found["whole 1"])
    np.testing.assert_array_equal(found["whole 1"], reference["whole 1"])
