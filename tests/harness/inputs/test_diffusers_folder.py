"""A user's folder of diffusers: what it tells, and what of it is refused."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.errors import UsageError
from harness.inputs import checkpoint, models, tokenizer, user_weights
from tests.conftest import CACHE
from tests.support.files import read_json, update_json
from tests.support.tokens import TEXT, bpe, clip
from tests.support.weights_folders import VAE, as_published, write_clip

MODEL = models.load("stable-diffusion")
TINY = MODEL.sizes["tiny"]


@pytest.fixture
def folder(tmp_path):
    """As diffusers' pipeline saves it, without a tokenizer."""
    made = shutil.copytree(checkpoint.ensure(MODEL, TINY, CACHE).path, tmp_path / "weights")
    for name in ("config.json", "digest.json"):
        (made / name).unlink()
    (made / "scheduler").mkdir()
    (made / "scheduler" / "scheduler_config.json").write_text('{"prediction_type": "epsilon"}')
    (made / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    return made


def says(file, **changes):
    return lambda folder: update_json(folder / file, **changes)


def other_tokenizer(folder):
    (folder / "tokenizer").mkdir()
    bpe(400).save(str(folder / "tokenizer" / "tokenizer.json"))


def pickled(file):
    return lambda folder: (folder / file).rename((folder / file).with_suffix(".bin"))


MISFITS = [
    (
        lambda f: shutil.rmtree(f / "unet"),
        (
            "there is no unet/config.json in it: give a folder that"
            " StableDiffusionPipeline.save_pretrained"
        ),
    ),
    (lambda f: (f / VAE).unlink(), f"there is no {VAE} in it"),
    (
        lambda f: shutil.rmtree(f / "scheduler"),
        "there is no scheduler/scheduler_config.json in it; give the folder that save_pretrained",
    ),
    (
        pickled(VAE),
        (
            r"vae/diffusion_pytorch_model.bin is a pickle.*with"
            r" StableDiffusionPipeline.from_pretrained\(DIR, safety_checker=None"
        ),
    ),
    (pickled("text_encoder/model.safetensors"), "text_encoder/model.bin is a pickle"),
    (
        says("model_index.json", _class_name="StableDiffusionXLPipeline"),
        "says StableDiffusionXLPipeline, and stable-diffusion here is Stab",
    ),
    (
        says("text_encoder/config.json", hidden_act="gelu"),
        r'says hidden_act "gelu", .* is Stable Diffusion 1, which has "quick_gelu"',
    ),
    (
        says("unet/config.json", down_block_types=["DownBlock2D"] * 4),
        "unet/config.json says down_block_types",
    ),
    (
        says("unet/config.json", attention_head_dim=[5, 10, 20, 20]),
        r"says attention_head_dim \[5, 10, 20, 20\], .* which has 8",
    ),
    (
        says("unet/config.json", norm_eps=1e-6),
        "unet/config.json says norm_eps 1e-06, .* which has 1e-05",
    ),
    (
        says("vae/config.json", scaling_factor=0.13025),
        "vae/config.json says scaling_factor 0.13025, .* which has 0.18215",
    ),
    (
        says("scheduler/scheduler_config.json", prediction_type="v_prediction"),
        "its UNet predicts v_prediction",
    ),
    (
        says("text_encoder/config.json", vocab_size=1000),
        "says vocab_size 1000, and the vocabulary of CLIP has 49408",
    ),
    (
        lambda f: (f / "unet" / "config.json").write_text("{}"),
        "the config.json of a part lacks 'block_out_channels'",
    ),
    (
        lambda f: (f / "unet" / "config.json").write_text("{"),
        r"unet/config.json cannot be read \(Expecting",
    ),
    (
        other_tokenizer,
        (
            r"tokenizer/tokenizer.json makes \[1\] of an empty prompt, and that of CLIP makes"
            r" \[49406, 49407\]"
        ),
    ),
]


@pytest.mark.parametrize(("spoil", "words"), MISFITS, ids=range(len(MISFITS)))
def test_a_misfit_is_one_sentence(folder, spoil, words):
    spoil(folder)
    with pytest.raises(UsageError, match=words) as told:
        user_weights.look(folder, MODEL)
    assert str(told.value).startswith(f"--weights {folder}: ")
    assert "\n" not in str(told.value)


def flat(folder):
    file = folder / "text_encoder" / "model.safetensors"
    found = {name: np.array(value) for name, value in load_file(file).items()}
    save_file({name.removeprefix("text_model."): value for name, value in found.items()}, file)


@pytest.mark.parametrize(
    "change",
    [lambda folder: None, as_published, flat],
    ids=["as it is saved today", "as it is published", "made of a single file"],
)
def test_the_folder_tells_its_configuration(folder, tmp_path, change):
    change(folder)
    found = user_weights.look(folder, MODEL)
    config = {key: value for key, value in found.size.config.items() if key in TINY.config}
    assert config == TINY.config | {"denoising_steps": 50}
    assert found.tokenizer is None
    linked = checkpoint.of_folder(found, MODEL, tmp_path / "cache")
    assert checkpoint.of_folder(found, MODEL, tmp_path / "cache") == linked
    of_parts = checkpoint.files(linked.path)[1:]
    assert [folder / name for name in of_parts] == found.own_files
    assert (
        read_json(linked.path / "unet" / "config.json")["block_out_channels"]
        == TINY.config["unet_channels"]
    )
    assert (linked.path / VAE).is_symlink()


def test_the_two_files_of_a_clip_are_a_tokenizer(tmp_path):
    write_clip(tmp_path)
    vocabulary, _ = clip()
    found = tokenizer.of_folder(tmp_path)
    word = TEXT[0].split()[0]
    ids = [vocabulary[f"{word}</w>"], vocabulary[f"{word}</w>"], vocabulary["!</w>"]]
    assert found.encode(f"{word.upper()}  {word}!") == [49406, *ids, 49407]
    assert (found.name, found.vocabulary, found.special) == ("vocab.json", 49408, (49406, 49407))
