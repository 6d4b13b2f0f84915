"""Models of Transformers without a head."""

from functools import partial

from sut.openvino.predictor import Predictor

load = partial(Predictor, architecture="hidden_states")
