"""The parts of a comparison: Hugging Face folders, operations, and a user's file."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.conformance import verdicts
from harness.conformance.running import BACKENDS, JUDGES, OF_HUB, TRANSFORMERS, Runner, Way, read
from harness.conformance.verdicts import Arrays, Limit, Row, Verdict
from harness.errors import EnvironmentFailure

DATA = tuple(sorted(Path(__file__).parent.glob("*.toml")))
"""The files with the cases."""
OF_FOLDERS = Limit(least=1e-5, most=1e-3, of_noise=10)
"""Ten times as far as the float32 of Transformers from its float64. Models whose every value is
read are at most three times as far.
"""
OF_OPERATIONS = 1e-4
"""Of the largest value. Operations that agree are nearer than 1e-5, others farther than 1e-3."""
JUDGES_AGREE = 1e-6
"""How near two judges are. Some have constants in float32, such as the slope of a leaky ReLU."""
_BEFORE = "before it was saved"


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def folders(runner: Runner, only: str) -> list[Row]:
    """The rows of KerasHub's conversions. `only`: a regular expression of types of models."""
    runner.prepare([TRANSFORMERS, *(BACKENDS[name].sut for name in OF_HUB)])
    types = runner.folder / "types.json"
    words = runner.run("keras_hub_folders", BACKENDS["JAX"].sut, {"types": str(types)}, "types")
    if words:
        raise EnvironmentFailure(f"conformance: KerasHub's types of models: {words}")
    known = json.loads(types.read_text(encoding="utf-8"))["types"]
    job = {**_data("folders"), "types": [name for name in known if re.search(only, name)]}
    if not job["types"]:
        return []
    runner.say(f"making folders of {len(job['types'])} types of models with Transformers")
    made = runner.folder / "folders"
    words = ""
    if not (made / "rows.json").exists():
        words = runner.run("transformers_folders", TRANSFORMERS, job, "folders")
    if words:
        raise EnvironmentFailure(f"conformance: Transformers makes no folders: {words}")
    listed = json.loads((made / "rows.json").read_text(encoding="utf-8"))["rows"]
    paths = [str(made / each["folder"]) for each in listed if not each["reason"]]
    ways = {name: BACKENDS[name] for name in OF_HUB}
    found = runner.run_all("keras_hub_folders", ways, {"folders": paths}, "KerasHub")
    return [row for each in listed for row in _of_folder(each, made, found)]


def _of_folder(listed: Mapping[str, str], made: Path, found: Mapping[str, Path]) -> Iterator[Row]:
    """The rows of one folder: one for each backend. A folder of a type that a backend refuses has
    none for it.
    """
    case = f"{listed['type']}, {listed['variant']}"
    if listed["reason"]:
        words = listed["reason"]
        yield Row(
            part="folders", case=case, backend="Transformers", verdict=Verdict.REFUSED, words=words
        )
        return
    folder = listed["folder"]
    with np.load(made / folder / "answers.npz") as arrays:
        wanted = dict(arrays)
    with np.load(made / folder / "inputs.npz") as inputs:
        masks = [inputs[name] for name in inputs if name.endswith("attention_mask")]
    for backend, out in found.items():
        answers = read(out, folder)
        if isinstance(answers, str):
            yield Row(
                part="folders", case=case, backend=backend, verdict=Verdict.REFUSED, words=answers
            )
        elif answers is not None:
            mask = masks[-1] if masks else None
            yield verdicts.folder(case, backend, wanted, answers, mask, OF_FOLDERS)


def operations(runner: Runner, only: str) -> list[Row]:
    """The rows of Keras' layers, operations, losses and metrics.

    `only`: a regular expression of names such as `layers.Conv2D`.
    """
    ways = {**BACKENDS, **JUDGES}
    runner.prepare(way.sut for way in ways.values())
    job = {**_data("operations"), "only": only}
    maker = JUDGES["PyTorch in float64"].sut
    runner.say("making .keras files of Keras' layers and operations")
    made = runner.folder / "cases"
    words = ""
    if not (made / "cases.json").exists():
        words = runner.run("gauntlet", maker, job, "cases")
    if words:
        raise EnvironmentFailure(f"conformance: Keras makes no cases: {words}")
    cases = json.loads((made / "cases.json").read_text(encoding="utf-8"))["cases"]
    if not cases:
        return []
    tried = {each["case"]: made / each["folder"] for each in cases if not each["reason"]}
    found = runner.run_all(
        "keras_files", ways, {"folders": list(map(str, tried.values()))}, "Keras"
    )
    rows = []
    for case, folder in tried.items():
        answers = {name: read(out, folder.name) for name, out in found.items()}
        expected = folder / "expected.npz"
        if expected.exists():
            answers[_BEFORE] = read(folder, "expected")
        # What every backend refuses is no valid setting.
        if not all(isinstance(each, str) for each in answers.values()):
            rows += judged("operations", case, answers)
    return rows


