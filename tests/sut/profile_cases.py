"""Runs in a SUT's environment: profiles BERT.

`python -m tests.sut.profile_cases SPEC.json` writes "SUT.json" next to the specification, which has
the SUT and the workload.
"""

import importlib
import sys
from pathlib import Path

import numpy as np

from formats.writing import write_json
from scenarios.worker import profile
from sut.evidence import wall_time
from sut.registry import load_module, profiler_of
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of

STEPS, ROWS, LENGTH = 5, 32, 32


def main(specification):
    content = read_json(specification)
    name = content["sut"]
    sut = load_module(name, "bert").load(workload_of(content["workload"]))
    ids = np.random.default_rng(0).integers(3, 1000, (ROWS, LENGTH)).astype(np.int32)
    batch = sut.prepare({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    for _ in range(2):  # the first call wakes threads and allocates
        sut.to_host(sut.predict(batch))
    record = importlib.import_module(profiler_of(name) or "").record
    trace = record(lambda window: profile.answer(sut, batch, STEPS, window))
    write_json(specification.parent / f"{name}.json", wall_time.divided(trace, STEPS, 1.0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
