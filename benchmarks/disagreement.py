"""How far honest SUTs are from the reference. It writes harness/inputs/disagreement.toml, from
which the limits follow.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m benchmarks.disagreement \\
        [--models bert …] [--sizes tiny mid] [--suts …] [--fit]

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

from compliance.scoring import accuracy
from harness import terminal
from harness.execution import environments, machine
from harness.inputs import architectures, checkpoint, dataset, limits, models
from harness.inputs.models import Model, Size
from harness.measurement import run
from harness.request import plan
from harness.request.options import Options
from scenarios.worker.queries.answers import pack
from sut.contract import Workload
from sut.registry import REFERENCE, SUTS, packages, spec_of, unsupported

_SAMPLES = 64
_REFERENCE_BATCH = 32
_CELL = ("model", "task", "size", "precision", "device", "sut", "new_tokens")
"""The fields of a row that name its cell."""
_HEAD = """# benchmarks/disagreement.py wrote this file: how far honest SUTs are from the reference.
# Each row is of 64 inputs or of a size's `quick_samples`. A row of a training is of as many steps.
# harness/inputs/limits.py makes the limits of accuracy tests from it. Units:
# names that end in _error, and logit_gap: standard deviations of the reference's logits, scores or
# losses; update_error: of the length of a weight's update. compared_fraction and argmax_fraction:
# shares of the generated tokens. Masks: intersection over union. Pictures: PSNR in decibels.
"""


def main() -> int:
    """Run the selected measurements, and write the file after each cell. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    every = [name for name, spec in SUTS.items() if spec.runs_models]
    parser.add_argument("--suts", nargs="+", default=every)
    parser.add_argument("--models", nargs="+", default=models.names())
    parser.add_argument("--task", help="of models that have several; default: the first of each")
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mid"])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16", "float16"])
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
    cells = product(flags.models, flags.sizes, flags.suts, flags.precisions)
    with tempfile.TemporaryDirectory() as folder:
        for name, size, sut, precision in cells:
            cell = {
                "model": name,
                "size": size,
                "precision": precision,
                "device": flags.device,
                "sut": sut,
            }
            options = Options(
                **cell, scenario="Fit", mode=flags.mode, out=Path(folder), cache=flags.cache
            )
            reporter = terminal.Terminal(quiet=True)
            result = run.run(plan.resolve(options), reporter, time.monotonic_ns())
            if result.accuracy is None:
                failed += result.status != "unsupported"
                why = f"{result.status}: {result.reason}"
                sys.stderr.write(f"{name} {size} {sut} {precision}: {why}\n")
                continue
            detail = result.accuracy.detail
            row = {
                **cell,
                "steps": int(detail["steps"]),
                "loss_error": _four_digits(result.accuracy.value),
                "first_loss_error": _four_digits(detail["first_loss_error"]),
                "update_error": _four_digits(detail["update_error"]),
            }
            _keep(row, "trained")
            _print(_line(row))
    return int(failed > 0)


