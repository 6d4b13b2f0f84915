"""The pictures of resnet are prepared as by MLPerf's reference.

`AREA` has the sha256 of the pictures of `tests.support.imagenet_files`, resized and cropped by
`pre_process_vgg` with OpenCV 4.14.0.
"""

import hashlib

import numpy as np
import pytest
from PIL import Image

from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import imagenet
from harness.inputs.architectures import image_classifier
from harness.inputs.imagenet import OF_PYTORCH, OF_TENSORFLOW
from harness.inputs.models import Size
from tests.support import imagenet_files

AREA = {
    (300, 400): "d278bc1cef5edc36adb754d435101c70c37e0b49e880b2ac0cbf897ef9c22962",
    (400, 300): "92f00d78890f35344ae0a508ca8dd51f8449b0f8c7bcfa659e973cfe54a0aa87",
    (256, 256): "3285b4f0131ebc62b044c6a03352e112ecd7fc09480bb906f44eb4e9b153179e",
    (512, 512): "f5564bbcb7d92752694a29436782596bb4f2d8982c73f4f7223734d45ef31eec",
    (90, 333): "8e39164a077bffb0605c71f7796311ddbdccc7d002f1dacc968ac48fee9b9e68",
    (257, 600): "ce90ae92d2d227798af7acff02f3d4572a408c18742c760e9d469782a1d71655",
    (230, 150): "8fc79f7b2d89b62deeea23ab377930e895d004fcff1baba5d19894459dbc966f",
}


def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def test_pictures_are_those_of_opencv_to_the_last_bit():
    with OF_TENSORFLOW.resizes() as resize:
        for number, shape in enumerate(imagenet_files.SHAPES):
            cropped = OF_TENSORFLOW.cropped(resize(imagenet_files.picture(number)))
            assert (cropped.shape, cropped.dtype) == ((224, 224, 3), np.uint8)
            assert digest(cropped) == AREA[shape]


def test_the_middle_of_an_odd_length_is_rounded_as_in_the_reference():
    """Both ways resize to 256 x 259. `pre_process_vgg` rounds 17.5 down, and torchvision up."""
    row = (np.arange(259) % 251).astype(np.uint8)
    picture = np.broadcast_to(row[None, :, None], (256, 259, 3)).copy()
    for way, first in ((OF_TENSORFLOW, 17), (OF_PYTORCH, 18)):
        with way.resizes() as resize:
            assert way.cropped(resize(picture))[0, 0, 0] == first


VGG = {
    "image_processor_type": "BitImageProcessor",
    "do_resize": False,
    "do_center_crop": True,
    "crop_size": 224,
    "do_rescale": False,
    "image_mean": [123.68, 116.78, 103.94],
    "image_std": [1, 1, 1],
}
USUAL = {
    "feature_extractor_type": "ConvNextFeatureExtractor",
    "size": 224,
    "crop_pct": 0.875,
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


@pytest.mark.parametrize(
    ("steps", "way"), [(None, OF_TENSORFLOW), (VGG, OF_TENSORFLOW), (USUAL, OF_PYTORCH)]
)
def test_the_mean_and_the_deviation_of_the_weights_decide_the_way(tmp_path, steps, way):
    if steps:
        write_json(tmp_path / "preprocessor_config.json", steps)
    assert imagenet.preparation(tmp_path, {"num_channels": 3}) is way


def test_another_mean_is_refused(tmp_path):
    steps = USUAL | {"image_mean": [0.5, 0.5, 0.5]}
    write_json(tmp_path / "preprocessor_config.json", steps)
    with pytest.raises(UsageError, match="has another mean or deviation of colours than MLPerf's"):
        imagenet.preparation(tmp_path, {"num_channels": 3})


def test_the_list_may_be_next_to_the_folder(tmp_path):
    data, _ = imagenet_files.write(tmp_path)
    inside = imagenet.listed(data)
    (data / "val_map.txt").rename(tmp_path / "val_map.txt")
    assert imagenet.listed(data) == inside
    assert inside[1] == imagenet_files.labels()


def test_pictures_are_read_in_the_order_of_the_list(tmp_path):
    data, _ = imagenet_files.write(tmp_path)
    names = dict(reversed(imagenet_files.labels().items()))
    found = imagenet.read(data, names, OF_TENSORFLOW)
    assert (found.shape, found.dtype) == ((50, 3, 224, 224), np.uint8)
    with Image.open(data / next(iter(names))) as first, OF_TENSORFLOW.resizes() as resize:
        expected = OF_TENSORFLOW.cropped(resize(np.asarray(first.convert("RGB"))))
    np.testing.assert_array_equal(found[0].transpose(1, 2, 0), expected)


def test_a_reference_with_one_class_for_all_pictures_judges_nothing():
    labels = np.full((50, 1), 7, np.int64)
    size = Size("user", "", "float32", {}, {}, (), {})
    limits, reason = image_classifier.ARCHITECTURE.limits(size, "float32", {"label": labels})
    assert limits == {}
    assert "gives all pictures the class 7" in reason
    labels[3] = 8
    limits, reason = image_classifier.ARCHITECTURE.limits(size, "float32", {"label": labels})
    assert (limits["label_equal_fraction"], reason) == (0.99, "")
