"""When evidence is taken, and of how many batches at a time, with a SUT that no framework runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from scenarios.worker import evidence
from sut.contract import Evidence
from sut.evidence import compilations

BATCH = {"input_ids": np.zeros((1, 2), np.int32)}


class _Sut:
    def __init__(self, in_flight: int = 1):
        self.in_flight = in_flight
        self.pending, self.most_pending, self.watched = 0, 0, 0

    def predict(self, batch: Any) -> Any:
        self.pending += 1
        self.most_pending = max(self.most_pending, self.pending)
        return batch

    def to_host(self, batch: Any) -> Any:
        self.pending -= 1
        return batch

    def synchronise(self) -> None:
        assert self.pending == 0

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        self.watched += 1
        call()
        return Evidence(graphs=1, graph_breaks=None, precision="float32")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A framework that has compiled as many programs as the list's one number says."""
    number = [7]
    monkeypatch.setattr(compilations, "_counters", [lambda: number[0]])
    yield number


@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_as_many_watched_batches_are_pending_as_the_sut_keeps_in_flight(in_flight: int) -> None:
    sut = _Sut(in_flight)
    evidence.watch(sut, [BATCH] * 5)
    assert sut.most_pending == in_flight


def test_no_profiler_runs_before_a_test_if_the_framework_counts_its_programs_without_it(
    counted: list[int],
) -> None:
    sut = _Sut()
    begun = evidence.begin(sut, [BATCH])
    assert sut.watched == 0
    counted[0] += 3  # the test compiles
    before, after = evidence.end(sut, [BATCH], begun)
    assert sut.watched == 2
    assert after.detail["compilations"] - before.detail["compilations"] == 3
    assert [each.detail["batches"] for each in (before, after)] == [1, 2]


def test_what_evidence_itself_compiles_first_is_not_counted_as_compiled_while_measuring(
    counted: list[int],
) -> None:
    sut = _Sut()
    own = sut.evidence

    def compiles(call: Callable[[], Any]) -> Evidence:
        counted[0] += sut.watched == 0
        return own(call)

    sut.evidence = compiles  # type: ignore[method-assign]
    before, after = evidence.end(sut, [BATCH], evidence.begin(sut, [BATCH]))
    assert after.detail["compilations"] == before.detail["compilations"]


def test_evidence_is_taken_before_a_test_if_only_the_profiler_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compilations, "_counters", [])
    sut = _Sut()
    begun = evidence.begin(sut, [BATCH])
    assert sut.watched == 1
    assert evidence.end(sut, [BATCH], begun)[0] is begun
