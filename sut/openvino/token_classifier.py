"""Classifiers of tokens of Transformers."""

from functools import partial

from sut.openvino.predictor import Predictor

load = partial(Predictor, architecture="token_classifier")
