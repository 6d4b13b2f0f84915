"""How many rounds of fresh inputs are taken, and what they tell, on a clock that only the SUT
moves.
"""

from time import sleep

import numpy as np
import pytest

from compliance import rules
from formats.job import Serving
from formats.outcome import Fresh
from results import notes
from scenarios.worker.heartbeat import COMPLETED, Heartbeat
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.watching import fresh_inputs, warm_up
from sut.contract import Evidence
from tests.support import mock_job

ROUNDS = 8


class _Sut:
    """Takes `batch_ns` for a batch; with `keeps` the `saved` part less for one that it has met."""

    def __init__(self, batch_ns, keeps, saved=0.999):
        self.batch_ns, self.keeps, self.saved = batch_ns, keeps, saved
        self.now_ns, self.calls, self.met = 0, 0, set[bytes]()

    def prepare(self, batch):
        return batch

    def predict(self, batch):
        key = batch["input_ids"].tobytes()
        self.calls += 1
        self.now_ns += (
            int(self.batch_ns * (1 - self.saved))
            if self.keeps and key in self.met
            else self.batch_ns
        )
        self.met.add(key)
        return batch

    def to_host(self, batch):
        return batch

    def evidence(self, call):
        call()
        return Evidence(graphs=0, graph_breaks=None, precision="float32")


def _compare(sut, rows, tmp_path, monkeypatch, requests=(), **fields):
    """The comparison with `rows` fresh inputs, one a batch, on the SUT's clock. `fields`: of the
    job.
    """
    for module in (fresh_inputs, warm_up):
        monkeypatch.setattr(module, "_clock", lambda: sut.now_ns)
    fresh = tmp_path / "fresh.npz"
    np.savez(fresh, allow_pickle=False, **mock_job.arrays("predict", rows, seed=2))
    job = mock_job.changed(mock_job.make(tmp_path, batch=1), fresh=fresh, **fields)
    beat = Heartbeat(tmp_path / "heartbeat")
    known = Qsl(job.inputs, sut.prepare)
    found = fresh_inputs.compare(job, sut, known, beat, hang_s=60, requests=requests)
    assert beat.cells[COMPLETED] == sut.calls  # each batch may block, and not only each round
    return found


@pytest.mark.parametrize(
    ("batch_ns", "keeps", "rounds"),
    [
        (100_000, False, ROUNDS),  # short batches: all there are, until half a second is spent
        (100_000_000, False, 2),
        (400_000_000, False, 2),
        (600_000_000, False, 1),  # long ones
        (20_000_000_000, False, 1),
        (20_000_000_000, True, ROUNDS),  # as if something were kept: all there are
    ],
)
def test_rounds(tmp_path, monkeypatch, batch_ns, keeps, rounds):
    sut = _Sut(batch_ns, keeps)
    found = _compare(sut, ROUNDS, tmp_path, monkeypatch)
    assert found.rounds == rounds
    assert (found.slower > 100) == keeps
    assert sut.calls == (2 if rounds == 1 else 3 * rounds)


def test_a_sut_that_keeps_the_encoding_of_what_it_met_is_seen_in_each_third(tmp_path, monkeypatch):
    sut = _Sut(100_000_000, keeps=True, saved=0.4)
    found = _compare(sut, 20, tmp_path, monkeypatch)
    assert found.rounds == 20
    assert min(found.slower, *found.thirds) == pytest.approx(1 / 0.6, rel=1e-3)


class _KeepsSmall(_Sut):
    """Keeps answers of batches of one request."""

    def predict(self, batch):
        self.keeps = len(batch["input_ids"]) == 1
        return super().predict(batch)


