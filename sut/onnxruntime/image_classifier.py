"""Classifiers of pictures of Transformers that answer the likeliest class."""

from functools import partial

from sut.exported import image_classifier
from sut.onnxruntime.predictor import Predictor


class ImageClassifier(image_classifier.ImageClassifier, Predictor):
    """A model that this runtime computes. Its methods are those of `sut.contract.Inference`."""


load = partial(ImageClassifier, architecture="image_classifier")
