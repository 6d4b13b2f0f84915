"""How long a person waits for this checkout, compared with another one. Standard library only.

    python3 benchmarks/waiting.py --vs ../other-checkout [--pairs 5] [--rows single later …]

Both checkouts run each row in turns, in environments that exist (`./run.sh --sut …` makes them).
Nothing else may run meanwhile. The rows:

    single   a warm cell, without its timed test: the mean of all SUTs and models
    later    the same from the second cell of a sweep on
    sweep    a whole sweep: the first model, all SUTs, Offline and SingleStream, 3 repeats
    list     ./run.sh list
    dry-run  ./run.sh --sut mock … --dry-run
    audit    ./run.sh audit of a million samples, which tests/scale/audit_scale.py makes
    report   ./run.sh report --html of 1,000 cells, which tests/scale/report_scale.py makes
    bare     a cell from the command to the figure, as a multiple of a script without this project:
             it loads the model, calls it five times, and then for the test's duration
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SUTS = (
    "keras3-jax",
    "keras3-tensorflow",
    "native-torch-eager",
    "native-torch-compile",
    "native-jax",
)
REPEATS = 3

_LOOP = """
import sys, time
import numpy as np
folder, seconds = sys.argv[1], float(sys.argv[2])
ids = np.random.default_rng(0).integers(3, 1000, (4, 32)).astype("int32")
mask = np.ones_like(ids)
{load}
for _ in range(5):
    call()
count, start = 0, time.perf_counter()
while time.perf_counter() - start < seconds:
    call()
    count += 1
print(4 * count / (time.perf_counter() - start), "samples/s")
"""
_TORCH = """
import torch, transformers
model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
ids, mask = torch.from_numpy(ids).long(), torch.from_numpy(mask)
@torch.no_grad()
def call():
    model(input_ids=ids, attention_mask=mask).logits.numpy()
"""
_KERAS = """
import keras_hub
model = keras_hub.models.TextClassifier.from_preset(folder, num_classes=2, preprocessor=None)
batch = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
def call():
    model.predict_on_batch(batch)