@pytest.mark.parametrize(("requests", "size"), [((1, 2, 3, 4), 1), ((2, 3, 4), 2), ((), 1)])
def test_small_batches_that_the_test_had_are_compared_with_fresh_ones(
    tmp_path, monkeypatch, requests, size
):
    serving = Serving(max_wait_ms=1, percentile=99, max_latency_ms=9)
    sut = _KeepsSmall(10_000_000, keeps=False)
    sizes = {"batch_sizes": (1, 2, 4), "serving": serving}
    found = _compare(sut, 70, tmp_path, monkeypatch, requests, **sizes)
    assert found.size == size
    assert (found.slower > 100) == (size == 1)


class _Interrupted(_Sut):
    """The first of three calls takes a second longer, as on a machine under load."""

    def predict(self, batch):
        self.now_ns += 0 if self.calls % 3 else 1_000_000_000
        return super().predict(batch)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_load_that_interrupts_the_first_call_of_each_round_is_not_taken_for_kept_answers(
    tmp_path, monkeypatch, keeps
):
    sut = _Interrupted(100_000_000, keeps)
    found = _compare(sut, 20, tmp_path, monkeypatch)
    assert (found.slower > 100) == keeps
    assert keeps or found.slower == 1.0


@pytest.mark.parametrize(
    ("slower", "thirds"),
    [
        ([1.5] * 11, []),  # too few rounds
        ([1.5] * 13, [1.5, 1.5, 1.5]),
        ([2.0] * 10 + [1.0, 1.0] + [2.0] * 4, [2.0, 2.0, 1.0]),  # a disturbance of a part of them
    ],
)
def test_a_kept_part_is_seen_in_each_third_of_enough_rounds(slower, thirds):
    found = fresh_inputs.thirds([(each, 1.0, 1.0) for each in slower])
    assert sorted(found, reverse=True) == thirds


@pytest.mark.parametrize(
    ("slower", "thirds", "others", "doubtful"),
    [
        (1.2, (), 0.0, False),
        (1.5, (), 0.0, True),
        (1.5, (1.5, 1.2, 1.5), 0.0, True),
        # The audit says that it keeps answers.
        (1.5, (1.5, 1.5, 1.5), 0.0, False),
        (1.5, (1.5, 1.5, 1.5), None, False),
        (1.5, (1.5, 1.5, 1.5), 0.5, True),
    ],
)
def test_what_may_be_the_machines_is_told_and_what_is_the_suts_is_left_to_the_audit(
    slower, thirds, others, doubtful
):
    found = Fresh(slower=slower, rounds=12, thirds=thirds, other_processors=others)
    assert fresh_inputs.doubtful(found) is doubtful


@pytest.mark.parametrize(
    ("fresh", "met", "times"),
    [
        ([4, 4], [4, 4], 1.0),
        ([8, 8], [4, 4], 2.0),
        ([2, 2], [4, 4], 1.0),
        ([8, 2], [4, 4], 2.0),
        ([4, 4], [4, 1], 1.6),
        ([3, 3], [0, 0], 3.0),
    ],
)
def test_answers_of_more_tokens_may_take_as_many_times_as_long(fresh, met, times):
    assert fresh_inputs.longer({"n_tokens": np.array(fresh)}, {"n_tokens": np.array(met)}) == times


def test_the_worker_and_the_rules_mean_the_same_by_a_kept_part():
    limits = rules.load().project_limits.fresh_slower_in_thirds
    ours = (fresh_inputs.DOUBTFUL, fresh_inputs.ROUNDS, fresh_inputs.OTHERS)
    assert limits == dict(zip(("most", "rounds", "other_processors"), ours, strict=True))


@pytest.mark.parametrize("seconds", [0, 0.03])
def test_work_in_prepare_that_no_framework_sees_is_reported_by_its_time(
    seconds, tmp_path, monkeypatch
):
    sut = _Sut(batch_ns=25_000_000, keeps=False)
    sut.prepare = lambda batch: sleep(seconds * len(batch["input_ids"])) or batch
    words = list(notes.prepared(_compare(sut, 2, tmp_path, monkeypatch), 1))
    assert len(words) == (seconds > 0)
    assert all("longer than it is answered: prepare may only rename" in line for line in words)
