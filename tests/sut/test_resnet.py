"""A folder of a ResNet gives the reference's classes and logits on every SUT that has it."""

from dataclasses import replace

import numpy as np
import pytest

from formats.writing import write_json
from harness.inputs import picture_processor
from tests.support import imagenet_files
from tests.support.cells import measure, request
from tests.support.long import long_unless
from tests.sut.measured import UserSize

TESTED = (
    "native-torch-eager",
    "keras3-jax",
    "native-torch-compile",
    "keras3-tensorflow",
    "keras3-torch",
)
QUICK = ("native-torch-eager", "keras3-jax")
STEPS = {
    "size": 224,
    "crop_pct": 0.875,
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def pictures(folder, benchmark, size):
    """A folder of the model, and the pictures."""
    data, weights = imagenet_files.write(folder, size)
    write_json(weights / picture_processor.FILE, STEPS)
    flags = {"model": None, "scenario": "Offline", "weights": weights, "dataset": data}
    asked = request(folder, sut="native-torch-eager", benchmark=benchmark, **flags)
    eight = replace(asked.size, batch_size={"Offline": 8})
    return UserSize(asked.model, eight, asked.weights, folder, data, batch_size=8)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return pictures(tmp_path_factory.mktemp("resnet"), "resnet", imagenet_files.TINY)


@pytest.mark.parametrize("sut", long_unless(TESTED, lambda sut: sut in QUICK))
def test_the_classes_are_those_of_the_reference(interpreter, classes, sut):
    answers = classes.answered(interpreter, sut)
    found = classes.judged(answers)
    assert found.passed
    assert found.detail["label_equal_fraction"] == 1.0
    with np.load(answers) as file:
        assert (file["label"].dtype, file["label"].shape) == (np.int64, (50, 1))
        assert len(np.unique(file["label"])) > 5


@pytest.mark.parametrize("sut", long_unless(TESTED, lambda sut: False))
def test_without_the_benchmark_the_logits_agree_to_rounding(interpreter, tmp_path, sut):
    cell = pictures(tmp_path, None, imagenet_files.BASIC)
    found = cell.judged(cell.answered(interpreter, sut))
    assert found.passed
    assert found.detail["logits_error"] < 3e-5


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"downsample_in_bottleneck": True}, "has downsample_in_bottleneck False, and config.json"),
        ({"hidden_act": "gelu"}, "has hidden_act relu, and config.json says gelu"),
        ({"depths": [1, 3]}, "KeyError: 'encoder.stages.1.layers.2.layer.0.convolution.weight'"),
        ({"depths": [1, 1]}, "does not read 15 tensors of the folder, such as resnet.encoder"),
    ],
)
def test_keras_says_what_its_resnet_lacks(tmp_path, changes, reason):
    two_blocks = {**imagenet_files.TINY, "depths": [1, 2]}
    data, weights = imagenet_files.write(tmp_path, two_blocks, **changes)
    flags = {"model": None, "scenario": "Offline", "weights": weights, "dataset": data}
    asked = request(tmp_path / "runs", sut="keras3-jax", benchmark="resnet", **flags)
    found = measure(asked)
    assert found.status == "unsupported"
    assert reason in found.reason
