"""How many rounds of fresh inputs are taken, and what they tell, on a clock that only the SUT moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scenarios.worker import fresh_inputs
from scenarios.worker.qsl import Qsl
from sut.contract import Batch
from tests.support import mock_job

ROUNDS = 8


class _Sut:
    """Takes `batch_ns` for a batch; with `keeps` a thousandth of it for one that it has met."""

    def __init__(self, batch_ns: int, keeps: bool):
        self.batch_ns, self.keeps = batch_ns, keeps
        self.now_ns, self.met = 0, set[bytes]()

    def prepare(self, batch: Batch) -> Batch:
        return batch

    def predict(self, batch: Batch) -> Batch:
        key = batch["input_ids"].tobytes()
        self.now_ns += self.batch_ns // 1000 if self.keeps and key in self.met else self.batch_ns
        self.met.add(key)
        return batch

    def to_host(self, batch: Batch) -> Batch:
        return batch


@pytest.mark.parametrize(
    ("batch_ns", "keeps", "rounds"),
    [
        (100_000, False, ROUNDS),  # short batches: all there are, until half a second is spent
        (100_000_000, False, 4),
        (2_000_000_000, False, 2),  # long ones: until ten seconds are spent
        (20_000_000_000, False, 1),
        (20_000_000_000, True, ROUNDS),  # as if something were kept: all there are
    ],
)
def test_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_ns: int, keeps: bool, rounds: int) -> None:
    sut = _Sut(batch_ns, keeps)
    monkeypatch.setattr(fresh_inputs, "_clock", lambda: sut.now_ns)
    np.savez(tmp_path / "fresh.npz", allow_pickle=False, **mock_job.arrays("predict", ROUNDS, seed=2))
    job = replace(mock_job.make(tmp_path, batch=1), fresh=tmp_path / "fresh.npz")
    found = fresh_inputs.compare(job, sut, Qsl(job.inputs, sut.prepare), SimpleNamespace(enter=lambda *_: None, bump=lambda _: None))
    assert found["rounds"] == rounds
    assert (found["slower"] > 100) == keeps
