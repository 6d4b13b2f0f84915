"""KerasCV on Keras 3 without TensorFlow: its modules of Stable Diffusion alone."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import keras

_PACKAGES = (
    "keras_cv",
    "keras_cv.src",
    "keras_cv.src.models",
    "keras_cv.src.models.stable_diffusion",
)
_BACKEND = "keras_cv.src.backend"


def place() -> None:
    """Put empty packages in the place of KerasCV's own, whose `__init__` import TensorFlow and
    every other model; its modules are found in them. Its choice between Keras 2 and 3, which asks
    TensorFlow, becomes the Keras that is here.
    """
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
    backend = ModuleType(_BACKEND)
    backend.__dict__.update(keras=keras, ops=keras.ops)
    sys.modules[_BACKEND] = backend
