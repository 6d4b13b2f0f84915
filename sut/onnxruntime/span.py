"""Models of Transformers that answer questions by a span."""

from functools import partial

from sut.onnxruntime.predictor import Predictor

load = partial(Predictor, architecture="span")
