"""A user's own model in a `.keras` file. Keras' own `export` makes a graph for each size of a
batch.
"""

from functools import partial

from sut.exported import keras_file
from sut.openvino.predictor import Predictor


class KerasFile(keras_file.KerasFile, Predictor):
    """A model that this runtime computes. Its methods are those of `sut.contract.Inference`."""


load = partial(KerasFile, architecture="keras_file", any_size=False)
