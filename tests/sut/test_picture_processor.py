"""Pictures are prepared as Transformers' own image processors prepare them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.inputs import picture_processor, pictures
from sut.registry import SUTS
from tests.support.frameworks import run_module

SUT = "native-torch-eager"
MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]
SQUARE = {"height": 48, "width": 40}
STEPS = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": STD,
    "resample": 3,
}
CONFIGS = {
    "stretched": {"image_processor_type": "ViTImageProcessor", "size": SQUARE, "resample": 2},
    "nearest": {"image_processor_type": "ViTImageProcessor", "size": SQUARE, "resample": 0},
    "not normalised": {
        "image_processor_type": "ViTImageProcessor",
        "size": SQUARE,
        "do_normalize": False,
    },
    "an old file": {"feature_extractor_type": "ViTFeatureExtractor", "size": 48},
    "cropped": {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": 64},
        "do_center_crop": True,
        "crop_size": SQUARE,
    },
    "cropped beyond its edge": {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": 33},
        "do_center_crop": True,
        "crop_size": SQUARE,
    },
    "by a share": {
        "image_processor_type": "ConvNextImageProcessor",
        "size": {"shortest_edge": 48},
        "crop_pct": 0.875,
    },
    "by a share, large": {
        "image_processor_type": "ConvNextImageProcessor",
        "size": {"shortest_edge": 384},
        "crop_pct": 0.875,
    },
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(3)
    for number, size in enumerate([(120, 80), (48, 40), (90, 200), (333, 111), (31, 30)]):
        small = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        picture = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)
        picture.save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def differences(
    photos: Path, interpreter: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, float]:
    """The largest difference of each configuration."""
    root = tmp_path_factory.mktemp("processors")
    folders = {}
    for name, config in CONFIGS.items():
        folders[name] = root / name.replace(" ", "-")
        folders[name].mkdir()
        (folders[name] / picture_processor.FILE).write_text(json.dumps({**STEPS, **config}))
    told = {
        "folders": {name: str(folder) for name, folder in folders.items()},
        "pictures": [str(path) for path in pictures.files(photos)],
        "out": str(root),
    }
    python = interpreter(SUTS[SUT].environment)
    run_module(python, "tests.sut.transformers_pictures", SUT, root / "spec.json", told)
    found = {}
    for name, folder in folders.items():
        processor = picture_processor.of_folder(folder, {"num_channels": 3})
        ours = np.stack([processor(picture) for picture in pictures.upright(photos)])
        theirs = np.load(root / f"{name}.npy")
        assert ours.shape == theirs.shape
        assert ours.dtype == np.float32
        found[name] = float(np.abs(ours - theirs).max())
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_pictures_are_those_of_transformers_to_rounding(differences, name):
    assert differences[name] < 1e-6
