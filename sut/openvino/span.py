"""Models of Transformers that answer questions by a span."""

from functools import partial

from sut.openvino.predictor import Predictor

load = partial(Predictor, architecture="span")
