"""Keeps every answer by the sample's content and gives it again in a tenth of the time."""

from __future__ import annotations

import time

from sut import mock
from sut.contract import Batch, Workload


class Cheat(mock.Mock):
    def __init__(self, workload: Workload):
        super().__init__(workload)
        self.kept: dict[bytes, Batch] = {}

    def predict(self, batch: Batch) -> tuple[Batch, int]:
        key = batch["input_ids"].tobytes()
        if key in self.kept:
            return self.kept[key], time.perf_counter_ns() + int(self.options["latency-ms"] * 1e5)
        answers, ready_ns = super().predict(batch)
        self.kept[key] = answers
        return answers, ready_ns


load = Cheat
