"""Runs the programs of `sut.conformance` in the environments of the SUTs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from formats.writing import write_json
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, interpreter, pins, programs
from harness.execution.environments import Environment
from harness.execution.pins import Pin, name_of
from harness.request.pins import of_cell
from sut.conformance import PACKAGES
from sut.devices import HOST
from sut.registry import SUTS, spec_of

_LIMIT_S = 3600
_AT_A_TIME = 2  # processes; each has its own gigabyte
Say = Callable[[str], None]
UNFINISHED = "the process ended in it"
"""The words of a case while a program computes it."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A backend, and how it computes.

    Attributes:
        sut: the SUT or the reference in whose environment it runs.
        precision: of all values.
        jit_compile: whether Keras compiles by XLA.
    """

    sut: str
    precision: str = "float32"
    jit_compile: bool = False


BACKENDS = {
    "JAX": Way(sut="keras3-jax", jit_compile=True),
    "TensorFlow": Way(sut="keras3-tensorflow", jit_compile=True),
    "TensorFlow without XLA": Way(sut="keras3-tensorflow-graph"),
    "PyTorch": Way(sut="keras3-torch"),
    "OpenVINO": Way(sut="keras3-openvino"),
}
JUDGES = {
    "TensorFlow in float64": Way(sut="keras-file-on-tensorflow", precision="float64"),
    "PyTorch in float64": Way(sut="keras-file-on-torch", precision="float64"),
}
"""The judges of `.keras` cells (`sut.reference.keras_file`)."""
OF_HUB = ("JAX", "TensorFlow", "PyTorch")
"""The backends on which KerasHub's models are compared. They compute eagerly."""
TRANSFORMERS = "native-torch-eager"
"""The SUT in whose environment Transformers makes folders."""


@dataclass
class Runner:
    """Runs programs, in environments that are made on first use.

    Attributes:
        folder: for what the programs write. They go on with what is there.
        given: the values of --with, spelt.
        versions: name of an environment, with its --with → the versions of its packages.
    """

    cache: Path
    folder: Path
    given: Sequence[str]
    say: Say
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    _made: dict[str, Environment] = field(default_factory=dict)

    def prepare(self, suts: Iterable[str]) -> None:
        """Make the environments of these SUTs. Raises UsageError if none has a package of --with,
        and EnvironmentFailure.
        """
        used: set[str] = set()
        for sut in suts:
            environment = spec_of(sut).environment
            own: list[Pin] = []
            if sut in SUTS and sut != TRANSFORMERS:  # what judges is always as it is locked
                lock = environments.lock_files(environment, HOST)[0]
                there = {environments.block_name(b) for b in environments.lock_blocks(lock)}
                texts = [text for text in self.given if name_of(text) in there]
                own = list(of_cell(texts, None, sut, HOST))
            used |= {name_of(pin.text) for pin in own}
            if sut not in self._made:
                made = pins.ensure(self.cache, environment, HOST, own, self.say)
                self._made[sut] = made
                found = interpreter.inventory(str(made.python))
                kept = {name: found[name] for name in PACKAGES if name in found}
                self.versions.setdefault(made.name, kept)
        for text in self.given:
            if name_of(text) not in used:
                raise UsageError(
                    f"--with {text}: no environment of this comparison has it: leave it out"
                )

    def run(self, module: str, sut: str, job: Mapping[str, Any], name: str) -> str:
        """Run a program. A program that died goes on with the case after it. → its last words, if
        it failed for good; else an empty text.

        Args:
            name: of this run, for its files.
        """
        environment = self._made[sut]
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for refusal in folder.glob("*.txt"):
            if refusal.read_text(encoding="utf-8") == UNFINISHED:  # when this was interrupted
                refusal.unlink()
                refusal.with_suffix(".npz").unlink(missing_ok=True)
        path = folder / "job.json"
        write_json(path, {**job, "out": str(folder)})
        program = f"sut.conformance.{module}"
        # TensorFlow writes a line for each fusion that it does not make.
        variables = {**spec_of(sut).process_env, "TF_CPP_MIN_LOG_LEVEL": "3"}
        before = -1
        while True:
            words = programs.run(program, environment, variables, [path], folder, limit_s=_LIMIT_S)
            count = len(list(folder.iterdir()))
            if not words or count == before:
                return words
            before = count

    def run_all(
        self, module: str, ways: Mapping[str, Way], job: Mapping[str, Any], prefix: str
    ) -> dict[str, Path]:
        """Run a program on several backends. → name of each backend → the folder with its files.

        Raises EnvironmentFailure with the last words of a program that failed.
        """

        def one(item: tuple[str, Way]) -> tuple[str, str]:
            name, way = item
            own = {"precision": way.precision, "jit_compile": way.jit_compile}
            words = self.run(module, way.sut, {**job, **own}, f"{prefix}-{name}")
            self.say(f"{prefix} on {name}: done")
            return name, words

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            ended = dict(pool.map(one, ways.items()))
        for name, words in ended.items():
            if words:
                raise EnvironmentFailure(f"conformance of {prefix} on {name}: {words}")
        return {name: self.folder / f"{prefix}-{name}" for name in ways}


def read(folder: Path, case: str) -> dict[str, np.ndarray] | str | None:
    """The arrays of a case, or the words of a refusal. None: it was not tried."""
    refusal = folder / f"{case}.txt"
    if refusal.exists():
        return refusal.read_text(encoding="utf-8")
    path = folder / f"{case}.npz"
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return dict(arrays)
