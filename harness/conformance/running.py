"""Runs the programs of `sut.conformance` in the environments of the SUTs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from formats import reading
from formats.writing import write_json
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, interpreter, pins, programs
from harness.execution.environments import Environment
from harness.execution.pins import Pin, name_of
from harness.request.pins import of_cell
from sut import conformance
from sut.conformance import PACKAGES, cases
from sut.conformance.cases import LIST, UNFINISHED, Answer, Case
from sut.devices import HOST
from sut.registry import REFERENCES, spec_of

_LIMIT_S = 3600
_AT_A_TIME = 2  # processes; each has its own gigabyte
_LIBRARIES = {"keras_hub_folders": "KerasHub", "keras_files": "Keras"}
"""Program → the library whose answers it computes."""
Say = Callable[[str], None]


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
HUB = {name: BACKENDS[name] for name in ("JAX", "TensorFlow", "PyTorch")}
"""The backends on which KerasHub's models are compared. They compute eagerly."""
TRANSFORMERS = "native-torch-eager"
"""The SUT in whose environment Transformers makes folders."""
KERAS = "keras-file-on-torch"
"""The reference in whose environment Keras makes files."""


def prepared(
    cache: Path, suts: Iterable[str], given: Sequence[str], say: Say
) -> dict[str, Environment]:
    """The environment of each SUT, made on first use. Raises UsageError if none has a package of
    --with, and EnvironmentFailure.

    `given`: the values of --with, spelt.
    """
    own = {sut: _pins(sut, given) for sut in suts}
    used = {pin.name for each in own.values() for pin in each}
    for text in given:
        if name_of(text) not in used:
            raise UsageError(
                f"--with {text}: no environment of this comparison has it: leave it out"
            )
    return {
        sut: pins.ensure(cache, spec_of(sut).environment, HOST, each, say)
        for sut, each in own.items()
    }


def _pins(sut: str, given: Sequence[str]) -> Sequence[Pin]:
    """Those packages of --with that the environment of a SUT has. Judges are as they are locked."""
    if sut in REFERENCES or sut == TRANSFORMERS:
        return ()
    lock = environments.lock_files(spec_of(sut).environment, HOST)[0]
    there = set(map(environments.block_name, environments.lock_blocks(lock)))
    return of_cell([text for text in given if name_of(text) in there], None, sut, HOST)


def versions(made: Iterable[Environment]) -> dict[str, dict[str, str]]:
    """Name of each environment → package → version."""
    found = {}
    for environment in made:
        there = interpreter.inventory(str(environment.python))
        found[environment.name] = {name: there[name] for name in PACKAGES if name in there}
    return found


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs programs.

    Attributes:
        folder: for their files. A program goes on with those that are there.
        environments: that of each SUT.
    """

    folder: Path
    environments: Mapping[str, Environment]
    say: Say

    def cases(self, program: str, sut: str, job: Mapping[str, Any], failure: str) -> list[Case]:
        """The cases that a program makes. Raises EnvironmentFailure: `failure`, and its last
        words.
        """
        path = self.folder / program / LIST
        if not path.exists():
            self._run(program, sut, job, program, f": {failure}")
        return reading.from_file(path, list[Case])

    def answers(
        self, program: str, ways: Mapping[str, Way], tried: Sequence[Case], *, layers: bool = False
    ) -> Iterator[tuple[Case, dict[str, Answer]]]:
        """Run a program on several backends. Yield each case, and backend → its answer, without
        the backends that did not try it.

        `layers`: whether the answers have the values of all layers. Raises EnvironmentFailure with
        the last words of a program that failed.
        """
        library = _LIBRARIES[program]
        folders = [case.folder for case in tried if not case.reason]

        def run(backend: str) -> Path:
            way = ways[backend]
            job = {**asdict(way), "folders": folders, "layers": layers}
            what = f"{library} on {backend}"
            folder = self._run(program, way.sut, job, f"{library}-{backend}", f" of {what}")
            self.say(f"{what}: done")
            return folder

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            found = dict(zip(ways, pool.map(run, ways), strict=True))
        for case in tried:
            yield case, cases.answers(found, case)

    def _run(
        self, program: str, sut: str, job: Mapping[str, Any], place: str, failure: str
    ) -> Path:
        """Run a program. If it dies, it goes on with the case after it. → the folder of its files.

        `place`: the name of this folder.
        """
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        for refusal in folder.glob("*.txt"):
            if refusal.read_text(encoding="utf-8") == UNFINISHED:  # when this was interrupted
                refusal.unlink()
                refusal.with_suffix(".npz").unlink(missing_ok=True)
        path = folder / "job.json"
        write_json(path, {**job, "out": folder})
        # TensorFlow writes a line for each fusion that it does not make.
        variables = {**spec_of(sut).process_env, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment = self.environments[sut]
        while True:
            before = len(list(folder.iterdir()))
            fault = programs.run(
                conformance.__name__,
                environment,
                variables,
                [program, path],
                folder,
                limit_s=_LIMIT_S,
            )
            if not fault:
                return folder
            if len(list(folder.iterdir())) == before:
                raise EnvironmentFailure(f"conformance{failure}: {fault}")
