"""The description of a `.keras` file that is to be trained names what the file does not hold."""

from types import SimpleNamespace

from harness.measurement import trained_file
from tests.support.files import read_json
from tests.support.frameworks import run_module


def test_an_argument_of_a_loss_that_the_file_does_not_hold_is_a_note(interpreter, tmp_path):
    python = interpreter("keras3-jax")
    run_module(python, "tests.sut.keras_lost", "keras3-jax", tmp_path / "spec.json", {})
    lost = read_json(tmp_path / "lost.json")
    (huber,), (cosine,) = lost.pop("huber"), lost.pop("cosine")
    assert (huber, cosine) == (["Huber", "delta", "1"], ["CosineSimilarity", "axis", "-1"])
    assert set(map(bool, lost.values())) == {False}
    file = SimpleNamespace(version="3.15.1")
    request = SimpleNamespace(model=SimpleNamespace(file=file))
    assert list(trained_file._notes(request, [huber])) == [
        "the file holds no delta of its loss Huber (Keras 3.15.1 does not store it), so 1 is used"
    ]
