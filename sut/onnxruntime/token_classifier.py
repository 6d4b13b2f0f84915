"""Classifiers of tokens of Transformers."""

from functools import partial

from sut.onnxruntime.predictor import Predictor

load = partial(Predictor, architecture="token_classifier")
