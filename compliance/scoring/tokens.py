"""The score `tokens`. It compares generated tokens up to the first that differs, and teacher-forced
logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compliance.scoring.payload import values
from compliance.scoring.value import (
    Accuracy,
    AnswerBytes,
    Arrays,
    Numbers,
    root_mean_square,
    spread,
)

TOKEN_BYTES = 4
"""The size of a token, an int32, in a payload."""
LEADING = 64
"""`compared_fraction` uses only the first so many tokens of an answer. The place where two honest
SUTs first differ does not depend on the number of tokens that follow.
"""


def score(
    answers: AnswerBytes,
    reference: Arrays,
    tolerance: Numbers,
    keys: Sequence[str],
    logits: np.ndarray | None,
) -> Accuracy:
    """Compute the score, whose value is `logit_error`: the largest difference of teacher-forced
    logits, in standard deviations of the reference's.

    Each row is compared up to and including the first token that differs. After it the two have
    different pasts and cannot be compared. `compared_fraction` is the share of the reference's
    first 64 tokens of each row that were compared. A tolerance with `logit_rms` also limits the
    root mean square of the differences of teacher-forced logits.
    """
    if logits is None:
        raise ValueError(
            "logits.npy is missing: generated tokens are judged together with teacher-forced logits"
        )
    counts = reference["n_tokens"].astype(int)
    forced = np.arange(reference["logits"].shape[1]) < counts[: len(reference["logits"]), None]
    if logits.shape != reference["logits"].shape:
        raise ValueError(
            f"the teacher-forced logits are {logits.shape} and the reference's"
            f" {reference['logits'].shape}: not of one run"
        )
    expected = reference["logits"][forced].astype(np.float64)
    deviation = spread(expected, "logits")
    errors = np.abs(logits[forced].astype(np.float64) - expected) / deviation
    error = float(errors.max())
    rms, rms_passes = root_mean_square(errors, tolerance)
    payloads = [values(answers, i, np.int32) for i in range(len(counts))]
    rows = [_row(tokens, reference, i, int(counts[i])) for i, tokens in enumerate(payloads)]
    detail, gap, agree = agreement(rows, payloads, counts, deviation, tolerance)
    detail |= {"logit_gap": gap, "logit_gap_limit": tolerance["logit_gap"], **rms}
    passed = agree and error <= tolerance["logit_error"] and rms_passes
    return Accuracy("logit_error", error, tolerance["logit_error"], passed, detail)


def agreement(
    rows: Sequence[tuple[int, int, float] | None],
    payloads: Sequence[np.ndarray],
    counts: np.ndarray,
    deviation: float,
    tolerance: Numbers,
) -> tuple[dict[str, float], float, bool]:
    """(the numbers of a score, the largest logit gap in standard deviations, whether both are
    within the tolerance) of all answers.

    Args:
        rows: (equal tokens, compared tokens, logit gap) of each answer; None: its length is
            impossible.
        payloads: the tokens of each answer.
        counts: how many tokens each of the reference's answers has.
        deviation: the standard deviation of the reference's logits.
    """
    possible = [row for row in rows if row is not None]
    equal, compared, gaps = (np.array([row[k] for row in possible]) for k in range(3))
    gap = float(gaps.max(initial=0) / deviation)
    wrong = len(rows) - len(possible)
    leading = np.minimum(counts, LEADING).sum()
    fraction = float(np.minimum(compared, LEADING).sum() / leading)
    least = tolerance["compared_fraction"]
    detail = {
        "samples": len(rows),
        "tokens": sum(map(len, payloads)),
        "reference_tokens": int(counts.sum()),
        "rows_of_wrong_length": wrong,
        "equal_fraction": float(equal.sum() / counts.sum()),
        "compared_fraction": fraction,
        "compared_fraction_limit": least,
    }
    return detail, gap, gap <= tolerance["logit_gap"] and not wrong and fraction >= least


def _row(
    tokens: np.ndarray, reference: Arrays, row: int, count: int
) -> tuple[int, int, float] | None:
    """Compare one answer with the reference's. Returns (equal tokens, compared tokens, logit gap),
    or None if its length is impossible.

    The logit gap is how much lower the reference's logit of the first token that differs is than
    that of its own token. If that token is not among the reference's candidates, the gap is that of
    the last candidate, a lower bound.

    Args:
        tokens: the SUT's answer, int32 [n].
        count: how many tokens the reference's answer has.
    """
    if not _whole(tokens, reference, row, count):
        return None
    shared = min(count, len(tokens))
    same = tokens[:shared] == reference["tokens"][row, :shared]
    if same.all():  # a whole answer is never the beginning of another one
        return (count, count, 0.0) if len(tokens) == count else None
    first = int(np.argmin(same))
    ids = reference["top_ids"][row, first]
    logits = reference["top_logits"][row, first].astype(np.float64)
    place = np.flatnonzero(ids == tokens[first])
    other = logits[place[0]] if len(place) else logits[-1]
    return int(same.sum()), first + 1, float(logits[0] - other)


def _whole(tokens: np.ndarray, reference: Arrays, row: int, count: int) -> bool:
    """Whether the length of an answer is possible.

    Without end tokens, an answer has as many tokens as the reference's. With end tokens, it has one
    at its end and none before, or all requested tokens.
    """
    ends = reference.get("end_tokens")
    if ends is None:
        return len(tokens) == count
    most = int(reference["max_new_tokens"][row])
    ended = np.isin(tokens, ends)
    if not 0 < len(tokens) <= most or ended[:-1].any():
        return False
    return bool(ended[-1]) or len(tokens) == most
