"""Judges the answers of backends, and says who agrees. Reads no file."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import product

import numpy as np

from sut.conformance.cases import Answer, Arrays

BEFORE = "before it was saved"
"""The name of a judge: the value of a loss or a metric, before a file stored it."""
_NOISES = 10
"""Ten times as far as the float32 of Transformers from its float64. Models whose every value is
read are at most three times as far.
"""
_LEAST_OF_FOLDERS, _MOST_OF_FOLDERS = 1e-5, 1e-3
"""The bounds of this limit, in deviations."""
_OF_OPERATIONS = 1e-4
"""Of the largest value. Operations that agree are nearer than 1e-5, others farther than 1e-3."""
_OF_JUDGES = 1e-6
"""How near two judges are. Some have constants in float32, such as the slope of a leaky ReLU."""
_LEAST = 1e-30
LIMITS = {
    "folders": (
        f"A folder differs if its answers are farther than {_NOISES} times the distance between"
        f" Transformers in float32 and in float64, and at least {_LEAST_OF_FOLDERS:g} of their"
        " deviation."
    ),
    "operations": (
        f"An operation differs if an output is farther than {_OF_OPERATIONS:g} of its largest"
        " value from that in float64."
    ),
}
"""Part → what counts as a difference."""


class Agreement(StrEnum):
    """How a backend's answer compares with the reference."""

    AGREES = "agrees"
    DIFFERS = "differs"
    REFUSED = "refused"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One case on one backend.

    Attributes:
        part: `folders`, `operations` or `file`.
        case: such as `qwen2, tied head`.
        size: the largest difference, as a share of the deviation (folders) or of the largest value
            (operations) of the reference's answer; None: there is none.
        layer: the first layer that differs; empty: it is not known.
        words: why it was refused, or who judges.
    """

    part: str
    case: str
    backend: str
    verdict: Agreement
    size: float | None = None
    layer: str = ""
    words: str = ""


def of_folder(case: str, backend: str, reference: Arrays, answer: Answer) -> Finding:
    """The finding on KerasHub's answer of a folder. `reference`: that of Transformers."""
    finding = partial(Finding, part="folders", case=case, backend=backend)
    if isinstance(answer, str):
        return finding(verdict=Agreement.REFUSED, words=answer)
    distance = partial(_of_deviation, mask=reference.get("mask"))
    noise = 0.0
    if "output64" in reference:
        noise = distance(reference["output64"], reference["output"])
    limit = min(_MOST_OF_FOLDERS, max(_LEAST_OF_FOLDERS, _NOISES * noise))
    sizes = {
        key: distance(reference[key], answer[key])
        for key in ("output", "pooled")
        if key in reference and key in answer
    }
    size = max(sizes.values())
    if size <= limit:
        return finding(verdict=Agreement.AGREES, size=size)
    layer = _first_of_list(reference, answer, distance, limit)
    if not layer and sizes["output"] <= limit:
        layer = "the pooler"
    return finding(verdict=Agreement.DIFFERS, size=size, layer=layer)


def _of_deviation(wanted: np.ndarray, made: np.ndarray, mask: np.ndarray | None) -> float:
    """The largest difference, in standard deviations of the wanted values. Infinite if the shapes
    differ, or if a value is no number.

    `mask`: [rows, tokens], 1 for a token and 0 for padding, whose answers do not count.
    """
    if wanted.shape != made.shape and wanted.ndim == made.ndim == 4:  # channels first and last
        wanted = np.moveaxis(wanted, 1, -1)
    if wanted.size == made.size and wanted.shape[-1:] == made.shape[-1:]:  # places in a row
        made = made.reshape(wanted.shape)
    if wanted.shape != made.shape:
        return math.inf
    if mask is not None and wanted.shape[: mask.ndim] == mask.shape:
        wanted, made = wanted[mask == 1], made[mask == 1]
    return _share(wanted.astype(np.float64) - made, wanted.std())


def _share(apart: np.ndarray, unit: float) -> float:
    """The largest difference in these units. Infinite if it is no number."""
    size = float(np.abs(apart).max(initial=0.0)) / max(float(unit), _LEAST)
    return size if math.isfinite(size) else math.inf


def _first_of_list(
    reference: Arrays, answer: Arrays, distance: Callable[..., float], limit: float
) -> str:
    """The first layer of a list of layers that differs. Layers of two libraries are compared if as
    many of one class were called as the other has in a list, with outputs of the same shape.
    """
    compared = [
        (kind, list(map(distance, theirs, ours)))
        for theirs, (kind, ours) in product(_lists(reference).values(), _lists(answer).items())
        if [each.shape for each in theirs] == [each.shape for each in ours]
    ]
    # A class of other layers, such as their attentions, is farther away.
    kind, sizes = min(compared, key=lambda each: each[1][0], default=("", [math.inf]))
    if sizes[0] == math.inf:
        return ""
    for number, size in enumerate(sizes):
        if size > limit:
            return f"layer {number} of {len(sizes)} ({kind}, {size:.1g})"
    return "after the last layer"


