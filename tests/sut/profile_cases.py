"""Runs in a SUT's environment: profiles BERT as it is, and slowed down on purpose.

`python -m tests.sut.profile_cases SPEC.json` writes "SUT.json" next to the specification, which has
the SUT, the workload, and the names of functions in tests.sut.slowed_torch.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker import profile
from sut.contract import Workload
from sut.evidence import wall_time
from sut.registry import load_module, profiler_of

STEPS, ROWS, LENGTH = 5, 32, 32


def main(specification: Path) -> None:
    content = json.loads(specification.read_text())
    name = content["sut"]
    fields = content["workload"]
    workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
    loads = {"honest": load_module(name, "bert").load}
    for case in content["cases"]:
        loads[case] = getattr(importlib.import_module("tests.sut.slowed_torch"), case)
    profiles = {case: profiled(name, load(workload)) for case, load in loads.items()}
    (specification.parent / f"{name}.json").write_text(json.dumps(profiles))


def profiled(name: str, sut: Any) -> dict[str, Any]:
    """The profile of a step."""
    ids = np.random.default_rng(0).integers(3, 1000, (ROWS, LENGTH)).astype(np.int32)
    batch = sut.prepare({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    for _ in range(2):  # the first call wakes threads and allocates
        sut.to_host(sut.predict(batch))
    record = importlib.import_module(profiler_of(name) or "").record
    trace = record(lambda window: profile.answer(sut, batch, STEPS, window))
    return asdict(wall_time.divided(trace, STEPS, 1.0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
