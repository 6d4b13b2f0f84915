"""What a model that makes images answered: kept in the run directory, and shown by the report. And a user's folder of diffusers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from harness import cli, images
from harness.errors import UsageError
from harness.inputs import checkpoint, dataset, models, user_weights
from tests.conftest import CACHE

MODEL = models.load("stable-diffusion")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two prompts through the mock SUT."""
    root = tmp_path_factory.mktemp("images")
    (root / "prompts.txt").write_text("a lighthouse at dusk\n\na lighthouse at dawn\n")
    flags = ["--sut", "mock", "--model", "stable-diffusion", "--scenario", "Offline", "--duration", "0.5", "--size", "tiny"]
    assert cli.main([*flags, "--dataset", str(root / "prompts.txt"), "--out", str(root / "runs"), "--cache", str(CACHE)]) == 0
    (result,) = (root / "runs").rglob("result.json")
    return result.parent


def test_each_image_is_kept_with_its_distance_from_the_references(run):
    shown = images.read(run)
    assert [sample.psnr for sample, _ in shown] == [100.0, 100.0]
    with Image.open(run / images.FOLDER / shown[0][0].file) as picture:
        assert picture.size == (128, 128)
    assert images.read(run / "nowhere") == []


def test_the_report_shows_them(run, tmp_path):
    page = tmp_path / "report.html"
    assert cli.main(["report", str(run), "--html", str(page)]) == 0
    assert page.read_text().count('src="data:image/jpeg;base64,') == 2
    assert "100.0 dB beside the reference" in page.read_text()


def test_the_time_of_a_denoising_step_is_told_and_audited(run, capsys):
    result = json.loads((run / "result.json").read_text())
    found = result["metrics"]
    assert found["ms_per_denoising_step"] == pytest.approx(found["ms_per_step"] / 4)
    assert cli.main(["audit", str(run)]) == 0
    (run / "result.json").write_text(json.dumps({**result, "metrics": {**found, "ms_per_denoising_step": found["ms_per_step"]}}))
    assert cli.main(["audit", str(run)]) == 1
    assert "ms_per_denoising_step" in capsys.readouterr().out
    (run / "result.json").write_text(json.dumps(result))


def test_a_prompt_of_too_many_tokens_is_refused(tmp_path):
    (tmp_path / "prompts.txt").write_text("a lighthouse\n\n" + "a" * 80)
    with pytest.raises(UsageError, match=r"prompts.txt:3: the prompt has 82 tokens and stable-diffusion takes 77: shorten it"):
        dataset.prepare(MODEL, MODEL.sizes["tiny"], 64, tmp_path / "prompts.txt", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path) -> Path:
    """diffusers' layout, as its pipeline saves it."""
    made = checkpoint.ensure(MODEL, MODEL.sizes["tiny"], tmp_path / "cache").path
    for file in made.glob("*/*"):
        copy = tmp_path / "weights" / file.relative_to(made)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (tmp_path / "weights" / "scheduler").mkdir()
    (tmp_path / "weights" / "scheduler" / "scheduler_config.json").write_text('{"prediction_type": "epsilon"}')
    return tmp_path / "weights"


def test_a_folder_of_diffusers_tells_its_configuration(folder, tmp_path):
    found = user_weights.look(folder, MODEL)
    tiny = MODEL.sizes["tiny"].config
    assert {key: value for key, value in found.size.config.items() if key in tiny} == {**tiny, "denoising_steps": 50}
    linked = checkpoint.of_folder(found, MODEL, tmp_path / "cache")
    assert checkpoint.of_folder(found, MODEL, tmp_path / "cache") == linked
    assert sorted(checkpoint.files(linked.path))[1:] == sorted(found.own_files)
    assert json.loads((linked.path / "unet" / "config.json").read_text())["block_out_channels"] == tiny["unet_channels"]
    assert (linked.path / "vae" / "diffusion_pytorch_model.safetensors").is_symlink()


def test_what_is_another_model_is_refused(folder):
    config = json.loads((folder / "unet" / "config.json").read_text())
    (folder / "unet" / "config.json").write_text(json.dumps({**config, "down_block_types": ["DownBlock2D"] * 4}))
    with pytest.raises(UsageError, match=r"unet/config.json says down_block_types"):
        user_weights.look(folder, MODEL)
    (folder / "unet" / "config.json").write_text(json.dumps(config))
    (folder / "scheduler" / "scheduler_config.json").write_text('{"prediction_type": "v_prediction"}')
    with pytest.raises(UsageError, match="its UNet predicts v_prediction"):
        user_weights.look(folder, MODEL)


def test_old_names_and_pickles_are_refused_with_what_mends_them(folder):
    file = folder / "vae" / "diffusion_pytorch_model.safetensors"
    save_file({name.replace("to_q", "query"): np.array(value) for name, value in load_file(file).items()}, file)
    with pytest.raises(UsageError, match="lacks vae/encoder.mid_block.attentions.0.to_q.weight.*StableDiffusionPipeline.from_pretrained"):
        user_weights.look(folder, MODEL)
    file.rename(file.with_suffix(".bin"))
    with pytest.raises(UsageError, match="vae/diffusion_pytorch_model.bin is a pickle"):
        user_weights.look(folder, MODEL)
