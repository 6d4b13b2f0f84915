"""How far honest SUTs are from the reference. It writes harness/inputs/disagreement.toml, from
which the limits follow.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m benchmarks.disagreement \\
        [--models bert …] [--sizes tiny base] [--suts …] [--fit]

The first `./run.sh list` creates that environment. Each cell answers 64 synthetic inputs, or the
size's `quick_samples`, in its own process. The file's rows of other cells stay. It takes an hour on
two cores. With --fit the cells are trainings of `--mode`, and each is a separate run.
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
from harness import terminal
from harness.execution import environments, machine
from harness.inputs import architectures, checkpoint, dataset, limits, models
from harness.inputs.models import Model, Size
from harness.measurement import run
from harness.request import plan
from harness.request.options import Options
from scenarios.worker.answers import pack
from sut.contract import Workload
from sut.registry import REFERENCE, SUTS, packages, spec_of, unsupported

_SAMPLES, _REFERENCE_BATCH = 64, 32
_HEAD = """# benchmarks/disagreement.py wrote this file: how far honest SUTs are from the reference.
# Each row is of 64 inputs or of a size's `quick_samples`. A row of a training is of as many steps.
# harness/inputs/limits.py makes the limits of accuracy tests from it. Units:
# names that end in _error, and logit_gap: standard deviations of the reference's logits, scores or
# losses. compared_fraction and argmax_fraction: shares of the generated tokens. Masks: intersection
# over union. Pictures: PSNR in decibels.
"""


def main() -> int:
    """Run the selected measurements, and write the file after each cell. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--suts", nargs="+", default=[name for name, spec in SUTS.items() if spec.reads_weights]
    )
    parser.add_argument("--models", nargs="+", default=models.names())
    parser.add_argument("--task", help="of models that have several; default: the first of each")
    parser.add_argument("--sizes", nargs="+", default=["tiny", "base"])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    parser.add_argument(
        "--new-tokens",
        type=int,
        help="of models that generate: the length of each answer; default: the size's own",
    )
    parser.add_argument("--fit", action="store_true", help="measure trainings")
    parser.add_argument("--mode", default="valid", help="of trainings: how many steps")
    flags = parser.parse_args()
    return _trainings(flags) if flags.fit else _answers(flags)


def _trainings(flags: argparse.Namespace) -> int:
    """Run scenario Fit for each cell. Its losses count even if they do not pass. Return the exit
    code.
    """
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, size, sut, precision in product(
            flags.models, flags.sizes, flags.suts, flags.precisions
        ):
            where = {
                "model": name,
                "size": size,
                "precision": precision,
                "device": flags.device,
                "sut": sut,
            }
            request = plan.resolve(
                Options(
                    **where, scenario="Fit", mode=flags.mode, out=Path(folder), cache=flags.cache
                )
            )
            result = run.run(request, terminal.Terminal(quiet=True), time.monotonic_ns())
            if result.accuracy is None:
                failed += result.status != "unsupported"
                sys.stderr.write(
                    f"{name} {size} {sut} {precision}: {result.status}: {result.reason}\n"
                )
                continue
            errors = {
                "loss_error": result.accuracy["value"],
                "first_loss_error": result.accuracy["detail"]["first_loss_error"],
            }
            row = {
                **where,
                "steps": int(result.accuracy["detail"]["steps"]),
                **{k: float(f"{v:.4g}") for k, v in errors.items()},
            }
            _keep(row, "trained")
            sys.stdout.write(f"{_line(row)}\n")
            sys.stdout.flush()
    return int(failed > 0)


