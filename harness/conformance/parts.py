"""The parts of a comparison: Hugging Face folders, operations, and a user's file."""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.conformance import verdicts
from harness.conformance.running import BACKENDS, HUB, JUDGES, KERAS, TRANSFORMERS, Runner
from harness.conformance.verdicts import BEFORE, Finding
from harness.errors import EnvironmentFailure
from sut.conformance import FOLDERS, OPERATIONS
from sut.conformance.cases import Case, arrays

_FILES = BACKENDS | JUDGES
DATA = tuple(sorted(Path(__file__).parent.glob("*.toml")))
"""The files with the cases."""
_LOADER = "keras_hub/src/utils/transformers/preset_loader.py"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a comparison.

    Attributes:
        suts: the SUTs and references in whose environments it runs.
        find: (runner, a regular expression of names of models or operations) → its findings.
        usual_s: seconds that it takes.
    """

    suts: Sequence[str]
    find: Callable[[Runner, str], Iterable[Finding]]
    usual_s: float


def _folders(runner: Runner, only: str) -> Iterator[Finding]:
    """Yield the findings on KerasHub's conversions. `only`: an expression for types of models."""
    types = [name for name in _types(runner) if re.search(only, name)]
    if not types:
        return
    runner.say(f"making folders of {len(types)} types of models with Transformers")
    job = {**_data("folders"), "types": types}
    made = runner.cases("transformers_folders", TRANSFORMERS, job, "Transformers makes no folders")
    for case, answers in runner.answers("keras_hub_folders", HUB, made):
        reference = {}
        if case.reason:
            answers["Transformers"] = case.reason
        else:
            reference = arrays(case.folder / "answers.npz")
        for backend, answer in answers.items():
            yield verdicts.of_folder(case.name, backend, reference, answer)


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def _types(runner: Runner) -> list[str]:
    """The types of models with which the loader of KerasHub compares `model_type`."""
    environment = runner.environments[HUB["JAX"].sut].python.parents[1]
    loader = next(environment.glob(f"lib/*/site-packages/{_LOADER}"), None)
    if loader is None:
        raise EnvironmentFailure(f"conformance: KerasHub's types of models: no {_LOADER}")
    types = set()
    for node in ast.walk(ast.parse(loader.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == "model_type":
            types |= {str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)}
    return sorted(types)


def _operations(runner: Runner, only: str) -> Iterator[Finding]:
    """Yield the findings on Keras' layers, operations, losses and metrics. `only`: an expression
    for names such as `layers.Conv2D`.
    """
    runner.say("making .keras files of Keras' layers and operations")
    job = {**_data("operations"), "only": only}
    made = runner.cases("gauntlet", KERAS, job, "Keras makes no cases")
    if not made:
        return
    for case, answers in runner.answers("keras_files", _FILES, made):
        before = case.folder / "expected.npz"
        if before.exists():
            answers[BEFORE] = arrays(before)
        # What every backend refuses is no valid setting.
        if not all(isinstance(each, str) for each in answers.values()):
            yield from verdicts.of_file("operations", case.name, answers, BACKENDS)


def _file(
    path: Path, inputs: Mapping[str, np.ndarray], runner: Runner, _: str
) -> Iterator[Finding]:
    """Yield the findings on a user's `.keras` file."""
    case = Case(name=path.name, folder=runner.folder / "file")
    case.folder.mkdir(exist_ok=True)
    shutil.copyfile(path, case.folder / "model.keras")
    np.savez(case.folder / "inputs.npz", allow_pickle=False, **dict(inputs))
    ((_case, answers),) = runner.answers("keras_files", _FILES, [case], layers=True)
    yield from verdicts.of_file("file", case.name, answers, BACKENDS)


def of_file(path: Path, inputs: Mapping[str, np.ndarray]) -> Part:
    """The part for a user's `.keras` file. `inputs`: arrays by the names of its inputs."""
    return replace(PARTS[OPERATIONS], find=partial(_file, path, inputs), usual_s=0)


PARTS = {
    FOLDERS: Part(
        suts=[TRANSFORMERS, *(way.sut for way in HUB.values())], find=_folders, usual_s=700
    ),
    OPERATIONS: Part(suts=[way.sut for way in _FILES.values()], find=_operations, usual_s=800),
}
"""The parts by the library that they judge."""
