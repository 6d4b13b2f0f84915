"""The steps of a preprocessor_config.json, and the inputs of a folder of pictures."""

import numpy as np
import pytest
from PIL import Image

from formats.writing import write_json
from harness.errors import UsageError
from harness.execution import user_files
from harness.inputs import depth_limits, picture_processor, unlisted, user_weights
from harness.inputs.architectures import UserFile, picture_encoder
from harness.inputs.models import Size
from harness.inputs.models.drawn import Tensor
from tests.support.weights_folders import DROP, config, made, tensors

__all__ = ["made"]

STEPS = {
    "size": {"height": 8, "width": 6},
    "resample": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.25, 0.5],
}
CHANNELS = {"num_channels": 3}


def processor(folder, changes, channels=3):
    (folder / "config.json").write_text('{"model_type": "vit"}')
    write_json(folder / picture_processor.FILE, {**STEPS, **changes})
    return picture_processor.of_folder(folder, {"num_channels": channels})


def test_pictures_are_read_as_the_file_says_and_kept(tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (20, 30), "white").save(tmp_path / "pictures" / "a.png")
    white = processor(tmp_path, {}).read(tmp_path / "pictures")
    assert (white.shape, white.dtype) == ((1, 3, 8, 6), np.float32)
    assert white[0, :, 0, 0].tolist() == [1.0, 2.0, 1.0]
    grey = processor(tmp_path, {"image_mean": 0.0, "image_std": 1.0}, channels=1)
    assert grey.read(tmp_path / "pictures").tolist() == np.ones((1, 1, 8, 6)).tolist()
    monkeypatch.setattr(user_files, "Program", None)
    assert np.array_equal(processor(tmp_path, {}).read(tmp_path / "pictures"), white)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": {"shortest_edge": 8}}, "ValueError: pictures keep several sizes"),
        ({"size": {"longest_edge": 8}}, "ValueError: Size must contain 'height' and 'width'"),
        ({"image_mean": [0.5, 0.5]}, "ValueError: mean must have 3 elements"),
        ({"size": {"height": 1000000, "width": 1000000}}, "MemoryError|too much time or memory"),
    ],
)
def test_steps_that_are_not_known_are_one_sentence(tmp_path, changes, words):
    with pytest.raises(UsageError, match=words) as error:
        processor(tmp_path, changes)
    assert "\n" not in str(error.value)


def test_without_the_file_config_json_has_the_size_of_random_pictures(tmp_path):
    found = picture_processor.of_folder(tmp_path, {**CHANNELS, "image_size": [8, 6]})
    assert (found.height, found.width, found.files) == (8, 6, None)
    with pytest.raises(UsageError, match="the size of the input is not known: download"):
        picture_processor.of_folder(tmp_path, CHANNELS)
    with pytest.raises(UsageError, match="num_channels 4, and pictures have 3, or 1 in greyscale"):
        picture_processor.of_folder(tmp_path, {"num_channels": 4, "image_size": 8})


@pytest.fixture
def vit(made):
    """A folder with the configuration of a model of pictures."""
    folder = made("roberta")
    config(folder, model_type="vit", architectures=["ViTForImageClassification"], num_channels=3)
    config(folder, image_size=8, vocab_size=DROP)
    return folder


def test_a_folder_of_a_model_of_pictures_has_pixels_as_inputs(vit, tmp_path):
    model = unlisted.model_of(vit)
    found = user_weights.look(vit, model)
    assert (model.name, model.architecture, model.answer_keys) == (
        "vit",
        "picture_encoder",
        ("logits",),
    )
    assert found.size.batch_size == {"Offline": 32}
    assert any("follow from the precision, the number of layers" in note for note in found.notes)
    drawn = picture_encoder.ARCHITECTURE.synthetic(found.size, 3, 0)["pixel_values"]
    assert (drawn.shape, drawn.dtype) == ((3, 3, 8, 8), np.float32)
    assert not np.array_equal(drawn[0], drawn[1])
    assert -1 <= drawn.min() < drawn.max() <= 1
    Image.new("RGB", (20, 30), "white").save(tmp_path / "a.png")
    read = picture_encoder.ARCHITECTURE.read
    place = UserFile(model=model, size=found.size, path=tmp_path)
    with pytest.raises(UsageError, match="the weights have no preprocessor_config.json"):
        read(place)
    write_json(vit / picture_processor.FILE, STEPS)
    size = user_weights.look(vit, model).size
    arrays, notes = read(UserFile(model=model, size=size, path=tmp_path))
    assert arrays["pixel_values"].shape == (1, 3, 8, 6)
    assert "1 pictures, made 8 x 6 as preprocessor_config.json of the weights says" in notes[0]


def test_a_model_without_a_head_reads_pictures_if_its_configuration_has_channels(vit):
    config(vit, architectures=["ViTModel"])
    assert unlisted.model_of(vit).architecture == "picture_encoder"
    assert unlisted.model_of(vit).answer_keys == ("hidden",)


def test_counters_of_batches_are_no_parameters(vit):
    name = "resnet.normalization.num_batches_tracked"
    tensors(vit, lambda t: t.update({name: np.ones((), np.int64)}))
    found = user_weights.look(vit, unlisted.model_of(vit))
    assert name not in [tensor.name for tensor in found.size.tensors]


def test_limits_grow_with_the_layers_and_count_only_tokens(vit):
    size = user_weights.look(vit, unlisted.model_of(vit)).size
    answers = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    found, reason = depth_limits.of_weights(size, "float32", {"logits": answers})
    assert not reason
    assert 1e-6 < found["logits_error"] < 1e-3
    deeper = Size(**{**vars(size), "tensors": 4 * size.tensors})
    more, _ = depth_limits.of_weights(deeper, "float32", {"logits": answers})
    assert more["logits_error"] == pytest.approx(2 * found["logits_error"], rel=1e-2)
    vector = Tensor(name="bias", shape=(8,), mean=0.0, std=0.0)
    same = Size(**{**vars(size), "tensors": (*size.tensors, vector)})
    assert depth_limits.of_weights(same, "float32", {"logits": answers})[0] == found
    wild = np.concatenate([answers, np.full_like(answers[:, :1], 1e6)], axis=1)
    is_token = np.ones(wild.shape[:2], bool)
    is_token[:, 5] = False
    of_padded = depth_limits.of_weights(size, "float32", {"logits": wild, "is_token": is_token})
    assert of_padded[0]["logits_error"] == pytest.approx(found["logits_error"], rel=1e-2)


def test_in_bfloat16_answers_far_from_their_deviation_are_not_judged(vit):
    size = user_weights.look(vit, unlisted.model_of(vit)).size
    answers = np.zeros((4, 400), np.float32)
    answers[:, 0] = 1.0
    found, reason = depth_limits.of_weights(size, "bfloat16", {"hidden": answers})
    assert not found
    assert "rounding alone could exceed any limit" in reason
