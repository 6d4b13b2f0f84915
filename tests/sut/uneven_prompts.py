"""Runs in a SUT's environment: the tokens of prompts in batches of two, and of each alone.

`python -m tests.sut.uneven_prompts SPEC.json` writes tokens.npz beside it.
"""

import sys
from pathlib import Path

import numpy as np

from sut.contract import Workload
from sut.registry import load_module
from tests.support.files import read_json


def main(specification):
    spec = read_json(specification)
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    with np.load(spec["inputs"]) as f:
        inputs = dict(f)
    sut = load_module(spec["sut"], spec["architecture"]).load(workload)
    two, one = tokens(sut, inputs, 2), tokens(sut, inputs, 1)
    np.savez(specification.with_name("tokens.npz"), two=two, one=one)


def tokens(sut, inputs, batch_size):
    """The new tokens of all rows."""
    rows = len(inputs["input_ids"])
    found = []
    for first in range(0, rows, batch_size):
        batch = {name: values[first : first + batch_size] for name, values in inputs.items()}
        found.append(sut.to_host(sut.predict(sut.prepare(batch)))["tokens"])
    return np.concatenate(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
