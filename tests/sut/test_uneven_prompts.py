"""Prompts of 3 to 200 tokens in batches of two get the same tokens as each alone, and the same on
every SUT. The windows of gemma3, and of the folder of a Phi 3, are shorter than most prompts.
"""

import numpy as np
import pytest

from sut.registry import REFERENCE, spec_of
from tests.support.frameworks import run_module, workload
from tests.support.long import LONG
from tests.sut.conftest import FOLDER, of_folder, seeded

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
    """(SUT, model) → its tokens, of batches of `two` prompts and of `one`."""
    root = tmp_path_factory.mktemp("uneven")
    known = {}

    def load(name):
        if name in (FOLDER, "qwen2"):
            return of_folder(request.getfixturevalue("saved") / name, root)
        return seeded(name, root)

    def answer(sut, name):
        if (sut, name) not in known:
            known[sut, name] = run(sut, load(name), root / f"{sut}-{name}", interpreter)
        return known[sut, name]

    return answer


def run(sut, loaded, out, interpreter):
    out.mkdir()
    width = int(LENGTHS.max())
    shape = len(LENGTHS), width
    ids = np.random.default_rng(3).integers(3, loaded.size.config["vocab_size"], shape)
    np.savez(
        out / "inputs.npz",
        input_ids=(ids * (np.arange(width) < LENGTHS[:, None])).astype(np.int32),
        prompt_length=LENGTHS,
        max_new_tokens=np.full(len(LENGTHS), NEW, np.int32),
    )
    buckets = {"prompt_buckets": [16, 64, width], "new_token_buckets": [NEW]}
    content = {
        "sut": sut,
        "architecture": loaded.model.architecture,
        "workload": workload(sut, loaded.model, loaded.size, loaded.folder, 2, **buckets),
        "inputs": str(out / "inputs.npz"),
    }
    python = interpreter(spec_of(sut).environment)
    run_module(python, "tests.sut.uneven_prompts", sut, out / "spec.json", content)
    with np.load(out / "tokens.npz") as f:
        return dict(f)


@pytest.mark.parametrize(
    ("sut", "name"), [pytest.param(*cell, marks=[] if cell == QUICK else LONG) for cell in CELLS]
)
def test_uneven_prompts_are_answered_as_alone_and_as_by_the_reference(answers, sut, name):
    found, reference = answers(sut, name), answers(REFERENCE, name)
    np.testing.assert_array_equal(found["two"][:, :NEW], found["one"][:, :NEW])
    np.testing.assert_array_equal(found["one"][:, :NEW], reference["one"][:, :NEW])
