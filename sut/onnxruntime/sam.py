"""Segment Anything of Meta's own library. Its decoder takes one image at a time, so each size of a
batch has a graph of its own.
"""

from functools import partial

from sut.exported import sam
from sut.onnxruntime.predictor import Predictor


class Segmenter(sam.Segmenter, Predictor):
    """A model that this runtime computes. Its methods are those of `sut.contract.Inference`."""


load = partial(Segmenter, architecture="sam", any_size=False)
