"""The queue of requests and its thread."""

import threading
import time

import pytest

from scenarios.worker.queries.batching import (
    Batcher,
    Overload,
    Policy,
    Record,
    answer_while,
    summary,
)


class Gate:
    """A SUT that answers a batch when it is let go."""

    def __init__(self):
        self.batches = []
        self.open = threading.Semaphore(0)

    def answer(self, requests):
        self.open.acquire()
        self.batches.append(requests)


def started(answer, policy):
    """A batcher that a thread of its own works for."""
    batcher = Batcher(answer, policy)
    threading.Thread(target=batcher.work, daemon=True).start()
    return batcher


def queued(policy, count):
    """A batcher that works on request 0, while `count` requests more wait."""
    gate = Gate()
    batcher = started(gate.answer, policy)
    batcher.put(0)
    while batcher._queue:
        time.sleep(0.001)
    for number in range(1, count + 1):
        batcher.put(number)
    return gate, batcher


def test_requests_that_wait_become_batches_in_their_order():
    gate, batcher = queued(Policy(sizes=(1, 2, 4)), 6)
    gate.open.release(9)
    batcher.drain()
    batcher.close()
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6]]
    assert list(batcher.record.waiting) == [0, 2, 0]
    assert list(batcher.record.taken) == [1, 4, 2]


def test_a_batch_waits_for_others_and_no_longer_than_the_policy_says():
    gate = Gate()
    gate.open.release(9)
    batcher = started(gate.answer, Policy(sizes=(1, 2), wait_ns=10_000_000_000))
    batcher.put(1)
    time.sleep(0.05)
    assert gate.batches == []
    batcher.put(2)
    batcher.drain()
    assert gate.batches == [[1, 2]]
    batcher.close()
    brief = started(gate.answer, Policy(sizes=(1, 2), wait_ns=1_000_000))
    brief.put(3)
    brief.drain()
    assert gate.batches[-1] == [3]
    brief.close()


def test_an_overload_refuses_further_requests():
    gate, batcher = queued(Policy(sizes=(1,), most_waiting=3), 3)
    with pytest.raises(Overload, match="3 requests wait, and no more may"):
        batcher.put(9)
    gate.open.release(9)
    batcher.close()
    gate, batcher = queued(Policy(sizes=(1,), longest_wait_ns=1), 1)
    with pytest.raises(Overload, match=r"1 requests wait, the oldest for 0\.0 s"):
        batcher.put(9)
    gate.open.release(9)
    batcher.close()


def test_an_error_of_the_sut_reaches_whoever_issues_requests():
    def fail(requests):
        raise RuntimeError("told to fail")

    batcher = started(fail, Policy(sizes=(1,)))
    batcher.put(0)
    with pytest.raises(RuntimeError, match="told to fail"):
        batcher.drain()
    with pytest.raises(RuntimeError, match="told to fail"):
        batcher.put(1)


def test_the_summary_has_means_and_the_most():
    record = Record()
    for waiting, taken in ((1, 1), (5, 4), (3, 2), (1, 1)):
        record.waiting.append(waiting)
        record.taken.append(taken)
    found = summary(record)
    assert (found.mean_waiting, found.most_waiting, found.mean_batch) == (2.5, 5, 2.0)
    assert summary(Record()) is None


def test_the_sut_works_in_the_calling_thread_while_another_one_issues_requests():
    threads = []

    def answer(requests):
        threads.append(threading.get_ident())

    batcher = Batcher(answer, Policy(sizes=(1,)))

    def issue():
        batcher.put(1)
        batcher.drain()
        return threading.get_ident()

    assert answer_while(batcher, issue) != threading.get_ident()
    assert threads == [threading.get_ident()]
    assert answer_while(None, threading.get_ident) == threading.get_ident()


@pytest.mark.parametrize("fails", ["sut", "issuer"])
def test_an_error_of_either_thread_is_raised(fails):
    def answer(requests):
        if fails == "sut":
            raise RuntimeError("told to fail")

    batcher = Batcher(answer, Policy(sizes=(1,)))

    def issue():
        batcher.put(1)
        batcher.drain()
        raise RuntimeError("told to fail")

    with pytest.raises(RuntimeError, match="told to fail"):
        answer_while(batcher, issue)