"""
BARE = {
    "native-torch-eager": (_TORCH, "native-torch-cpu", {}),
    "keras3-jax": (_KERAS, "keras3-jax-cpu", {"KERAS_BACKEND": "jax"}),
}
"""SUT → (how the script loads the model, its environment, its variables)."""


@dataclass(frozen=True)
class Checkout:
    """A checkout, and the flags of the cells that are measured."""

    root: Path
    suts: Sequence[str]
    models: Sequence[str]
    size: str
    duration: float

    def run(self, *words: str, code: int = 0) -> float:
        """Run a command of the checkout. → seconds. Ends the program if it ends otherwise."""
        start = time.monotonic()
        # Fewer repeats than ranking needs, or none comparable, are no failure here.
        done = subprocess.run(
            [self.root / "run.sh", *words], cwd=self.root, capture_output=True, text=True
        )
        seconds = time.monotonic() - start
        if done.returncode != code:
            command = " ".join(["./run.sh", *words])
            sys.exit(f"{self.root}: {command} ended with {done.returncode}: {done.stderr[-2000:]}")
        return seconds

    def cell(self, sut: str, model: str, out: str, *more: str) -> tuple[str, ...]:
        """The flags of a cell."""
        given = ("--sut", sut, "--model", model, "--size", self.size)
        return (*given, "--duration", f"{self.duration:g}", "--out", out, *more)

    def single(self) -> float:
        """The mean seconds of a cell, without its timed test."""
        return statistics.mean(self._single(sut, model) for sut, model in self._cells())

    def _single(self, sut: str, model: str, with_test: bool = False) -> float:
        with tempfile.TemporaryDirectory() as out:
            seconds = self.run(*self.cell(sut, model, out, "--scenario", "Offline"))
            ((_, test_s),) = _results(Path(out))
            return seconds if with_test else seconds - test_s

    def later(self) -> float:
        """The mean seconds of a cell of a sweep after the first one, without its timed test."""
        found = []
        for sut, model in self._cells():
            with tempfile.TemporaryDirectory() as out:
                flags = self.cell(sut, model, out, "--scenario", "Offline")
                self.run("sweep", *flags, "--repeats", str(REPEATS), "--yes")
                results = _results(Path(out))
                for (before_s, _), (end_s, test_s) in zip(results, results[1:], strict=False):
                    found.append(end_s - before_s - test_s)
        return statistics.mean(found)

    def sweep(self) -> float:
        """The seconds of a sweep of all SUTs."""
        with tempfile.TemporaryDirectory() as out:
            flags = self.cell(",".join(self.suts), self.models[0], out)
            scenarios = ("--scenario", "Offline,SingleStream")
            return self.run("sweep", *flags, *scenarios, "--repeats", str(REPEATS), "--yes")

    def list(self) -> float:
        """The seconds of `list`."""
        return self.run("list")

    def dry_run(self) -> float:
        """The seconds of a plan."""
        with tempfile.TemporaryDirectory() as out:
            flags = self.cell("mock", self.models[0], out, "--scenario", "Offline")
            return self.run(*flags, "--dry-run")

    def audit(self) -> float:
        """The seconds of an audit, which fails: its folder has no submission around the logs."""
        return self.run("audit", str(self._made("audit_scale")), code=1)

    def report(self) -> float:
        """The seconds of a page."""
        template = Path(self._scratch.name) / "mock"
        if not template.exists():
            self.run(*self.cell("mock", self.models[0], str(template), "--scenario", "Offline"))
        run = next(template.rglob("result.json")).parent
        cells = self._made("report_scale", str(run), "--repeats", "1")
        return self.run("report", str(cells), "--html", f"{cells}.html", "--quiet")

    @cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory()

    def _made(self, program: str, *given: str) -> Path:
        """The folder that a program of tests/scale makes once."""
        folder = Path(self._scratch.name) / program
        if not folder.exists():
            python = self.root / ".cache" / "environments" / "core" / "bin" / "python"
            # Its exit code says whether its own goals are met.
            subprocess.run(
                [python, "-P", "-m", f"tests.scale.{program}", *given, "--keep", folder],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                capture_output=True,
                check=False,
            )
        return folder

    def bare(self, sut: str) -> float:
        """The seconds of a cell, test included, as a multiple of those of the script."""
        load, environment, variables = BARE[sut]
        cache = self.root / ".cache"
        folder = max(cache.glob(f"checkpoints/bert-{self.size}-*/"), key=os.path.getmtime)
        python = cache / "environments" / environment / "bin" / "python"
        start = time.monotonic()
        subprocess.run(
            [python, "-c", _LOOP.replace("{load}", load), folder, str(self.duration)],
            env={**os.environ, **variables},
            capture_output=True,
            check=True,
        )
        bare_s = time.monotonic() - start
        return self._single(sut, "bert", with_test=True) / bare_s

    def _cells(self) -> Iterator[tuple[str, str]]:
        return ((sut, model) for model in self.models for sut in self.suts)


def _results(out: Path) -> list[tuple[float, float]]:
    """(time of its end, seconds of its timed test) of each measurement below `out`, in order."""
    found = []
    for path in out.rglob("result.json"):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found.append((path.stat().st_mtime, content["seconds"]["performance"]))
    return sorted(found)


ROWS: dict[str, Callable[[Checkout], float]] = {
    "single": Checkout.single,
    "later": Checkout.later,
    "sweep": Checkout.sweep,
    "list": Checkout.list,
    "dry-run": Checkout.dry_run,
    "audit": Checkout.audit,
    "report": Checkout.report,
}


def _rows(names: Sequence[str], suts: Sequence[str]) -> dict[str, Callable[[Checkout], float]]:
    """Name of a row → how a checkout measures it."""
    rows = {name: ROWS[name] for name in names if name in ROWS}
    if "bare" in names:
        for sut in BARE:
            if sut in suts:
                rows[f"bare {sut}"] = functools.partial(Checkout.bare, sut=sut)
    return rows


def _spread(values: Sequence[float]) -> str:
    median = statistics.median(values)
    return f"{median:.3g} ({min(values):.3g}–{max(values):.3g})"


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vs", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", nargs="+", choices=(*ROWS, "bare"), default=[*ROWS, "bare"])
    parser.add_argument("--suts", nargs="+", default=list(SUTS))
    parser.add_argument("--models", nargs="+", default=["bert", "mistral"])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--duration", type=float, default=2.0)
    flags = parser.parse_args()

    cells = (flags.suts, flags.models, flags.size, flags.duration)
    ours = Checkout(ROOT, *cells)
    other = Checkout(flags.vs.resolve(), *cells)
    print(f"{'row':24} {'this: median (range)':24} {'--vs':24} ratio (range over pairs)")
    for name, measure in _rows(flags.rows, flags.suts).items():
        pairs = []
        for number in range(flags.pairs + 1):
            if number % 2:
                pair = (measure(ours), measure(other))
            else:
                second = measure(other)
                pair = (measure(ours), second)
            if number:  # the first one warms up
                pairs.append(pair)
        mine, theirs = zip(*pairs, strict=True)
        ratio = statistics.median(mine) / statistics.median(theirs)
        each = [one / two for one, two in pairs]
        spread = f"{ratio:.3g} ({min(each):.3g}–{max(each):.3g})"
        print(f"{name:24} {_spread(mine):24} {_spread(theirs):24} {spread}", flush=True)


if __name__ == "__main__":
    main()
