"""Ends every answer with two end tokens, which count as tokens and cost nothing."""

from __future__ import annotations

import numpy as np

from sut import mock
from sut.contract import Batch

END = 2


class Cheat(mock.Mock):
    def _answer(self, batch: Batch) -> Batch:
        answers = super()._answer(batch)
        tokens = np.array(answers["tokens"])
        tokens[:, -2:] = END
        return {**answers, "tokens": tokens}


load = Cheat
