"""The accuracy score: how far a SUT's answers are from the reference's. The harness and the audit both call it. numpy only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from compliance.scoring import own_choice

Arrays = Mapping[str, np.ndarray]
# Records and accuracy.txt of November 2026 and before have these names.
_OLD_NAMES = {"regret": "logit_gap", "judged_fraction": "compared_fraction"}


@dataclass(frozen=True)
class Accuracy:
    """One score and whether it passes.

    Attributes:
        metric: the name of `value`.
        value: in standard deviations of the reference's logits; smaller is better, NaN never passes.
        threshold: the largest value that passes.
        passed: whether `value` and every limit in `detail` are met.
        detail: what else was counted, and the other limits as `<name>_limit`.
    """

    metric: str
    value: float
    threshold: float
    passed: bool
    detail: Mapping[str, float]

    def line(self) -> str:
        """What accuracy.txt has: one line of JSON, floats to five significant digits; what is not finite becomes null."""
        return json.dumps(_rounded(asdict(self)))


def with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """A tolerance, or a score's detail, under today's names: older records say `regret` and `judged_fraction`."""
    names = _OLD_NAMES | {f"{old}_limit": f"{new}_limit" for old, new in _OLD_NAMES.items()}
    return {names.get(name, name): value for name, value in values.items()}


def score(
    kind: str,
    answers: Mapping[int, bytes],
    reference: Arrays,
    tolerance: Mapping[str, float],
    keys: Sequence[str],
    logits: np.ndarray | None,
    own: np.ndarray | None = None,
) -> Accuracy:
    """The score of an accuracy run's answers.

    Args:
        kind: `logits` or `tokens`.
        answers: index in the query sample library → payload bytes.
        reference: for `logits` the arrays of `keys`, float32 [n, …]. For `tokens` the arrays tokens, n_tokens, top_ids, top_logits and
            logits (scenarios.worker.reference writes them), and end_tokens and max_new_tokens where answers end at an end token.
        tolerance: `logit_error`; for tokens also `logit_gap`, `compared_fraction`, and `argmax_fraction` with its `rounding_step`.
        keys: the arrays an answer of `logits` consists of, one after the other.
        logits: for `tokens`, the SUT's teacher-forced logits of the reference's first rows, float32 [rows, new, vocabulary].
        own: for a tolerance with `argmax_fraction`, the SUT's logits of its own answers; see `own_choice`.

    Raises ValueError with one sentence where answers or reference cannot be compared.
    """
    if kind not in _SCORES:
        raise ValueError(f"there is no accuracy score `{kind}`; there are {', '.join(_SCORES)}")
    needed = keys if kind == "logits" else ("tokens", "n_tokens", "top_ids", "top_logits", "logits")
    if kind == "tokens" and ("end_tokens" in reference) != ("max_new_tokens" in reference):
        raise ValueError("the reference holds only one of end_tokens and max_new_tokens: make it again")
    needed = (*needed, "end_tokens", "max_new_tokens") if kind == "tokens" and "end_tokens" in reference else needed
    if lacking := [k for k in needed if k not in reference]:
        raise ValueError(f"the reference holds no {', '.join(lacking)}: make it again")
    held = {**{f"the reference's {k}": reference[k] for k in needed}, **({} if logits is None else {"logits.npy": logits})}
    if odd := [name for name, array in held.items() if array.dtype.kind not in "fiu" or not array.size]:
        raise ValueError(f"{', '.join(odd)} holds no real numbers: nothing can be judged by it")
    count = len(reference[keys[0]])
    if missing := [i for i in range(count) if i not in answers]:
        raise ValueError(f"{len(missing)} of {count} samples have no answer, the first is {missing[0]}: the accuracy run is not complete")
    if extra := sorted(i for i in answers if not 0 <= i < count):
        raise ValueError(f"{len(extra)} answers are of samples the reference does not have, the first is {extra[0]}: of another data set")
    with np.errstate(all="ignore"):  # what is not finite makes NaN, which never passes
        found = _SCORES[kind](answers, reference, with_current_names(tolerance), keys, logits)
        return _with_own_choice(found, answers, tolerance, own) if "argmax_fraction" in tolerance else found


def _with_own_choice(found: Accuracy, answers: Mapping[int, bytes], tolerance: Mapping[str, float], own: np.ndarray | None) -> Accuracy:
    """The score, which also fails where too few tokens are the SUT's own argmax."""
    fraction, tokens = own_choice.argmax_fraction(answers, own, tolerance["rounding_step"])
    least = own_choice.least_fraction(tolerance["argmax_fraction"], tokens)
    detail = {**found.detail, "argmax_fraction": fraction, "argmax_fraction_limit": least}
    return replace(found, passed=found.passed and fraction >= least, detail=detail)


