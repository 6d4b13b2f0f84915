"""Labels of a user's own file are drawn from its losses, or read and checked."""

import numpy as np
import pytest

from harness.errors import UsageError
from harness.inputs import keras_labels
from harness.inputs.keras_labels import BINARY, IDS, NUMBERS, ONE_HOT, UNKNOWN, Label


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("sparse_categorical_crossentropy", IDS),
        ("SparseCategoricalCrossentropy", IDS),
        ("categorical_crossentropy", ONE_HOT),
        ("CategoricalFocalCrossentropy", ONE_HOT),
        ("BinaryCrossentropy", BINARY),
        ("squared_hinge", BINARY),
        ("Dice", BINARY),
        ("mse", NUMBERS),
        ("MeanAbsoluteError", NUMBERS),
        ("Huber", NUMBERS),
        ("LogCosh", NUMBERS),
        ("ctc", UNKNOWN),
        ("custom mean_squared_error", UNKNOWN),
    ],
)
def test_the_kind_of_labels_follows_from_the_loss(loss, kind):
    assert keras_labels.kind_of(loss) == kind


def test_labels_are_named_after_their_outputs_if_there_are_several():
    assert keras_labels.names(["y"], ["mse"]) == ["label"]
    assert keras_labels.names(["a", "b"], ["mse", None]) == ["label_a", None]


@pytest.mark.parametrize(
    ("loss", "shape", "dtype", "values"),
    [
        ("sparse_categorical_crossentropy", (4, 3), "int32", {0, 1, 2}),
        ("categorical_crossentropy", (3,), "float32", {0.0, 1.0}),
        ("binary_crossentropy", (2,), "float32", {0.0, 1.0}),
    ],
)
def test_drawn_labels_have_the_values_of_their_kind(loss, shape, dtype, values):
    label = Label(name="label", loss=loss, shape=shape)
    drawn = keras_labels.drawn(label, 50, 0)
    assert drawn.shape == (50, *(shape[:-1] if dtype == "int32" else shape))
    assert drawn.dtype == dtype
    assert set(np.unique(drawn)) == values
    if loss.startswith("cat"):
        assert (drawn.sum(-1) == 1).all()
    assert not np.array_equal(drawn, keras_labels.drawn(label, 50, 1))


@pytest.mark.parametrize(
    ("loss", "array", "sentence"),
    [
        ("sparse_categorical_crossentropy", np.array([0, 3]), "takes ids from 0 to 2"),
        ("sparse_categorical_crossentropy", np.array([0.5, 1]), "takes ids from 0 to 2"),
        ("sparse_categorical_crossentropy", np.eye(3), r"takes \[samples\]"),
        ("mse", np.zeros((2, 4)), r"has shape \[2, 4\], and mse takes \[samples, 3\]"),
        ("mse", np.full((2, 3), np.nan), "not finite"),
    ],
)
def test_labels_that_do_not_fit_the_output_are_refused(loss, array, sentence):
    with pytest.raises(UsageError, match=sentence):
        keras_labels.fitted(Label(name="label", loss=loss, shape=(3,)), array)


def test_labels_that_fit_get_the_dtype_of_their_kind():
    ids = Label(name="label", loss="sparse_categorical_crossentropy", shape=(3,))
    assert keras_labels.fitted(ids, np.array([[0.0], [2.0]])).dtype == np.int32
    one = Label(name="label", loss="mse", shape=(1,))
    assert keras_labels.fitted(one, np.array([1, 2])).tolist() == [1.0, 2.0]
