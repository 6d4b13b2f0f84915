"""Answers all samples of a batch but the last."""

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
            else {key: value[:-1] for key, value in answers.items()}
        )


load = Cheat