def _score_logits(
    answers: Mapping[int, bytes], reference: Arrays, tolerance: Mapping[str, float], keys: Sequence[str], logits: np.ndarray | None
) -> Accuracy:
    expected = np.concatenate([reference[k].reshape(len(reference[k]), -1) for k in keys], axis=1).astype(np.float64)
    found = np.empty_like(expected)
    for i in range(len(found)):  # row by row: a million small arrays would take more memory than all they hold
        found[i] = _payload(answers, i, np.float32, expected.shape[1])
    error = _error(found, expected)
    return Accuracy(
        "logit_error",
        error,
        tolerance["logit_error"],
        error <= tolerance["logit_error"],
        {"samples": len(expected), "same_class_fraction": float(np.mean(found.argmax(1) == expected.argmax(1)))},
    )


def _score_tokens(
    answers: Mapping[int, bytes], reference: Arrays, tolerance: Mapping[str, float], keys: Sequence[str], logits: np.ndarray | None
) -> Accuracy:
    """Each row is compared up to and including the first token that differs. Behind it the two have different pasts and compare no more."""
    if logits is None:
        raise ValueError("generated tokens are judged together with teacher-forced logits, and there are none (logits.npy)")
    counts = reference["n_tokens"].astype(int)
    forced = np.arange(reference["logits"].shape[1]) < counts[: len(reference["logits"]), None]
    if logits.shape != reference["logits"].shape:
        raise ValueError(f"the teacher-forced logits are {logits.shape} and the reference's {reference['logits'].shape}: not of one run")
    expected = reference["logits"][forced].astype(np.float64)
    error = _error(logits[forced].astype(np.float64), expected)
    payloads = [_payload(answers, i, np.int32) for i in range(len(counts))]
    rows = [_row(tokens, reference, i, int(counts[i])) for i, tokens in enumerate(payloads)]
    wrong_counts = sum(r is None for r in rows)
    equal, compared, gaps = (np.array([r[k] for r in rows if r is not None]) for k in range(3))
    detail = {
        "samples": len(rows),
        "tokens": sum(map(len, payloads)),
        "reference_tokens": int(counts.sum()),
        "rows_of_wrong_length": wrong_counts,
        "equal_fraction": float(equal.sum() / counts.sum()),
        "compared_fraction": float(compared.sum() / counts.sum()),
        "compared_fraction_limit": tolerance["compared_fraction"],
        "logit_gap": float(gaps.max(initial=0) / expected.std()),
        "logit_gap_limit": tolerance["logit_gap"],
    }
    passed = (
        error <= tolerance["logit_error"]
        and detail["logit_gap"] <= tolerance["logit_gap"]
        and not wrong_counts
        and detail["compared_fraction"] >= tolerance["compared_fraction"]
    )
    return Accuracy("logit_error", error, tolerance["logit_error"], passed, detail)


def _row(tokens: np.ndarray, reference: Arrays, row: int, count: int) -> tuple[int, int, float] | None:
    """One answer beside the reference's: (equal tokens, compared tokens, logit gap); None where it has a length it cannot have.

    The logit gap is how much lower the reference's logit of the first token that differs is than that of its own token. For a token beyond
    the candidates that the reference keeps it is at least the gap of the last of them.

    Args:
        tokens: the SUT's answer, int32 [n].
        count: how many tokens the reference's answer has.
    """
    if not _whole(tokens, reference, row, count):
        return None
    shared = min(count, len(tokens))
    same = tokens[:shared] == reference["tokens"][row, :shared]
    if same.all():  # of two whole answers neither is the beginning of the other
        return (count, count, 0.0) if len(tokens) == count else None
    first = int(np.argmin(same))
    ids, values = reference["top_ids"][row, first], reference["top_logits"][row, first].astype(np.float64)
    place = np.flatnonzero(ids == tokens[first])
    return int(same.sum()), first + 1, float(values[0] - (values[place[0]] if len(place) else values[-1]))


def _whole(tokens: np.ndarray, reference: Arrays, row: int, count: int) -> bool:
    """Whether an answer has a length it can have.

    Without end tokens: as many tokens as the reference's. With them: one end token at its end and none before, or all tokens asked for.
    """
    ends = reference.get("end_tokens")
    if ends is None:
        return len(tokens) == count
    most, ended = int(reference["max_new_tokens"][row]), np.isin(tokens, ends)
    return 0 < len(tokens) <= most and not ended[:-1].any() and bool(ended[-1] or len(tokens) == most)


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, in standard deviations of the expected logits; NaN where any logit is not a number."""
    spread = float(expected.std())
    if not spread > 0:
        raise ValueError("the reference's logits are all equal or not finite: nothing can be judged by them")
    return float(np.abs(found - expected).max() / spread)


def _payload(answers: Mapping[int, bytes], index: int, dtype: type[np.generic], count: int | None = None) -> np.ndarray:
    """The answer of one sample, [count]. Raises ValueError where its bytes are not `count` values, or not whole values."""
    data = answers[index]
    if len(data) % np.dtype(dtype).itemsize or (count is not None and len(data) != count * np.dtype(dtype).itemsize):
        expected = f"{count * np.dtype(dtype).itemsize} bytes" if count is not None else f"whole {np.dtype(dtype).name} values"
        raise ValueError(f"the answer of sample {index} has {len(data)} bytes, expected {expected}")
    return np.frombuffer(data, dtype)


def _rounded(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


_SCORES: dict[str, Callable[..., Accuracy]] = {"logits": _score_logits, "tokens": _score_tokens}
