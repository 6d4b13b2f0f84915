"""Runs in the environment of a SUT or reference: its answers to the inputs of some `.keras` files,
and the evidence of a SUT. See tests/sut/test_keras_file.py.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker import evidence
from sut.contract import Workload
from sut.registry import load_module


def main(specification: Path) -> None:
    for spec in json.loads(specification.read_text()):
        answers_of(spec)


def answers_of(spec: dict[str, Any]) -> None:
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    sut = load_module(spec["sut"], "keras_file").load(workload)
    with np.load(spec["inputs"]) as file:
        batch = sut.prepare(dict(file))
    answers = sut.to_host(sut.predict(batch))
    out = Path(spec["out"])
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **answers)
    seen = [dataclasses.asdict(evidence.watch(sut, [batch] * number)) for number in (1, 2)]
    out.with_suffix(".json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