def _lists(arrays: Arrays) -> dict[str, list[np.ndarray]]:
    """Name of a list or a class → the outputs of its layers, which are called
    `layer|number|name`.
    """
    found: dict[str, list[np.ndarray]] = {}
    for key, array in arrays.items():
        kind, _, name = key.partition("|")
        if kind == "layer":
            found.setdefault(name.partition("|")[2], []).append(array)
    return found


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """Who judges a case.

    Attributes:
        judge: with whom backends are compared; empty: nobody can judge.
        far: the verdict on a backend that is far from the judge. A single judge may be wrong
            itself.
        words: for a reader.
    """

    judge: str = ""
    far: Agreement = Agreement.UNJUDGED
    words: str = ""


def of_file(
    part: str, case: str, answers: Mapping[str, Answer], backends: Collection[str]
) -> Iterator[Finding]:
    """Yield the finding on a `.keras` file for each backend.

    Args:
        answers: those of backends and of judges: outputs called `0`, `1` and so on, and if they are
            known the values of layers.
        backends: the names of all that do not judge.
    """
    made = {name: each for name, each in answers.items() if not isinstance(each, str)}
    bench = _bench(made, backends)
    for backend, answer in answers.items():
        finding = partial(Finding, part=part, case=case, backend=backend, words=bench.words)
        if backend not in backends:
            continue
        if isinstance(answer, str):
            yield finding(verdict=Agreement.REFUSED, words=answer)
        elif not bench.judge:
            yield finding(verdict=Agreement.UNJUDGED)
        else:
            size = apart(made[bench.judge], answer)
            verdict = bench.far if size > _OF_OPERATIONS else Agreement.AGREES
            layer = ""
            if verdict is Agreement.DIFFERS:
                layer = _first_of_all(made[bench.judge], answer)
            yield finding(verdict=verdict, size=size, layer=layer)


def _bench(made: Mapping[str, Arrays], backends: Collection[str]) -> _Bench:
    """Who judges. `made`: the answers of backends and judges that compute the case."""
    judges = {name: each for name, each in made.items() if name not in backends}
    if BEFORE in judges:
        return _Bench(judge=BEFORE, far=Agreement.DIFFERS)
    if not judges:
        return _Bench(words="both judges refuse it")
    first, *others = judges
    outputs = [array for each in judges.values() for array in _outputs(each).values()]
    is_exact = all(array.dtype == np.float64 for array in outputs if array.dtype.kind == "f")
    agreeing = groups({**judges, **made}, _OF_OPERATIONS)
    if len(groups(judges, _OF_JUDGES if is_exact else _OF_OPERATIONS)) > 1:
        return _Bench(words=f"the judges differ: {in_words(agreeing)}")
    if others:
        words = "" if is_exact else "a judge computes in float32"
        return _Bench(judge=first, far=Agreement.DIFFERS, words=words)
    words = f"only {first} judges"
    if len(agreeing) > 1:
        words += f": {in_words(agreeing)}"
    return _Bench(judge=first, words=words)


def _first_of_all(wanted: Arrays, made: Arrays) -> str:
    """The first layer that differs, by the names of `sut.reference.keras_layers`."""
    for key, array in wanted.items():
        if not key.isdigit() and key in made:
            size = _of_largest(array, made[key])
            if size > _OF_OPERATIONS:
                name, kind, given, result = key.partition("|")[2].rsplit("|", 3)
                return f"{name} ({kind}, {given} → {result}, {size:.1g})"
    return ""


def apart(wanted: Arrays, made: Arrays) -> float:
    """The largest difference of two backends' outputs, as a share of the largest wanted value.
    Infinite if shapes, kinds of numbers, or places that are no numbers differ.
    """
    theirs, ours = _outputs(wanted), _outputs(made)
    if theirs.keys() != ours.keys():
        return math.inf
    return max((_of_largest(theirs[key], ours[key]) for key in theirs), default=0.0)


def _outputs(answer: Arrays) -> Arrays:
    """The outputs of a model, without the values of its layers."""
    return {key: array for key, array in answer.items() if key.isdigit()}


def _of_largest(wanted: np.ndarray, made: np.ndarray) -> float:
    kinds = {each.dtype.kind.replace("u", "i") for each in (wanted, made)}
    if wanted.shape != made.shape or len(kinds) > 1:
        return math.inf
    if wanted.dtype.kind not in "fc":
        return 0.0 if np.array_equal(wanted, made) else math.inf
    differs = (wanted != made) & ~(np.isnan(wanted) & np.isnan(made))
    unit = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    return _share(wanted[differs] - made[differs], unit)


def groups(answers: Mapping[str, Arrays], limit: float) -> list[list[str]]:
    """The backends in groups that agree among themselves, the largest first."""
    found: list[list[str]] = []
    for name, arrays in answers.items():
        for group in found:
            if apart(answers[group[0]], arrays) <= limit:
                group.append(name)
                break
        else:
            found.append([name])
    return sorted(found, key=len, reverse=True)


def in_words(found: Sequence[Sequence[str]]) -> str:
    """`JAX, TensorFlow and PyTorch agree; OpenVINO agrees with none`."""
    words = []
    for *others, last in found:
        if others:
            words.append(f"{', '.join(others)} and {last} agree")
        else:
            words.append(f"{last} agrees with none")
    return "; ".join(words)
