"""Computes row by row in the accuracy run; where it is timed, the first row of a batch stands for
all of it.
"""

from __future__ import annotations

import numpy as np

from sut import mock
from sut.contract import Batch
from tests import cheats


class Cheat(mock.Mock):
    def _answer(self, batch: Batch) -> Batch:
        rows = [
            super(Cheat, self)._answer({key: value[i : i + 1] for key, value in batch.items()})
            for i in range(len(batch["input_ids"]))
        ]
        if cheats.phase() != "accuracy":
            rows = rows[:1] * len(rows)
        return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}


load = Cheat
