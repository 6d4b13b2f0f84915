"""This module computes how many generated tokens are those that the SUT's own forward pass rates
highest.

In low precision a SUT may honestly choose other tokens than the reference does. But a SUT must
choose the tokens that its own logits rate highest. With sampling or an imprecise cache, a SUT
chooses other tokens.
"""

from __future__ import annotations

import numpy as np

from compliance.scoring.value import AnswerBytes

ROWS = 64
"""The number of answers whose own logits the worker writes. If there are fewer answers, it writes
all.
"""
_SPARE_TOKENS = 2
_TOKEN_BYTES = 4


def argmax_fraction(
    answers: AnswerBytes, own: np.ndarray | None, rounding_step: float
) -> tuple[float, int]:
    """(the share of generated tokens that are the SUT's own argmax, how many tokens were compared).

    Args:
        answers: index in the query sample library → tokens, int32.
        own: float32 [rows, new, 2] for the first answers: the largest logit of each position, and
            the logit of the generated token.
        rounding_step: a token counts as the argmax if its logit is lower by at most this share of
            the largest one's magnitude.

    Raises ValueError with one sentence if `own` does not belong to these answers.
    """
    if own is None:
        raise ValueError(
            "own_logits.npy is missing: generated tokens are also judged by the SUT's own logits"
        )
    rows = min(len(answers), ROWS)
    counts = np.array([len(answers[row]) // _TOKEN_BYTES for row in range(rows)])
    longest = counts.max(initial=0)
    is_table = own.dtype.kind == "f" and own.ndim == 3
    shape = own.shape
    if not is_table or shape[::2] != (rows, 2) or shape[1] < longest:
        raise ValueError(
            f"own_logits.npy is {own.dtype} {shape}: not two logits for each token of the first"
            f" {rows} answers"
        )
    generated = np.arange(shape[1]) < counts[:, None]
    largest, chosen = np.moveaxis(own[generated].astype(np.float64), -1, 0)
    # False if either is not a number.
    highest = chosen >= largest - rounding_step * np.abs(largest)
    return float(highest.mean()) if len(highest) else 0.0, len(highest)


def least_fraction(limit: float, tokens: int) -> float:
    """The smallest share that passes. Among few tokens two may differ, because even one is a large
    share.
    """
    return min(limit, 1 - _SPARE_TOKENS / max(tokens, 1))
