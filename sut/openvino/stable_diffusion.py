"""Stable Diffusion of diffusers."""

from functools import partial

from sut.exported import stable_diffusion
from sut.openvino.predictor import Predictor


class StableDiffusion(stable_diffusion.StableDiffusion, Predictor):
    """A model that this runtime computes. Its methods are those of `sut.contract.Inference`."""


load = partial(StableDiffusion, architecture="stable_diffusion")
