"""Stable Diffusion: a SUT that is intact passes its accuracy test, a broken one fails it; every
tensor has one place in each library.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.disagreement import MeasuredSize
from harness.inputs import checkpoint, dataset, models, user_weights
from harness.inputs.architectures import UserFile
from sut.checkpoint import stable_diffusion as weight_map
from tests.conftest import CACHE
from tests.support.commands import call
from tests.support.files import read_json
from tests.support.frameworks import run_module
from tests.support.long import LONG, long_unless
from tests.support.weights_folders import as_published, write_clip
from tests.sut import stable_diffusion_cases as broken
from tests.sut.measured import Broken

MODEL = models.load("stable-diffusion")
TINY = replace(MODEL.sizes["tiny"], inputs={**MODEL.sizes["tiny"].inputs, "quick_samples": 4})
KERAS = "keras3-jax"
CASES = {
    "native-torch-eager": [
        *broken.INPUTS,
        *(case for case in broken.BROKEN if case != broken.KERAS),
    ],
    KERAS: ["prompts permuted", "noise permuted", broken.KERAS],
}
QUICK = ("native-torch-eager",)
"""Tests of other SUTs are long."""
PROMPTS = ("ais bjt", "hpz, AIS  bjt")
OF_THE_ENCODER = ("vae/encoder.", "vae/quant_conv.")
"""What the names of the tensors begin with that make no image; `test_fit` trains them."""


@pytest.fixture(scope="session")
def saved(interpreter, tmp_path_factory):
    """weights/: our checkpoint as diffusers' pipeline saves it; published/: the same as older
    folders have it; prompts.txt: PROMPTS; and ids.json: what the pipeline makes of them.
    """
    root = tmp_path_factory.mktemp("diffusers")
    (root / "prompts.txt").write_text("\n\n".join(PROMPTS))
    spec = {
        "checkpoint": str(checkpoint.ensure(MODEL, TINY, CACHE).path),
        "folder": str(root / "weights"),
        "prompts": ["", *PROMPTS],
    }
    python, module = interpreter("native-torch"), "tests.sut.diffusers_folder"
    run_module(python, module, "native-torch-eager", root / "spec.json", spec)
    as_published(shutil.copytree(root / "weights", root / "published"))
    return root


@pytest.fixture(scope="session")
def answers(saved, interpreter, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stable-diffusion")
    cell = MeasuredSize(MODEL, TINY, "cpu", folder, CACHE)
    own = checkpoint.of_folder(user_weights.look(saved / "published", MODEL), MODEL, folder).path
    cases = {sut: ["intact", broken.OWN, *of_sut] for sut, of_sut in CASES.items()}
    return Broken(interpreter, cell, "tests.sut.stable_diffusion_cases", cases, own=str(own))


@pytest.mark.parametrize("case", ["intact", broken.OWN])
@pytest.mark.parametrize("sut", long_unless(CASES, QUICK.__contains__))
def test_an_intact_sut_agrees_to_rounding(answers, sut, case):
    found = answers.score(sut, case)
    assert found.passed
    assert found.detail["latents_error"] < 1e-4
    assert found.detail["image_smallest_psnr"] > 75


@pytest.mark.parametrize(
    ("sut", "case"),
    long_unless(
        [(sut, case) for sut, cases in CASES.items() for case in cases], lambda row: row[0] in QUICK
    ),
)
def test_a_broken_sut_fails(answers, sut, case):
    found = answers.score(sut, case)
    assert not found.passed
    far = found.detail["latents_error"] > 2 * found.detail["latents_error_limit"]
    # Errors of twice the size.
    assert (
        far or found.detail["image_smallest_psnr"] < found.detail["image_smallest_psnr_limit"] - 6
    )


@pytest.mark.parametrize(
    "case",
    ["prompts permuted", "noise permuted", "guidance dropped", "a transformer of the UNet zeroed"],
)
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_large_mistake_fails_in_low_precision_too(answers, case, precision):
    assert not answers.score("native-torch-eager", case, precision).passed


def test_the_tensors_are_those_of_diffusers_own_state_dicts(answers):
    assert answers.seen("native-torch-eager")["shapes"] == {
        t.name: list(t.shape) for t in TINY.tensors
    }


@LONG
@pytest.mark.parametrize("sut", [KERAS])
def test_every_tensor_of_the_checkpoint_is_one_variable_of_keras(answers, sut):
    assert sorted(answers.seen(sut)["names"]) == sorted(
        t.name for t in TINY.tensors if not t.name.startswith(OF_THE_ENCODER)
    )


@pytest.mark.parametrize("size", MODEL.sizes)
def test_the_map_of_names_uses_every_tensor_once(size):
    names = {t.name for t in MODEL.sizes[size].tensors}
    layers = MODEL.sizes[size].config["num_hidden_layers"]
    table = weight_map.keras_cv(names, layers) | weight_map.keras_cv_encoder(names)
    hit = [
        name
        for name in names
        for row in table
        if name == row or (row.endswith(".*") and name.rpartition(".")[0] == row[:-2])
    ]
    assert sorted(hit) == sorted(names)
    assert len(set(table.values())) == len(table)
    flat = weight_map.keras_cv({name.replace("/text_model.", "/") for name in names}, layers)
    assert sorted(flat.values()) == sorted(weight_map.keras_cv(names, layers).values())


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.json"])
def test_prompts_get_the_ids_of_diffusers_own_pipeline(saved, tmp_path, file):
    folder = tmp_path / "weights"
    shutil.copytree(saved / "weights", folder)
    if file == "vocab.json":
        (folder / "tokenizer" / "tokenizer.json").unlink()
        write_clip(folder / "tokenizer")
    found = user_weights.look(folder, MODEL)
    assert found.tokenizer.name == file
    prompts = saved / "prompts.txt"
    file = UserFile(path=prompts, model=MODEL, size=found.size, tokenizer=found.tokenizer)
    arrays = dataset.read(file).arrays
    empty, *ids = read_json(saved / "ids.json")
    assert arrays["input_ids"].tolist() == ids
    assert arrays["negative_ids"].tolist() == [empty] * len(PROMPTS)


@LONG
def test_the_command_measures_a_users_folder_and_its_images_are_the_references(
    saved, tmp_path, capsys
):
    flags = "--sut native-torch-eager --model stable-diffusion --scenario Offline --batch-size 1"
    places = {"weights": saved / "published", "dataset": saved / "prompts.txt"}
    places |= {"out": tmp_path / "runs", "cache": CACHE}
    words = [*flags.split(), "--steps", "2", "--duration", "0.5", "--json"]
    code, out, _ = call([*words, *(f"--{name}={path}" for name, path in places.items())], capsys)
    (found,) = json.loads(out)["cells"]
    assert (code, found["status"], found["accuracy"]["passed"]) == (0, "ok", True)
    assert (found["cell"]["size"], found["cell"]["steps"]) == ("user", 2)
    assert found["accuracy"]["detail"]["latents_error"] < 1e-4
    assert found["accuracy"]["detail"]["image_smallest_psnr"] > 75
    record = read_json(Path(found["directory"]) / "record.json")
    assert record["digests"]["weights_source"] == "user"
    note = "prompts.txt: 2 prompts of 4 to 6 tokens, padded to 77 (tokenizer.json)"
    assert note in record["notes"]
