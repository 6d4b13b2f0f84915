"""BERT-like classifiers of Transformers."""

from functools import partial

from sut.openvino.predictor import Predictor

load = partial(Predictor, architecture="bert")
