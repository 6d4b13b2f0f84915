"""Hands samples to an engine, which forms its own batches, and reports its answers.

Each sample is submitted as soon as the scenario issues it. Offline, SingleStream and MultiStream
wait for the answers in the issuing thread. Server waits in `flush`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.frameworks import ENGINE
from formats.job import Job
from scenarios.worker.queries.answers import Ids, Indices, pack
from scenarios.worker.queries.batching import Overload, Queue
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Answer, Responder, TokenTimes
from sut.contract import Batch, Engine

Key = tuple[int, int, int]
"""(id, index of the sample, nanoseconds when it was issued)."""


class Flight(Queue):
    """The requests that an engine is answering.

    Attributes:
        record: one entry for each request: when it was submitted, and how many others were open
            then.
        longest_ns: the longest time from a submission to its answer.
    """

    def __init__(
        self,
        engine: Engine,
        on_first: Callable[[Any, np.ndarray], None] | None,
        on_end: Callable[[Any, Batch], None],
        most: int,
    ):
        """Both functions get the key of a request first, and run in the engine's thread.

        Args:
            on_first: gets the first token, int32 [1, 1]; None: whole answers are requested.
            on_end: gets the answer, as `to_host` returns it.
            most: the most requests in flight.
        """
        super().__init__()
        self.longest_ns = 0
        self._engine = engine
        self._on_first = on_first
        self._on_end = on_end
        self._most = most
        self._begun: dict[int, int] = {}
        self._count = 0

    def wait_for_room(self) -> None:
        """Wait until one more request may be in flight. Raises the error of a request."""
        with self._changed:
            while self._error is None and len(self._begun) >= self._most:
                self._changed.wait()
            self._raise()

    def submit(self, key: Any, sample: Batch) -> None:
        """Submit one sample, with axis 0 of length 1, and return at once. Raises Overload, or the
        error of an earlier request.
        """
        now = _clock()
        with self._changed:
            self._raise()
            if len(self._begun) >= self._most:
                raise Overload(
                    f"{len(self._begun):,} requests wait for the engine, and this process can keep"
                    " no more in flight (`ulimit -n` limits them): raise that limit, or send"
                    " requests at a lower --rate"
                )
            number = self._count
            self._count += 1
            self._begun[number] = now
            self.record.begun_ns.append(now)
            self.record.waiting.append(len(self._begun) - 1)
            self.record.taken.append(1)
        on_first = None
        if self._on_first:
            on_first = self._guarded(self._on_first, key)
        report = self._guarded(self._on_end, key)

        def on_end(answer: Batch | Exception) -> None:
            if isinstance(answer, Exception):
                self._fail(answer)
            else:
                report(answer)
            with self._changed:
                self.longest_ns = max(self.longest_ns, _clock() - self._begun.pop(number))
                self._changed.notify_all()

        try:
            self._engine.submit(sample, on_first, on_end)
        except BaseException:
            with self._changed:  # else `work` would wait for it
                self._begun.pop(number, None)
                self._changed.notify_all()
            raise

    @property
    def _is_open(self) -> bool:
        return bool(self._begun)

    def work(self) -> None:
        """Wait until `close` is called and the engine has ended every request. The engine's thread
        answers.
        """
        with self._changed:
            while self._begun or not self._closed:
                self._changed.wait()

    def close(self) -> None:
        """Report no further answer."""
        self._fail(RuntimeError("the test is over"))
        super().close()

    def _guarded(self, function: Callable[..., None], key: Any) -> Callable[[Any], None]:
        """The function for one request. It does nothing after an error, because LoadGen may be gone
        then.
        """

        def call(value: Any) -> None:
            if self._error is not None:
                return
            try:
                function(key, value)
            # The error is passed on to the thread that issues requests.
            except Exception as e:  # noqa: BLE001
                self._fail(e)

        return call


@dataclass(eq=False)
class EngineSut:
    """An engine with all methods of `sut.contract.Inference`.

    Attributes:
        streams: whether first tokens are reported.
        at_once: the requests that Offline keeps in flight. Its calibration sets it.
    """

    engine: Engine
    streams: bool
    at_once: int = 1
    in_flight = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def predict(self, batch: Batch) -> Batch:
        """Submit all rows at once and wait for them. Returns the answers, as `to_host` does."""
        answers: dict[int, Batch] = {}
        rows = len(next(iter(batch.values())))
        on_first = (lambda key, token: None) if self.streams else None
        flight = Flight(self.engine, on_first, answers.__setitem__, most=rows)
        for row in range(rows):
            flight.submit(row, _row(batch, row))
        flight.drain()
        return _stacked([answers[row] for row in range(rows)])

    def to_host(self, outputs: Batch) -> Batch:
        """Return the answers unchanged."""
        return outputs

    def answering(self, respond: Responder, keys: Sequence[str], times: TokenTimes) -> Answer:
        """Return the function that submits all rows of a batch, waits for them, and reports them in
        the issuing thread, because LoadGen issues the next query when this one is reported.

        The first token of a sample and its answer must be reported by one thread. LoadGen reads the
        logs of its threads one after the other, and forgets an answered sample.
        """
        events = SimpleQueue[tuple[int, np.ndarray | None, Batch | Exception | None]]()

        def submit(place: int, sample: Batch) -> None:
            def on_first(token: np.ndarray) -> None:
                events.put((place, token, None))

            def on_end(found: Batch | Exception) -> None:
                events.put((place, None, found))

            self.engine.submit(sample, on_first if self.streams else None, on_end)

        def answer(batch: Batch, ids: Ids, indices: Indices) -> None:
            begin_ns = _clock()
            first_ns = [begin_ns] * len(ids)
            for place in range(len(ids)):
                submit(place, _row(batch, place))
            left = len(ids)
            while left:
                place, token, found = events.get()
                if isinstance(found, Exception):
                    raise found
                if token is not None:
                    first_ns[place] = _clock()
                    times.first_ns.append(first_ns[place] - begin_ns)
                    respond.first([ids[place]], token)
                if found is not None:
                    left -= 1
                    end_ns = _clock()
                    respond.complete([ids[place]], pack(found, keys), [indices[place]])
                    if self.streams:
                        _note_later(times, found, end_ns - first_ns[place])

        return answer


def flight(
    sut: EngineSut,
    respond: Responder,
    keys: Sequence[str],
    times: TokenTimes,
    most: int,
) -> Flight:
    """Return the flight that reports to LoadGen, in the engine's thread.

    Args:
        keys: the arrays of an answer, in payload order.
        times: records when tokens came, if first tokens are reported.
        most: the most requests in flight.
    """
    first_ns: dict[int, int] = {}

    def on_first(key: Key, token: np.ndarray) -> None:
        number, _, begin_ns = key
        first_ns[number] = _clock()
        times.first_ns.append(first_ns[number] - begin_ns)
        respond.first([number], token)

    def on_end(key: Key, answer: Batch) -> None:
        number, index, _ = key
        end_ns = _clock()
        respond.complete([number], pack(answer, keys), [index])
        first = first_ns.pop(number, None)
        if first is not None:
            _note_later(times, answer, end_ns - first)

    return Flight(sut.engine, on_first if sut.streams else None, on_end, most)


def submit(requests: Flight, qsl: Qsl, number: int, index: int) -> None:
    """Submit one sample of a query. Raises as `Flight.submit`."""
    requests.submit((number, index, _clock()), qsl.one(index))


def answer_all(requests: Flight, qsl: Qsl, ids: Ids, indices: Indices) -> None:
    """Submit the samples of a query as soon as there is room for them, and wait for the answers."""
    for number, index in zip(ids, indices, strict=True):
        requests.wait_for_room()
        submit(requests, qsl, number, index)
    requests.drain()


def is_engine(job: Job) -> bool:
    """Whether the job's SUT forms its own batches. Others are handed batches, even if they have
    `submit`.
    """
    return job.workload.execution == ENGINE


def _row(batch: Batch, row: int) -> Batch:
    return {name: array[row : row + 1] for name, array in batch.items()}


def _note_later(times: TokenTimes, answer: Batch, later_ns: int) -> None:
    """Record the nanoseconds from the first token of an answer to its end."""
    later = int(answer["n_tokens"][0]) - 1
    if later:
        times.later_ns.append(later_ns / later)
        times.in_one_part += int(answer["in_one_part"][0])


def _stacked(answers: Sequence[Batch]) -> Batch:
    """The answers of several samples as one batch of tokens, padded to the longest."""
    longest = max(answer["tokens"].shape[1] for answer in answers)
    tokens = np.zeros((len(answers), longest), np.int32)
    for row, answer in enumerate(answers):
        tokens[row, : answer["tokens"].shape[1]] = answer["tokens"][0]
    return {"tokens": tokens, "n_tokens": np.concatenate([a["n_tokens"] for a in answers])}
