"""Runs in an environment with Keras 3: saves small models as `.keras` files. See
tests/sut/test_keras_file.py.
"""

import importlib.util
import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers

from tests.support.files import read_json

CODE = """
import keras


@keras.saving.register_keras_serializable()
class Scale(keras.layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones", name="factor")

    def call(self, x):
        if keras.backend.standardize_dtype(x.dtype) != "float32":
            raise TypeError("only float32")
        return x * self.factor
"""


def main(specification):
    folder = Path(read_json(specification)["folder"])
    keras.utils.set_random_seed(0)
    models = {"cnn": cnn(), "text": text(), "two": two(), "called": called(), "rows": rows()}
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
    (folder / "layers.py").write_text(CODE)
    spec = importlib.util.spec_from_file_location("own_layers", folder / "layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = keras.Sequential([keras.Input((5,)), layers.Dense(4), module.Scale()])
    own.save(folder / "own.keras")


def cnn():
    """Convolutions with batch normalisation, trained for some steps, without a dense layer."""
    model = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Rescaling(1 / 127.5, offset=-1.0),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Conv2D(5, 3),
            layers.GlobalAveragePooling2D(),
            layers.Softmax(),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    rng = np.random.default_rng(0)
    images = rng.random((64, 12, 12, 3), np.float32) * 255
    model.fit(images, rng.integers(0, 5, 64), epochs=3, verbose=0)
    return model


def text():
    """Attention and an LSTM over ids of any length, whose zeros are padding."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = layers.Embedding(50, 16, mask_zero=True)(ids)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 8)(x, x)])
    x = layers.LayerNormalization()(x)
    x = layers.LSTM(12)(x)
    model = keras.Model(ids, layers.Dense(1, activation="sigmoid", name="score")(x))
    rate = keras.optimizers.schedules.CosineDecay(1e-3, 1000)
    model.compile(keras.optimizers.AdamW(rate), "binary_crossentropy", metrics=["accuracy"])
    return model


def two():
    """Two inputs and three outputs: two with losses, and a whole number without one."""
    left = keras.Input((12,), name="left")
    right = keras.Input((4, 6), name="right")
    x = layers.Dense(8, activation="gelu")(left)
    x = layers.Concatenate()([x, layers.Flatten()(right)])
    values = layers.Dense(7, name="values")(x)
    kind = layers.Dense(3, activation="softmax", name="kind")(x)
    outputs = {"values": values, "kind": kind, "best": keras.ops.argmax(values, axis=-1)}
    model = keras.Model([left, right], outputs)
    losses = {"values": "mse", "kind": keras.losses.SparseCategoricalCrossentropy()}
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), losses)
    return model


def called():
    """A model that was built by a call, so that the file has the size of that batch."""
    model = keras.Sequential([layers.Dense(6, activation="tanh"), layers.Dense(2)])
    model(np.zeros((2, 7), np.float32))
    return model


def rows():
    """A sum over the leading axis of a product with a matrix of three columns. JAX 0.10.2 computes
    it wrongly on a CPU if a batch has 40,000 rows (jax issue 39103).
    """
    points = keras.Input((5000, 3))
    flat = keras.ops.transpose(keras.ops.reshape(layers.Dense(3)(points), (-1, 3)))
    matrix = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    mixed = keras.ops.matmul(matrix, flat)
    squares = keras.ops.sum(keras.ops.multiply(mixed, mixed), 0)
    return keras.Model(points, keras.ops.reshape(squares, (-1, 5000)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
