"""Several references of one cell: whether they agree, and where they differ if they do not."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from compliance.scoring import accuracy, loss_curve
from harness.execution import programs
from harness.execution.process import read_outcome
from harness.measurement.attempt import Attempt, EnvironmentOf
from harness.request.request import Request
from scenarios.worker.queries.answers import pack
from sut.registry import framework_of, spec_of

_PROGRAM = "sut.reference.keras_layers"
_ROWS = 4
_SAME = 1e-5  # of the largest value of a layer; float32 differs by less, float64 by 1e-14
_NEAR = 1e-3  # the same for two frameworks of which one computes in float32

_Answers = Mapping[str, np.ndarray]
"""Name of an array → the array."""


def notes(reasons: Mapping[str, str], found: Mapping[str, Path]) -> tuple[str, ...]:
    """Return notes for a reader: which references do not judge and why, and which layers of the
    others compute in float32 instead of float64.

    Args:
        reasons: framework → why its reference could not be made.
        found: name of each other reference → its file.
    """
    judging = " and ".join(map(framework_of, found))
    made = [f"only {judging} judges the answers; {each}: {reasons[each]}" for each in reasons]
    for name, path in found.items():
        outcome = read_outcome(path.parent)
        evidence = outcome and outcome.evidence_after
        if layers := evidence and evidence.detail.get("in_float32"):
            made.append(
                f"the reference on {framework_of(name)} computes in float64, but for"
                f" {', '.join(layers)} in float32"
            )
    return tuple(made)


def limits(
    attempt: Attempt,
    environment: EnvironmentOf,
    found: Mapping[str, Path],
) -> tuple[dict[str, float], str]:
    """Return (the limits of the answers, why the references cannot judge or an empty text).

    Args:
        found: name of each reference → its file.
    """
    request = attempt.request
    answers = {framework_of(name): dict(np.load(path)) for name, path in found.items()}
    (one, first), *others = answers.items()
    find = request.architecture.limits
    assert find
    made, reason = find(request.size, request.cell().judged_precision, first)
    if reason:
        return {}, reason
    strict, _ = find(request.size, "float32", first)
    for two, other in others:
        if not _agree(request, first, other, strict or made):
            rows = _worst_rows(request, first, other)
            values = _layers(attempt, environment, found, rows)
            return {}, f"no reference judges: {difference(one, two, values)}"
    return made, ""


def _agree(
    request: Request,
    first: _Answers,
    other: _Answers,
    tolerance: Mapping[str, float],
) -> bool:
    """Whether the answers of one reference pass if the other one judges them."""
    if request.trains:
        return loss_curve.score(other["loss"].tolist(), first["loss"], tolerance).passed
    keys = request.model.answer_keys
    if any(first[key].shape != other[key].shape for key in keys):
        return False
    rows, _ = pack(other, keys)
    answers = {number: row.tobytes() for number, row in enumerate(rows)}
    return accuracy.score(request.model.score, answers, first, tolerance, keys, None).passed


def _worst_rows(request: Request, first: _Answers, other: _Answers) -> np.ndarray:
    """The samples whose answers differ most; the first ones of a training."""
    keys = request.model.answer_keys
    if request.trains or any(first[key].shape != other[key].shape for key in keys):
        return np.arange(min(_ROWS, len(next(iter(first.values())))))
    total = np.zeros(len(first[keys[0]]))
    for key in keys:
        apart = np.abs(first[key].astype(float) - other[key]).reshape(len(total), -1).max(axis=1)
        total += np.nan_to_num(apart, nan=np.inf) / (apart.max() or 1.0)
    return np.sort(np.argsort(total)[-_ROWS:])


def _layers(
    attempt: Attempt,
    environment: EnvironmentOf,
    found: Mapping[str, Path],
    rows: np.ndarray,
) -> dict[str, dict[str, np.ndarray]]:
    """Framework → the values of its layers, by the names that `sut.reference.keras_layers` writes.
    The SUT's framework is the last one, in float32, if no reference runs on it.
    """
    values: dict[str, dict[str, np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder, np.load(attempt.inputs.path) as arrays:
        given = Path(folder) / "inputs.npz"
        out = Path(folder) / "layers.npz"
        np.savez(given, allow_pickle=False, **{name: arrays[name][rows] for name in arrays.files})
        for name in (*found, attempt.request.options.sut):
            framework = framework_of(name)
            path = found.get(name, next(iter(found.values())))
            precision = "float64" if name in found else "float32"
            words = (path.with_name("job.json"), precision, given, out)
            variables = spec_of(name).process_env
            if framework not in values and not programs.run(
                _PROGRAM, environment(name), variables, words, Path(folder)
            ):
                values[framework] = dict(np.load(out))
    return values


def difference(one: str, two: str, values: Mapping[str, _Answers]) -> str:
    """Return a sentence: which frameworks agree, which differ, and from which layer on.

    Args:
        one, two: the frameworks of two references that differ.
        values: framework → the values of its layers, by the names that `sut.reference.keras_layers`
            writes. A framework may be missing.
    """
    if {one, two} <= values.keys():
        arrays = (found.values() for found in values.values())
        for layer, *of_layer in zip(values[one], *arrays, strict=False):
            seen = dict(zip(values, of_layer, strict=True))
            if _differ(seen[one], seen[two]):
                name, kind, given, made = layer.partition("|")[2].rsplit("|", 3)
                place = f"from the layer {name} on ({kind}, {given} → {made})"
                return f"{_who(one, two, seen)} {place}"
    return f"{one} and {two} differ, and no single layer shows it"


def _who(one: str, two: str, seen: _Answers) -> str:
    """Which of two frameworks differs from all others. If a third does not decide it, all do."""
    others = seen.keys() - {one, two}
    apart = [
        each for each in (one, two) for other in others if _differ(seen[each], seen[other], _NEAR)
    ]
    if len(apart) != 1:
        return f"{', '.join(seen)} differ"
    agreeing = " and ".join(each for each in seen if each not in apart)
    return f"{agreeing} agree, {apart[0]} differs"


def _differ(one: np.ndarray, other: np.ndarray, share: float = _SAME) -> bool:
    if one.shape != other.shape:
        return True
    if one.dtype.kind != "f":
        return bool((one != other).any())
    most = share * float(np.abs(one).max(initial=0.0))
    return not np.allclose(one, other, rtol=0.0, atol=most, equal_nan=True)
