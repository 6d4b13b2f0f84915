"""Runs in an environment of Keras 3: which random values are drawn while a model is loaded, all of
which are overwritten by its weights.

`python -m tests.sut.keras_draws SPEC.json` writes drawn.json beside the specification.
"""

import sys
from pathlib import Path

from keras.src.initializers import random_initializers

from formats.writing import write_json
from sut.registry import load_module
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of

_own = random_initializers.random
drawn = []


class _Listening:
    """Keras' random functions, as its initializers see them. Each call of one that draws is
    told.
    """

    def __getattr__(self, name):
        if name in ("normal", "uniform", "truncated_normal"):
            drawn.append(name)
        return getattr(_own, name)


def main(specification):
    told = {}
    random_initializers.random = _Listening()
    for architecture, spec in read_json(specification):
        drawn.clear()
        load_module("keras3-jax", architecture).load(workload_of(spec))
        told[spec["model"]] = list(drawn)
    write_json(specification.parent / "drawn.json", told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
