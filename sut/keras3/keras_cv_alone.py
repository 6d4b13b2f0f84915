"""Makes KerasCV's modules of Stable Diffusion importable on Keras 3 without TensorFlow."""

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
    """Replace KerasCV's packages by empty ones, in which its modules are found. The `__init__`
    files of its own packages import TensorFlow and every other model. KerasCV would use TensorFlow
    to choose between Keras 2 and 3; here it gets the installed Keras.
    """
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
    backend = ModuleType(_BACKEND)
    backend.__dict__.update(keras=keras, ops=keras.ops)
    sys.modules[_BACKEND] = backend
