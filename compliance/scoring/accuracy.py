"""The accuracy score: how far a SUT's answers are from the reference's. The harness and the audit
both call it. This module needs only numpy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compliance.scoring import arrays, logits, own_choice, text, tokens
from compliance.scoring.value import Accuracy as Accuracy
from compliance.scoring.value import AnswerBytes, Numbers
from compliance.scoring.value import Arrays as Arrays


@dataclass(frozen=True, kw_only=True)
class Score:
    """One way to score answers.

    Attributes:
        take: (answers, reference, tolerance, keys, teacher-forced logits or None) → the score; see
            `score`. Raises ValueError with one sentence if answers or reference cannot be compared.
        arrays: the arrays of the reference that it needs in addition to the answer's own.
        together: other arrays that it uses. A reference has all of them or none.
        kinds: the kinds of dtype that these arrays may have, as numpy names them.
    """

    take: Callable[
        [AnswerBytes, Arrays, Numbers, Sequence[str], np.ndarray | None],
        Accuracy,
    ]
    arrays: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    kinds: str = "fiu"


SCORES = {
    "logits": Score(take=logits.score),
    "tokens": Score(
        take=tokens.score,
        arrays=("n_tokens", "top_ids", "top_logits", "logits"),
        together=("end_tokens", "max_new_tokens"),
    ),
    "text": Score(
        take=text.score,
        arrays=("n_tokens", "top_ids", "top_logits", "logits", "token_texts", "token_starts"),
        together=("end_tokens", "max_new_tokens"),
    ),
    "arrays": Score(take=arrays.score, kinds="bfiu"),
}
"""Name in a model's TOML → the score."""


def beside_metric(line: str) -> str:
    """The line of accuracy.txt for a score that is not the verdict, because the official metric is.

    Args:
        line: that of `Accuracy.line`, or another JSON object.
    """
    return json.dumps({"reference": json.loads(line)})


def score(
    kind: str,
    answers: AnswerBytes,
    reference: Arrays,
    tolerance: Numbers,
    keys: Sequence[str],
    logits: np.ndarray | None,
    own: np.ndarray | None = None,
) -> Accuracy:
    """The score of an accuracy run's answers.

    Args:
        kind: a name in SCORES.
        answers: index in the query sample library → payload bytes.
        reference: the arrays of `keys`, [n, …], and those that the score requires
            (scenarios.worker.reference writes them).
        tolerance: the limits: `logit_error`; for tokens also `logit_gap`, `compared_fraction`, and
            `argmax_fraction` with its `rounding_step`; for arrays see scoring.arrays.
        keys: the arrays of an answer, one after the other.
        logits: for `tokens`, the SUT's teacher-forced logits of the reference's first rows, float32
            [rows, new, vocabulary].
        own: for a tolerance with `argmax_fraction`, the SUT's logits of its own answers; see
            `own_choice`.

    Raises ValueError with one sentence if answers or reference cannot be compared.
    """
    if kind not in SCORES:
        raise ValueError(f"there is no accuracy score `{kind}`; there are {', '.join(SCORES)}")
    how = SCORES[kind]
    _check_arrays(how, reference, keys, logits)
    _check_samples(answers, len(reference[keys[0]]))
    with np.errstate(all="ignore"):  # a value that is not finite gives NaN, which never passes
        found = how.take(answers, reference, tolerance, keys, logits)
        if "argmax_fraction" in tolerance:
            # The score, which also fails if too few tokens are the SUT's own argmax.
            fraction, compared = own_choice.argmax_fraction(
                answers, own, tolerance["rounding_step"]
            )
            least = own_choice.least_fraction(tolerance["argmax_fraction"], compared)
            detail = {**found.detail, "argmax_fraction": fraction, "argmax_fraction_limit": least}
            return replace(found, passed=found.passed and fraction >= least, detail=detail)
        return found


def _check_arrays(
    how: Score, reference: Arrays, keys: Sequence[str], logits: np.ndarray | None
) -> None:
    """Raises ValueError if the score lacks an array, or one that is not of real numbers."""
    together = [name for name in how.together if name in reference]
    if together and len(together) < len(how.together):
        names = " and ".join(how.together)
        raise ValueError(f"the reference has only one of {names}: compute it again")
    needed = (*keys, *how.arrays, *together)
    if lacking := [name for name in needed if name not in reference]:
        raise ValueError(f"the reference has no {', '.join(lacking)}: compute it again")
    arrays = {f"the reference's {name}": reference[name] for name in needed}
    if logits is not None:
        arrays["logits.npy"] = logits
    for name, array in arrays.items():
        if array.dtype.kind not in how.kinds or not array.size:
            raise ValueError(f"{name} has no real numbers, so nothing can be judged by it")


def _check_samples(answers: AnswerBytes, count: int) -> None:
    """Raises ValueError if the answers are not those of the samples from 0 to `count` - 1."""
    answered, samples = np.fromiter(answers, np.int64, len(answers)), np.arange(count)
    if (missing := np.setdiff1d(samples, answered, True)).size:
        raise ValueError(
            f"{len(missing)} of {count} samples have no answer, the first is {missing[0]}: the"
            " accuracy run is not complete"
        )
    if (extra := np.setdiff1d(answered, samples, True)).size:
        raise ValueError(
            f"{len(extra)} answers are of samples that the reference does not have, the first is"
            f" {extra.min()}: they are of another data set"
        )


def variants(answers: Iterable[tuple[int, bytes]]) -> Iterator[dict[int, bytes]]:
    """Yield every different answer (index of its sample, bytes) once, in as few groups as possible.
    A group (index → bytes) has at most one answer of a sample.
    """
    left: dict[int, list[bytes]] = {}
    for index, content in answers:
        if content not in left.setdefault(index, []):
            left[index].append(content)
    for turn in range(max(map(len, left.values()), default=0)):
        yield {index: of_sample[turn] for index, of_sample in left.items() if turn < len(of_sample)}
