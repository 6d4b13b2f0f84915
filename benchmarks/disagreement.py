"""How far honest SUTs are from the reference. It writes harness/inputs/disagreement.toml, from which the limits follow.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m benchmarks.disagreement [--models bert …] [--sizes tiny base] [--suts …]

(after one `./run.sh list`, which makes that environment). Each cell answers 64 synthetic inputs, or the size's `quick_samples`, in a
process of its own. What the file holds of other cells stays. An hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from compliance import rules
from compliance.scoring import accuracy
from harness.execution import environments, machine
from harness.inputs import checkpoint, dataset, limits, models
from harness.inputs.models import Model, Size
from scenarios.worker.answers import pack
from sut.contract import Workload
from sut.registry import REFERENCE, SUTS, packages, spec_of

_SAMPLES, _REFERENCE_BATCH = 64, 32
_HEAD = """# How far honest SUTs are from the reference, over 64 synthetic inputs (sam base: 2): benchmarks/disagreement.py wrote it.
# harness/inputs/limits.py makes the limits of accuracy tests from it. In standard deviations of the reference's logits or scores: what ends
# in _error, and logit_gap. As shares of the generated tokens: compared_fraction and argmax_fraction. Masks: intersection over union.
"""


def main() -> int:
    """Measure what the flags name, and write the file anew after each cell. → the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suts", nargs="+", default=[name for name, spec in SUTS.items() if spec.reads_weights])
    parser.add_argument("--models", nargs="+", default=models.names())
    parser.add_argument("--sizes", nargs="+", default=["tiny", "base"])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, size in [(name, size) for name in flags.models for size in flags.sizes]:
            cell = MeasuredSize(models.load(name), models.load(name).sizes[size], flags.device, Path(folder), flags.cache)
            cell.answer(REFERENCE, "float32")
            for sut, precision in product(flags.suts, flags.precisions):
                if SUTS[sut].unsupported.keys() & {name, f"{name}/{precision}"}:
                    continue
                start = time.monotonic()
                try:
                    cell.answer(sut, precision)
                    row = cell.row(sut, precision)
                except subprocess.CalledProcessError as e:
                    failed += 1
                    sys.stderr.write(f"{name} {size} {sut} {precision}: {e.stderr[-500:]}\n")
                    continue
                _keep(row)
                sys.stdout.write(f"{time.monotonic() - start:4.0f} s  {_line(row)}\n")
                sys.stdout.flush()
    return int(failed > 0)


class MeasuredSize:
    """One model and size: its inputs, and the answers to them in files of a folder."""

    def __init__(self, model: Model, size: Size, device: str, folder: Path, cache: Path):
        self.model, self.size, self.device, self.folder, self.cache = model, size, device, folder, cache
        samples = size.inputs.get("quick_samples", _SAMPLES)
        self.inputs = dataset.prepare(model, size, samples=samples, dataset=None, cache=cache)
        self.checkpoint = checkpoint.ensure(model, size, cache)

    def answer(self, sut: str, precision: str, program: str = "benchmarks.answers", **more: Any) -> None:
        """Run the SUT, or the reference, in its environment. `more` goes into the program's specification. Raises CalledProcessError."""
        spec = spec_of(sut)
        batch = min(_REFERENCE_BATCH, self.inputs.count) if sut == REFERENCE else self.size.batch_size["Offline"]
        workload = Workload(
            model=self.model.name,
            task=self.model.task,
            config={"model": dict(self.size.config), "classes": dict(self.model.classes), **self.inputs.description.config},
            checkpoint=self.checkpoint.path,
            precision=precision,
            batch_size=batch,
            device=self.device,
            backend=spec.backend,
            execution=spec.execution,
        )
        specification = {
            "sut": sut,
            "family": self.model.family,
            "workload": {**asdict(workload), "checkpoint": str(workload.checkpoint)},
            "inputs": str(self.inputs.path),
            "reference": str(self.file(REFERENCE)),
            "logits_rows": self.model.logits_rows,
            "out": str(self.file(sut)),
            **more,
        }
        (self.folder / "spec.json").write_text(json.dumps(specification))
        environment = environments.ensure(self.cache, spec.environment, self.device, rules.CURRENT, environments.say_on_stderr)
        subprocess.run(
            [environment.python, "-m", program, self.folder / "spec.json"],
            cwd=environments.ROOT,
            env={**os.environ, **spec.process_env, "PYTHONPATH": str(environments.ROOT), "OMP_WAIT_POLICY": "PASSIVE"},
            capture_output=True,
            text=True,
            check=True,
        )

    def score(self, answers: Path, tolerance: Mapping[str, float]) -> accuracy.Accuracy:
        """The score of a file of answers."""
        made, reference = (dict(np.load(path)) for path in (answers, self.file(REFERENCE)))
        forced, own = (made.pop(key, None) for key in ("forced", "own"))
        rows, lengths = pack(made, self.model.answer_keys)
        payloads = {i: row.tobytes()[: lengths[i] if lengths else None] for i, row in enumerate(rows)}
        return accuracy.score(self.model.score, payloads, reference, tolerance, self.model.answer_keys, logits=forced, own=own)

    def row(self, sut: str, precision: str) -> dict[str, Any]:
        """The disagreement of answers that `answer` has just made."""
        tolerance = self.model.tolerance[precision]
        score = self.score(self.file(sut), tolerance)
        known = {score.metric: score.value, **score.detail}
        found = {name: known[name] for name in tolerance if name in known}
        where = {"model": self.model.name, "size": self.size.name, "precision": precision, "device": self.device, "sut": sut}
        return {**where, **{key: float(f"{value:.4g}") for key, value in found.items()}}

    def file(self, sut: str) -> Path:
        """Where the answers of a SUT, or of the reference, lie."""
        return self.folder / f"{self.model.name}-{self.size.name}-{sut}.npz"


def _keep(row: Mapping[str, Any]) -> None:
    """Put the row into the file, in the place of an earlier one of the same cell."""
    rows = {tuple(r[key] for key in ("model", "size", "precision", "device", "sut")): r for r in [*_earlier(), row]}
    text = f"{_HEAD}\norigin = {{ {_origin()} }}\n\nmeasured = [\n"
    limits.DATA.write_text(text + "".join(f"    {_line(rows[key])},\n" for key in sorted(rows)) + "]\n", encoding="utf-8")


def _earlier() -> list[dict[str, Any]]:
    return tomllib.loads(limits.DATA.read_text(encoding="utf-8"))["measured"] if limits.DATA.exists() else []


def _origin() -> str:
    described = machine.describe()
    locks = "\n".join(path.read_text(encoding="utf-8") for path in environments.LOCKS.glob("*-cpu.txt"))
    versions = {name: found[1] for name in packages() if (found := re.search(rf"^{name}(?:-cpu)?==([^\s;]+)", locks, re.MULTILINE))}
    return _pairs({"date": time.strftime("%Y-%m-%d"), "processor": described["cpu"], "threads": described["threads"], **versions})


def _line(row: Mapping[str, Any]) -> str:
    return f"{{ {_pairs(row)} }}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
