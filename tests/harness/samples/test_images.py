"""What a model that makes images answered: kept in the run directory, and shown by the report."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from formats.result import Status
from formats.writing import write_json
from harness import cli
from harness.comparison import compare, tables
from harness.comparison.runs import Run
from harness.errors import UsageError
from harness.inputs import dataset, models
from harness.measurement.run import not_measured
from harness.samples import images
from harness.submission import inference
from tests.support.cells import measure, request
from tests.support.files import read_json

MODEL = models.load("stable-diffusion")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two prompts through the mock SUT."""
    root = tmp_path_factory.mktemp("images")
    prompts = root / "prompts.txt"
    prompts.write_text("a lighthouse at dusk\n\na lighthouse at dawn\n")
    flags = {"model": "stable-diffusion", "scenario": "Offline", "size": "tiny", "duration": 0.5}
    found = measure(request(root / "runs", **flags, dataset=prompts))
    assert found.status == "ok"
    return Path(found.directory)


def test_each_image_is_kept_with_its_distance_from_the_references(run):
    shown = images.read(run)
    assert [sample.psnr for sample, _ in shown] == [100.0, 100.0]
    with Image.open(run / images.FOLDER / shown[0][0].file) as picture:
        assert picture.size == (128, 128)
    assert images.read(run / "nowhere") == []


def test_an_answer_of_another_size_than_the_references_is_not_drawn(run, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run, other, ignore=shutil.ignore_patterns(images.FOLDER))
    with np.load(run / "reference.npz") as reference:
        arrays = dict(reference)
    np.savez(other / "reference.npz", **arrays | {"latents": arrays["latents"][:, 1:]})
    images.write(other)
    assert images.read(other) == []


def test_answers_that_could_not_be_scored_lose_no_result(tmp_path, monkeypatch):
    words = "sample 0 has 7 bytes, and the reference's has 9"
    monkeypatch.setattr(inference, "score", lambda *_: words)
    asked = request(tmp_path, scenario="Offline", model="stable-diffusion", size="tiny")
    found = measure(asked)
    assert any("sample 0 has 7 bytes" in warning for warning in found.warnings)
    assert (tmp_path / found.cell.name / "quick-1" / "result.json").exists()


def test_the_report_shows_them(run, tmp_path):
    page = tmp_path / "report.html"
    assert cli.main(["report", str(run), "--html", str(page)]) == 0
    assert page.read_text().count('src="data:image/jpeg;base64,') == 2
    assert "100.0 dB compared with the reference" in page.read_text()


def test_the_time_of_a_denoising_step_is_told_and_audited(run, capsys):
    result = read_json(run / "result.json")
    found = result["metrics"]
    assert found["ms_per_denoising_step"] == pytest.approx(found["ms_per_step"] / 4)
    assert cli.main(["audit", str(run)]) == 0
    other = {**found, "ms_per_denoising_step": found["ms_per_step"]}
    write_json(run / "result.json", {**result, "metrics": other})
    assert cli.main(["audit", str(run)]) == 1
    assert "ms_per_denoising_step" in capsys.readouterr().out
    write_json(run / "result.json", result)


def test_the_steps_are_a_part_of_the_cell(run, tmp_path):
    assert read_json(run / "result.json")["cell"]["steps"] == 4

    def asked(steps=None, model="stable-diffusion"):
        return request(tmp_path, model=model, scenario="Offline", size="tiny", steps=steps)

    assert asked().cell() == asked(4).cell()
    assert asked(2).cell().steps == asked(2).size.config["denoising_steps"] == 2
    assert asked(2).label.endswith("2 steps")
    skipped = Run(result=not_measured(asked(2), Status.SKIPPED, ""))
    assert ", 2 steps" in compare.describe(tables.Group(runs=(skipped,)))
    with pytest.raises(UsageError, match=r"--steps 1: stable-diffusion takes 2 to 1000"):
        asked(1)
    words = "--steps 2: is for models that make images, and bert does not: leave it out"
    with pytest.raises(UsageError, match=words):
        asked(2, model="bert")


def test_a_prompt_of_too_many_tokens_is_refused(tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a lighthouse\n\n" + "a" * 80)
    words = "the prompt has 82 tokens and stable-diffusion takes 77: shorten it"
    with pytest.raises(UsageError, match=f"prompts.txt:3: {words}"):
        dataset.prepare(MODEL, MODEL.sizes["tiny"], 64, prompts, tmp_path / "cache")