def _answers(flags: argparse.Namespace) -> int:
    """Measure the answers of each cell, each in its own process. Return the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, size in product(flags.models, flags.sizes):
            model = models.load(name, flags.task)
            own = model.sizes[size]
            of_length = _of_length(model, own, flags.new_tokens)
            measured = MeasuredSize(model, of_length, flags.device, Path(folder), flags.cache)
            measured.answer(REFERENCE, "float32")
            for sut, precision in product(flags.suts, flags.precisions):
                if not measured.supports(sut, precision):
                    continue
                start = time.monotonic()
                try:
                    measured.answer(sut, precision)
                    row = measured.row(sut, precision)
                except subprocess.CalledProcessError as e:
                    failed += 1
                    sys.stderr.write(f"{name} {size} {sut} {precision}: {e.stderr[-500:]}\n")
                    continue
                if of_length is not own:
                    row["new_tokens"] = flags.new_tokens
                _keep(row)
                _print(f"{time.monotonic() - start:4.0f} s  {_line(row)}")
    return int(failed > 0)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


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
        self.model = model
        self.size = size
        self.device = device
        self.folder = folder
        self.cache = cache
        samples = size.inputs.get("quick_samples", _SAMPLES)
        self.inputs = dataset.prepare(model, size, samples=samples, dataset=None, cache=cache)
        self.checkpoint = checkpoint.ensure(model, size, cache)

    def supports(self, sut: str, precision: str) -> bool:
        """Return whether the SUT can compute the model in this precision, and the model is judged
        in it.
        """
        if precision not in self.model.tolerance or precision not in spec_of(sut).precisions:
            return False
        reason = unsupported(
            sut,
            model=self.model.name,
            architecture=self.model.architecture,
            task=self.model.task,
            precision=precision,
            device=self.device,
        )
        return reason is None

    def specification(self, sut: str, precision: str, **more: Any) -> dict[str, Any]:
        """Return the specification of the SUT, or of the reference, for benchmarks.answers. `more`
        is added to it.
        """
        spec = spec_of(sut)
        batch = self.size.batch_size["Offline"]
        if sut == REFERENCE:
            batch = min(_REFERENCE_BATCH, self.inputs.count)
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
        file = self.folder / "spec.json"
        file.write_text(json.dumps(self.specification(sut, precision, **more)))
        environment = environments.ensure(
            self.cache, spec.environment, self.device, environments.say_on_stderr
        )
        variables = {
            **os.environ,
            **spec.process_env,
            "PYTHONPATH": str(environments.ROOT),
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        subprocess.run(
            [environment.python, "-m", program, file],
            cwd=environments.ROOT,
            env=variables,
            capture_output=True,
            text=True,
            check=True,
        )

    def score(self, answers: Path, tolerance: Mapping[str, float]) -> accuracy.Accuracy:
        """Return the score of a file of answers."""
        arrays = dict(np.load(answers))
        reference = dict(np.load(self.file(REFERENCE)))
        forced = arrays.pop("forced", None)
        own = arrays.pop("own", None)
        rows, lengths = pack(arrays, self.model.answer_keys)
        payloads = {i: row.tobytes() for i, row in enumerate(rows)}
        if lengths:
            payloads = {i: payload[: lengths[i]] for i, payload in payloads.items()}
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
        values = {score.metric: score.value, **score.detail}
        limited = {name: _four_digits(values[name]) for name in tolerance if name in values}
        task = {"task": self.model.second_task} if self.model.second_task else {}
        return {
            "model": self.model.name,
            **task,
            "size": self.size.name,
            "precision": precision,
            "device": self.device,
            "sut": sut,
            **limited,
        }

    def file(self, sut: str) -> Path:
        """Return the file with the answers of a SUT, or of the reference."""
        return self.folder / f"{self.model.name}-{self.size.name}-{sut}.npz"


def _keep(row: Mapping[str, Any], kind: str = "measured") -> None:
    """Write the row to the file's list of this kind, instead of an earlier row of the same cell."""
    lists: dict[str, list[Any]] = {"measured": [], "trained": [], **_earlier()}
    others = [each for each in lists[kind] if _cell(each) != _cell(row)]
    lists[kind] = [*others, row]
    text = f"{_HEAD}\norigin = {{ {_origin()} }}\n"
    for name, rows in lists.items():
        lines = [f"    {_line(each)},\n" for each in sorted(rows, key=_cell)]
        text += f"\n{name} = [\n{''.join(lines)}]\n"
    limits.DATA.write_text(text, encoding="utf-8")


def _cell(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(key, "")) for key in _CELL)


def _earlier() -> dict[str, list[dict[str, Any]]]:
    """Return the file's lists by name."""
    if not limits.DATA.exists():
        return {}
    document = tomllib.loads(limits.DATA.read_text(encoding="utf-8"))
    return {name: rows for name, rows in document.items() if isinstance(rows, list)}


def _origin() -> str:
    """Return the date, the machine and the versions of this run, as the inside of a TOML table."""
    here = machine.describe()
    texts = [path.read_text(encoding="utf-8") for path in environments.LOCKS.glob("*-cpu.txt")]
    locks = "\n".join(texts)
    origin = {"date": time.strftime("%Y-%m-%d"), "processor": here.cpu, "threads": here.threads}
    for name in packages():
        versions = set(re.findall(rf"^{name}(?:-cpu)?==([^\s;]+)", locks, re.MULTILINE))
        if versions:
            origin[name] = " and ".join(sorted(versions))
    return _pairs(origin)


def _line(row: Mapping[str, Any]) -> str:
    return f"{{ {_pairs(row)} }}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
