"""When evidence is taken, and of how many batches at a time, with a SUT that no framework runs."""

from dataclasses import replace

import numpy as np
import pytest

from formats.job import Serving
from scenarios.worker.watching import evidence
from sut import mock
from sut.contract import Evidence
from sut.evidence import compilations
from tests.support import mock_job

BATCH = {"input_ids": np.zeros((1, 2), np.int32)}


class _Sut:
    def __init__(self, in_flight=1):
        self.in_flight = in_flight
        self.pending, self.most_pending, self.watched, self.tested_at = 0, 0, 0, 0

    def predict(self, batch):
        self.pending += 1
        self.most_pending = max(self.most_pending, self.pending)
        return batch

    def to_host(self, batch):
        self.pending -= 1
        return batch

    def synchronise(self):
        assert self.pending == 0

    def evidence(self, call):
        self.watched += 1
        call()
        return Evidence(graphs=1, graph_breaks=None, precision="float32")


@pytest.fixture
def counted(monkeypatch):
    """A framework that has compiled as many programs as the list's one number says."""
    number = [7]
    monkeypatch.setattr(compilations, "_counters", [lambda: number[0]])
    yield number


@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_as_many_watched_batches_are_pending_as_the_sut_keeps_in_flight(in_flight):
    sut = _Sut(in_flight)
    evidence.watch(sut, [BATCH] * 5)
    assert sut.most_pending == in_flight


@pytest.fixture
def uncounted(monkeypatch):
    """A framework whose programs only its profiler counts."""
    monkeypatch.setattr(compilations, "_counters", [])


def taken(sut, shapes=1, while_testing=lambda: None, long_batches=False):
    """The evidence from before and after one test of a SUT."""
    watched = [evidence.Watched(BATCH, 1)] * shapes
    taker = evidence.Taker(sut, lambda requests: watched, long_batches=long_batches)
    taker.begin()
    while_testing()
    return taker.end()


def batches(*found):
    return [each.detail["batches"] for each in found]


def test_no_profiler_runs_before_a_test_if_the_framework_counts_its_programs_without_it(counted):
    sut = _Sut()

    def compiles():
        assert sut.watched == 0
        counted[0] += 3

    before, after = taken(sut, while_testing=compiles)
    assert sut.watched == 2
    assert after.detail["compilations"] - before.detail["compilations"] == 3
    assert batches(before, after) == [1, 2]


def test_what_evidence_itself_compiles_first_is_not_counted_as_compiled_while_measuring(counted):
    sut = _Sut()
    own = sut.evidence

    def compiles(call):
        counted[0] += sut.watched == 0
        return own(call)

    sut.evidence = compiles
    before, after = taken(sut)
    assert after.detail["compilations"] == before.detail["compilations"]


def test_evidence_is_taken_before_a_test_if_only_the_profiler_counts(uncounted):
    sut = _Sut()
    before, after = taken(sut, while_testing=lambda: setattr(sut, "tested_at", sut.watched))
    assert (sut.tested_at, sut.watched) == (1, 2)
    assert batches(before, after) == [1, 2]


def test_the_evidence_after_a_test_is_that_before_the_next_one_and_no_two_are_of_as_many_batches(
    uncounted,
):
    sut = _Sut(in_flight=2)
    _, first = taken(sut, shapes=2)
    before, second = taken(sut, shapes=2)
    assert before is first
    assert batches(first, second, taken(sut, shapes=2)[1]) == [4, 1, 4]
    assert sut.watched == 4


def test_a_program_that_is_compiled_between_two_tests_is_noticed(counted):
    sut = _Sut()
    taken(sut)
    counted[0] += 1
    before, after = taken(sut)
    assert after.detail["compilations"] - before.detail["compilations"] == 1


def test_after_logits_a_test_has_evidence_of_its_own(counted):
    sut = _Sut()
    _, earlier = taken(sut)
    evidence.forget()
    counted[0] += 1
    before, after = taken(sut)
    assert before is not earlier
    assert after.detail["compilations"] == before.detail["compilations"]


def test_another_sut_of_the_process_does_not_share_evidence(uncounted):
    taken(_Sut())
    sut = _Sut()
    taken(sut)
    assert sut.watched == 2


def test_a_long_batch_is_watched_once_until_a_program_is_compiled(counted):
    sut = _Sut()
    taken(sut, while_testing=lambda: counted.append(counted.pop() + 2), long_batches=True)
    before, after = taken(sut, long_batches=True)
    assert (sut.watched, before) == (1, after)
    counted[0] += 1
    before, after = taken(sut, long_batches=True)
    assert after.detail["compilations"] - before.detail["compilations"] == 1
    assert batches(before, after) == [1, 2]


def test_long_batches_are_watched_before_and_after_if_only_the_profiler_counts(uncounted):
    sut = _Sut()
    assert batches(*taken(sut, long_batches=True)) == [1, 2]


@pytest.mark.parametrize(("execution", "tokens"), [("eager", 4), ("compile", 9)])
def test_an_eager_sut_is_watched_on_short_answers(tmp_path, execution, tokens):
    job = replace(mock_job.make(tmp_path, task="generate"), execution=execution)
    synthetic = dict(np.load(job.synthetic))
    synthetic["max_new_tokens"][:] = 9
    np.savez(job.synthetic, allow_pickle=False, **synthetic)
    (watched,) = evidence.batches(job, mock.load(job.workload))
    assert watched.batch["max_new_tokens"].tolist() == [tokens] * 4


SIZES = (1, 2, 4, 8, 16)


@pytest.mark.parametrize(
    ("requests", "sizes"),
    [((), [1, 4, 16]), ((1, 3, 5, 6), [1, 4, 8]), ((2, 9), [2, 16]), ((1, 1), [1])],
)
def test_the_smallest_the_median_and_the_largest_size_of_the_test_are_watched(
    tmp_path, requests, sizes
):
    serving = Serving(max_wait_ms=1, percentile=99, max_latency_ms=9)
    job = mock_job.changed(mock_job.make(tmp_path, batch=16), serving, batch_sizes=SIZES)
    watched = evidence.batches(job, mock.load(job.workload), requests)
    assert [len(each.batch["input_ids"]) for each in watched] == sizes
    assert [each.samples for each in watched] == sizes


def test_only_the_work_of_the_longest_batch_is_known_by_its_tokens(tmp_path):
    job = replace(mock_job.make(tmp_path, batch=4), warmup_rows=3)
    inputs = dict(np.load(job.inputs))
    inputs["attention_mask"][:, 2:] = 0  # 2 of 6 tokens
    np.savez(job.inputs, allow_pickle=False, **inputs)
    watched = evidence.batches(job, mock.load(job.workload))
    assert [each.samples for each in watched] == [0, 3 * 4]
