"""Requests to an engine: how they are reported, and how an error ends the test."""

import threading

import numpy as np
import pytest

from scenarios.worker.queries import engine
from scenarios.worker.queries.batching import Overload

MOST = 8
SAMPLE = {"input_ids": np.array([[3, 4]], np.int32)}


def answer(*tokens):
    return {
        "tokens": np.array([tokens], np.int32),
        "n_tokens": np.array([len(tokens)], np.int32),
    }


class Held:
    """An engine that answers when `release` is called."""

    silence_s = 1.0

    def __init__(self):
        self.waiting = []

    def submit(self, sample, on_first, on_end):
        self.waiting.append((sample, on_first, on_end))

    def release(self, result, place=0):
        _, on_first, on_end = self.waiting.pop(place)
        if on_first:
            on_first(result["tokens"][:, :1])
        on_end(result)


class AtOnce(Held):
    """An engine whose answer is the sample's first id, as often as its place in the batch says."""

    def submit(self, sample, on_first, on_end):
        first = int(sample["input_ids"][0, 0])
        on_end(answer(*[first] * first))


def test_each_request_is_reported_once_in_the_order_of_the_answers():
    held, reports = Held(), []
    report = lambda key, found: reports.append((key, len(found["tokens"])))  # noqa: E731
    flight = engine.Flight(held, None, report, MOST)
    for key in "ab":
        flight.submit(key, SAMPLE)
    assert not reports
    held.release(answer(1), place=1)
    held.release(answer(1))
    flight.drain()
    assert reports == [("b", 1), ("a", 1)]
    assert list(flight.record.waiting) == [0, 1]


def test_first_tokens_come_before_their_answers_and_only_if_they_are_requested():
    held, reports = Held(), []
    flight = engine.Flight(
        held,
        lambda key, token: reports.append((key, token.tolist())),
        lambda key, found: reports.append((key, found["n_tokens"].tolist())),
        MOST,
    )
    flight.submit("a", SAMPLE)
    held.release(answer(5, 6))
    assert reports == [("a", [[5]]), ("a", [2])]
    engine.Flight(held, None, print, MOST).submit("b", SAMPLE)
    assert held.waiting[0][1] is None


def test_an_error_ends_the_wait_and_refuses_further_requests_and_reports():
    held, reports = Held(), []
    flight = engine.Flight(held, None, lambda key, found: reports.append(key), MOST)
    for key in "abc":
        flight.submit(key, SAMPLE)
    thread = threading.Timer(0.05, held.release, [ValueError("HTTP 500")])
    thread.start()
    with pytest.raises(ValueError, match="HTTP 500"):
        flight.drain()
    with pytest.raises(ValueError, match="HTTP 500"):
        flight.submit("d", SAMPLE)
    held.release(answer(1))
    assert reports == []


def test_an_error_of_a_report_ends_the_test():
    held = Held()

    def report(key, found):
        raise RuntimeError("LoadGen refuses it")

    flight = engine.Flight(held, None, report, MOST)
    flight.submit("a", SAMPLE)
    held.release(answer(1))
    with pytest.raises(RuntimeError, match="LoadGen refuses it"):
        flight.drain()


def test_more_requests_than_this_process_has_files_for_are_an_overload():
    flight = engine.Flight(Held(), None, print, most=1)
    flight.submit("a", SAMPLE)
    with pytest.raises(Overload, match=r"1 requests wait for the engine, .*raise that limit"):
        flight.submit("b", SAMPLE)


def test_offline_keeps_as_many_requests_in_flight_as_saturate_the_engine():
    held = Held()
    flight = engine.Flight(held, None, print, most=2)
    library = type("Library", (), {"one": lambda self, index: SAMPLE})()
    thread = threading.Thread(target=engine.answer_all, args=(flight, library, range(3), range(3)))
    thread.start()
    sent = []
    for _ in range(3):
        while not held.waiting:
            thread.join(0.001)
        thread.join(0.02)
        sent.append(len(held.waiting))
        held.release(answer(1))
    thread.join(5)
    assert (sent, list(flight.record.waiting)) == ([2, 2, 1], [0, 1, 1])


def test_work_ends_when_the_engine_has_ended_every_request():
    held = Held()
    flight = engine.Flight(held, None, print, MOST)
    flight.submit("a", SAMPLE)
    flight.close()
    thread = threading.Thread(target=flight.work)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    held.release(answer(1))
    thread.join(5)
    assert not thread.is_alive()


def test_work_does_not_wait_for_a_request_that_could_not_be_sent():
    class Refuses(Held):
        def submit(self, sample, on_first, on_end):
            raise OverflowError("a token of the prompt is unknown")

    flight = engine.Flight(Refuses(), None, print, MOST)
    with pytest.raises(OverflowError):
        flight.submit("a", SAMPLE)
    flight.close()
    thread = threading.Thread(target=flight.work, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()


def test_an_engine_answers_whole_batches_padded_to_the_longest_answer():
    sut = engine.EngineSut(AtOnce(), streams=True)
    batch = {"input_ids": np.array([[1, 9], [3, 9]], np.int32)}
    found = sut.to_host(sut.predict(batch))
    assert found["tokens"].tolist() == [[1, 0, 0], [3, 3, 3]]
    assert found["n_tokens"].tolist() == [1, 3]
    assert (sut.silence_s, sut.in_flight) == (1.0, 1)