def judged(
    part: str, case: str, found: Mapping[str, dict[str, np.ndarray] | str | None]
) -> list[Row]:
    """The rows of one file, one for each backend of BACKENDS.

    Args:
        found: name of each backend, and of each judge → its outputs, or the words of a refusal. A
            loss or a metric has a third judge: its value before it was saved.
    """
    made = {name: each for name, each in found.items() if isinstance(each, dict)}
    of_all = {name: {k: v for k, v in each.items() if k.isdigit()} for name, each in made.items()}
    judges = {name: each for name, each in of_all.items() if name not in BACKENDS}
    backends = {name: of_all[name] for name in BACKENDS if name in of_all}
    before = judges.pop(_BEFORE, None)
    exact = all(_in_float64(each) for each in judges.values())
    differ = (
        len(judges) > 1
        and len(verdicts.groups(judges, JUDGES_AGREE if exact else OF_OPERATIONS)) > 1
    )
    words = ""
    if before is not None:
        judges = {_BEFORE: before}
    elif differ:
        words = "the judges differ: " + verdicts.in_words(
            verdicts.groups({**judges, **backends}, OF_OPERATIONS)
        )
    elif len(judges) == 1:
        agreeing = verdicts.groups({**judges, **backends}, OF_OPERATIONS)
        words = f"only {next(iter(judges))} judges"
        words += f": {verdicts.in_words(agreeing)}" if len(agreeing) > 1 else ""
    elif not exact and judges:
        words = "a judge computes in float32"
    rows = []
    for backend in BACKENDS:
        row = Row(part=part, case=case, backend=backend, verdict=Verdict.UNJUDGED, words=words)
        answer = found.get(backend)
        if isinstance(answer, str):
            rows.append(replace(row, verdict=Verdict.REFUSED, words=answer))
        elif answer is not None and (not judges or (differ and before is None)):
            rows.append(replace(row, words=words or "both judges refuse it"))
        elif answer is not None:
            size = verdicts.outputs(next(iter(judges.values())), of_all[backend])
            one_judge = len(judges) == 1 and before is None
            if size <= OF_OPERATIONS:
                row = replace(row, verdict=Verdict.AGREES, size=size)
            elif one_judge:  # it may be the judge that is wrong
                row = replace(row, size=size)
            else:
                layer = _first_layer(made, next(iter(judges)), backend)
                row = replace(row, verdict=Verdict.DIFFERS, size=size, layer=layer)
            rows.append(row)
    return rows


def _in_float64(arrays: Arrays) -> bool:
    """Whether all floats are of float64."""
    return all(each.dtype == np.float64 for each in arrays.values() if each.dtype.kind == "f")


def _first_layer(made: Mapping[str, Arrays], judge: str, backend: str) -> str:
    """The first layer that differs, by the names of `sut.reference.keras_layers`."""
    for key, wanted in made.get(judge, {}).items():
        if key.isdigit() or key not in made[backend]:
            continue
        size = verdicts.outputs({"": wanted}, {"": made[backend][key]})
        if size > OF_OPERATIONS:
            name, kind, given, result = key.partition("|")[2].rsplit("|", 3)
            return f"{name} ({kind}, {given} → {result}, {size:.1g})"
    return ""


def file(runner: Runner, path: Path, inputs: Mapping[str, np.ndarray]) -> list[Row]:
    """The rows of a user's `.keras` file. `inputs`: arrays by the names of its inputs."""
    ways: dict[str, Way] = {**BACKENDS, **JUDGES}
    runner.prepare(way.sut for way in ways.values())
    folder = runner.folder / "file"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(path, folder / "model.keras")
    np.savez(folder / "inputs.npz", allow_pickle=False, **dict(inputs))
    job = {"folders": [str(folder)], "layers": True}
    found = runner.run_all("keras_files", ways, job, "Keras")
    answers = {name: read(out, folder.name) for name, out in found.items()}
    return judged("file", path.name, answers)