def _answers(flags: argparse.Namespace) -> int:
    """Measure the answers of each cell, each in its own process. Return the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, size in [(name, size) for name in flags.models for size in flags.sizes]:
            model = models.load(name, flags.task)
            of_length = _of_length(model, model.sizes[size], flags.new_tokens)
            cell = MeasuredSize(model, of_length, flags.device, Path(folder), flags.cache)
            cell.answer(REFERENCE, "float32")
            known = {
                "model": name,
                "architecture": cell.model.architecture,
                "task": cell.model.task,
                "device": flags.device,
            }
            for sut, precision in product(flags.suts, flags.precisions):
                if precision not in cell.model.tolerance or unsupported(
                    sut, precision=precision, **known
                ):
                    continue
                start = time.monotonic()
                try:
                    cell.answer(sut, precision)
                    row = cell.row(sut, precision) | (
                        {} if of_length is model.sizes[size] else {"new_tokens": flags.new_tokens}
                    )
                except subprocess.CalledProcessError as e:
                    failed += 1
                    sys.stderr.write(f"{name} {size} {sut} {precision}: {e.stderr[-500:]}\n")
                    continue
                _keep(row)
                sys.stdout.write(f"{time.monotonic() - start:4.0f} s  {_line(row)}\n")
                sys.stdout.flush()
    return int(failed > 0)


def _of_length(model: Model, size: Size, new_tokens: int | None) -> Size:
    """Return the size with answers of this length. It is the same size if its own answers are not
    shorter, or if it generates none.
    """
    with_tokens = architectures.of(model).with_tokens
    if with_tokens and new_tokens and new_tokens > size.inputs["new_tokens"]:
        return with_tokens(model, size, None, new_tokens)
    return size


class MeasuredSize:
    """One model and size: its inputs, and the answers to them in files of a folder."""

    def __init__(self, model: Model, size: Size, device: str, folder: Path, cache: Path):
        self.model, self.size, self.device, self.folder, self.cache = (
            model,
            size,
            device,
            folder,
            cache,
        )
        samples = size.inputs.get("quick_samples", _SAMPLES)
        self.inputs = dataset.prepare(model, size, samples=samples, dataset=None, cache=cache)
        self.checkpoint = checkpoint.ensure(model, size, cache)

    def specification(self, sut: str, precision: str, **more: Any) -> dict[str, Any]:
        """Return the specification of the SUT, or of the reference, for benchmarks.answers. `more`
        is added to it.
        """
        spec = spec_of(sut)
        batch = (
            min(_REFERENCE_BATCH, self.inputs.count)
            if sut == REFERENCE
            else self.size.batch_size["Offline"]
        )
        workload = Workload(
            model=self.model.name,
            task=self.model.task,
            config={
                "model": dict(self.size.config),
                "classes": dict(self.model.classes),
                **self.inputs.description.config,
            },
            checkpoint=self.checkpoint.path,
            precision=precision,
            batch_size=batch,
            device=self.device,
            backend=spec.backend,
            execution=spec.execution,
        )
        return {
            "sut": sut,
            "architecture": self.model.architecture,
            "workload": {**asdict(workload), "checkpoint": str(workload.checkpoint)},
            "inputs": str(self.inputs.path),
            "reference": str(self.file(REFERENCE)),
            "logits_rows": self.model.logits_rows,
            "out": str(self.file(sut)),
            **more,
        }

    def answer(
        self, sut: str, precision: str, program: str = "benchmarks.answers", **more: Any
    ) -> None:
        """Run the SUT, or the reference, in its environment. `more` is added to the program's
        specification. Raises CalledProcessError.
        """
        spec = spec_of(sut)
        (self.folder / "spec.json").write_text(
            json.dumps(self.specification(sut, precision, **more))
        )
        environment = environments.ensure(
            self.cache, spec.environment, self.device, rules.CURRENT, environments.say_on_stderr
        )
        subprocess.run(
            [environment.python, "-m", program, self.folder / "spec.json"],
            cwd=environments.ROOT,
            env={
                **os.environ,
                **spec.process_env,
                "PYTHONPATH": str(environments.ROOT),
                "OMP_WAIT_POLICY": "PASSIVE",
            },
            capture_output=True,
            text=True,
            check=True,
        )

    def score(self, answers: Path, tolerance: Mapping[str, float]) -> accuracy.Accuracy:
        """Return the score of a file of answers."""
        made, reference = (dict(np.load(path)) for path in (answers, self.file(REFERENCE)))
        forced, own = (made.pop(key, None) for key in ("forced", "own"))
        rows, lengths = pack(made, self.model.answer_keys)
        payloads = {
            i: row.tobytes()[: lengths[i] if lengths else None] for i, row in enumerate(rows)
        }
        return accuracy.score(
            self.model.score,
            payloads,
            reference,
            tolerance,
            self.model.answer_keys,
            logits=forced,
            own=own,
        )

    def row(self, sut: str, precision: str) -> dict[str, Any]:
        """Return the disagreement of the answers that `answer` has just written."""
        tolerance = self.model.tolerance[precision]
        score = self.score(self.file(sut), tolerance)
        known = {score.metric: score.value, **score.detail}
        found = {name: known[name] for name in tolerance if name in known}
        task = {"task": self.model.second_task} if self.model.second_task else {}
        where = {
            "model": self.model.name,
            **task,
            "size": self.size.name,
            "precision": precision,
            "device": self.device,
            "sut": sut,
        }
        return {**where, **{key: float(f"{value:.4g}") for key, value in found.items()}}

    def file(self, sut: str) -> Path:
        """Return the file with the answers of a SUT, or of the reference."""
        return self.folder / f"{self.model.name}-{self.size.name}-{sut}.npz"


def _keep(row: Mapping[str, Any], kind: str = "measured") -> None:
    """Write the row to the file's list of this kind, instead of an earlier row of the same cell."""
    lists: dict[str, list[Any]] = {"measured": [], "trained": [], **_earlier()}
    lists[kind] = [*(each for each in lists[kind] if _cell(each) != _cell(row)), row]
    text = f"{_HEAD}\norigin = {{ {_origin()} }}\n"
    for name, rows in lists.items():
        text += (
            f"\n{name} = [\n"
            + "".join(f"    {_line(each)},\n" for each in sorted(rows, key=_cell))
            + "]\n"
        )
    limits.DATA.write_text(text, encoding="utf-8")


def _cell(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        str(row.get(key, ""))
        for key in ("model", "task", "size", "precision", "device", "sut", "new_tokens")
    )


def _earlier() -> dict[str, list[dict[str, Any]]]:
    """Return the file's lists by name."""
    document = (
        tomllib.loads(limits.DATA.read_text(encoding="utf-8")) if limits.DATA.exists() else {}
    )
    return {name: rows for name, rows in document.items() if isinstance(rows, list)}


def _origin() -> str:
    described = machine.describe()
    locks = "\n".join(
        path.read_text(encoding="utf-8") for path in environments.LOCKS.glob("*-cpu.txt")
    )
    found = {
        name: sorted(set(re.findall(rf"^{name}(?:-cpu)?==([^\s;]+)", locks, re.MULTILINE)))
        for name in packages()
    }
    versions = {name: " and ".join(each) for name, each in found.items() if each}
    return _pairs(
        {
            "date": time.strftime("%Y-%m-%d"),
            "processor": described.cpu,
            "threads": described.threads,
            **versions,
        }
    )


def _line(row: Mapping[str, Any]) -> str:
    return f"{{ {_pairs(row)} }}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
