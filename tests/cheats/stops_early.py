"""Generates half of the tokens asked for wherever it is timed."""

from __future__ import annotations

from sut import mock
from sut.contract import Batch
from tests import cheats


class Cheat(mock.Mock):
    def _answer(self, batch: Batch) -> Batch:
        answers = super()._answer(batch)
        return (
            answers
            if cheats.phase() == "accuracy"
            else {**answers, "n_tokens": answers["n_tokens"] // 2}
        )


load = Cheat
