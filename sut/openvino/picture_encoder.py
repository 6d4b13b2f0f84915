"""Models of pictures of Transformers, with a head that classifies or without a head."""

from functools import partial

from sut.openvino.predictor import Predictor

load = partial(Predictor, architecture="picture_encoder")
