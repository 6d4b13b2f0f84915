"""What a segmenting model answered: drawn over its images in the run directory, and shown by the
report.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from harness import cli
from harness.errors import UsageError
from harness.inputs import checkpoint, models, user_weights
from harness.samples import masks
from tests.conftest import CACHE

SAM = models.load("sam")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two pictures through the mock SUT, whose masks are where a colour is strong."""
    root = tmp_path_factory.mktemp("masks")
    (root / "photos").mkdir()
    for name, colour in (("a.png", (255, 0, 0)), ("b.png", (0, 0, 255))):
        Image.new("RGB", (96, 48), colour).save(root / "photos" / name)
    flags = [
        "--sut",
        "mock",
        "--model",
        "sam",
        "--scenario",
        "Offline",
        "--duration",
        "0.5",
        "--size",
        "tiny",
    ]
    assert (
        cli.main(
            [
                *flags,
                "--dataset",
                str(root / "photos"),
                "--out",
                str(root / "runs"),
                "--cache",
                str(CACHE),
            ]
        )
        == 0
    )
    (result,) = (root / "runs").rglob("result.json")
    return result.parent


def test_each_picture_has_its_mask_drawn_over_it(run):
    (first, jpeg), (second, _) = masks.read(run)
    assert (first.masks, first.iou, first.score) == (3, 1.0, first.reference_score)
    with Image.open(run / masks.FOLDER / first.file) as picture:
        assert picture.size == (288, 144)  # what filled the image up is cut away
        points = np.asarray(picture)
    # The mask's colour half over red.
    assert np.abs(points[72, 40].astype(int) - masks._MASK).max() < 90
    assert second.file == "2.jpg" and jpeg[:2] == b"\xff\xd8"


def test_the_report_shows_them_and_says_that_random_weights_mean_nothing(run, tmp_path):
    page = tmp_path / "report.html"
    assert cli.main(["report", str(run), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count('src="data:image/jpeg;base64,') == 2
    assert "img-src data:" in text and "mask 1 of 3" in text
    record = json.loads((run / "record.json").read_text())
    assert ("the masks mean nothing" in text) == (record["digests"]["weights_source"] == "seeded")


def test_damaged_pictures_are_left_out(tmp_path):
    assert masks.read(tmp_path) == []
    (tmp_path / masks.FOLDER).mkdir()
    (tmp_path / masks.FOLDER / "masks.json").write_text('{"samples": [{}]}')
    assert masks.read(tmp_path) == []


@pytest.fixture
def folder(tmp_path):
    """Meta's layout: nothing but the tensors."""
    made = checkpoint.ensure(SAM, SAM.sizes["tiny"], tmp_path / "cache").path
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(
        (made / "model.safetensors").read_bytes()
    )
    return tmp_path / "weights"


def test_metas_checkpoint_tells_its_own_configuration(folder, tmp_path):
    found = user_weights.look(folder, SAM)
    tiny = SAM.sizes["tiny"].config
    assert {k: v for k, v in found.size.config.items() if k in tiny} == {
        **tiny,
        "decoder_attention_heads": 8,
    }
    assert found.own_files == ("model.safetensors",)
    assert found.size.facts == SAM.sizes["tiny"].facts
    of_folder = checkpoint.of_folder(found, SAM, tmp_path / "cache")
    assert json.loads((of_folder.path / "config.json").read_text())["global_attn_indexes"] == [1, 3]


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder):
    (folder / "model.safetensors").rename(folder / "sam_vit_b_01ec64.pth")
    for given in (folder, folder / "sam_vit_b_01ec64.pth"):
        with pytest.raises(
            UsageError,
            match=(
                r"sam_vit_b_01ec64.pth is a pickle.*mkdir NEW && python -c"
                r" .*torch.load\('.*/sam_vit_b_01ec64.pth', weights_only"
            ),
        ):
            user_weights.look(given, SAM)


def test_other_tensors_than_metas_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {f"vision.{name}": value for name, value in tensors.items()}, folder / "model.safetensors"
    )
    with pytest.raises(
        UsageError, match="is no checkpoint of Segment Anything in Meta's own names"
    ):
        user_weights.look(folder, SAM)
