"""A queue of requests, which the thread of the SUT answers in batches.

A batch begins when the thread is free and either the largest batch has come together, or the oldest
request has waited for the longest wait. The queue has a bound, so it never fills the memory.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns as _clock
from typing import Any, Generic, TypeVar

from formats.outcome import QueueSummary

Request = TypeVar("Request")
Result = TypeVar("Result")

_FEW = 2


class Overload(Exception):
    """The queue is full, or a request has waited too long. The message says which."""


@dataclass(frozen=True)
class Policy:
    """How requests become batches.

    Attributes:
        sizes: the sizes of batches, ascending. A batch is padded to the least size that holds it.
        wait_ns: how long a request waits for others before a smaller batch is formed.
        most_waiting: a further request is refused with Overload.
        longest_wait_ns: if a request has waited for so long, the next one is refused with Overload;
            0: no limit.
    """

    sizes: tuple[int, ...]
    wait_ns: int = 0
    most_waiting: int = 1 << 20
    longest_wait_ns: int = 0

    def size(self, count: int) -> int:
        """The least size that holds so many requests."""
        return next(size for size in self.sizes if size >= count)


@dataclass(slots=True)
class Record:
    """What the thread did, one entry a batch.

    Attributes:
        begun_ns: `perf_counter_ns` when the batch began.
        waiting: the requests in the queue then, without those of the batch.
        taken: the requests of the batch.
    """

    begun_ns: array[int] = field(default_factory=lambda: array("q"))
    waiting: array[int] = field(default_factory=lambda: array("q"))
    taken: array[int] = field(default_factory=lambda: array("q"))


class Queue:
    """Requests that are not yet answered. Two threads share it.

    Attributes:
        record: what was done.
    """

    def __init__(self) -> None:
        self.record = Record()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None

    @property
    def _is_open(self) -> bool:
        """Whether a request is not yet answered."""
        raise NotImplementedError

    def work(self) -> None:
        """Answer requests until `close` is called."""
        raise NotImplementedError

    def close(self) -> None:
        """Answer no further request."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until every request is answered. Raises the error of an answer."""
        with self._changed:
            while self._error is None and self._is_open:
                self._changed.wait()
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


class Batcher(Queue, Generic[Request]):
    """Answers requests in the order in which they came."""

    def __init__(self, answer: Callable[[list[Request]], None], policy: Policy):
        """`answer` answers the requests of one batch, in the thread that calls `work`. After an
        error of it nothing more is answered, and `put` and `drain` raise that error.
        """
        super().__init__()
        self._answer = answer
        self._policy = policy
        self._queue: deque[tuple[int, Request]] = deque()
        self._busy = False

    def put(self, request: Request) -> None:
        """Add a request to the queue, and return at once. Raises Overload, or the error of an
        earlier answer.
        """
        now = _clock()
        with self._changed:
            self._raise()
            self._check(now)
            self._queue.append((now, request))
            self._changed.notify_all()

    @property
    def _is_open(self) -> bool:
        return self._busy or bool(self._queue and not self._closed)

    def _check(self, now: int) -> None:
        policy = self._policy
        if len(self._queue) >= policy.most_waiting:
            raise Overload(f"{len(self._queue)} requests wait, and no more may")
        if not policy.longest_wait_ns or not self._queue:
            return
        waited_ns = now - self._queue[0][0]
        if waited_ns > policy.longest_wait_ns:
            raise Overload(
                f"{len(self._queue)} requests wait, the oldest for {waited_ns / 1e9:.1f} s"
            )

    def work(self) -> None:
        """Answer requests until the batcher is closed, or until an error."""
        try:
            while batch := self._next():
                self._answer(batch)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        # Whatever a SUT raises is passed on to the thread that issues requests.
        except BaseException as e:  # noqa: BLE001
            self._fail(e)

    def _next(self) -> list[Any]:
        """Wait for a batch and take it. Empty: the batcher is closed."""
        largest = self._policy.sizes[-1]
        with self._changed:
            while not self._closed and len(self._queue) < largest:
                if not self._queue:
                    self._changed.wait()
                    continue
                left_ns = self._queue[0][0] + self._policy.wait_ns - _clock()
                if left_ns <= 0:
                    break
                self._changed.wait(left_ns / 1e9)
            if self._closed:
                return []
            count = min(len(self._queue), largest)
            self.record.begun_ns.append(_clock())
            self.record.waiting.append(len(self._queue) - count)
            self.record.taken.append(count)
            self._busy = True
            return [self._queue.popleft()[1] for _ in range(count)]


def answer_while(batcher: Queue | None, call: Callable[[], Result]) -> Result:
    """Return the result of `call`, or raise its error. With a batcher it runs in another thread,
    while this one works.

    A SUT is always called in the thread that loaded it, because frameworks keep settings and
    recorded graphs for each thread.
    """
    if batcher is None:
        return call()
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        # It is raised in the calling thread.
        except BaseException as e:  # noqa: BLE001
            errors.append(e)
        finally:
            batcher.close()

    thread = threading.Thread(target=run, name="requests")
    thread.start()
    batcher.work()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def full_rate(record: Record, largest: int) -> float | None:
    """Return the requests a second of full batches of `largest` that followed one another without
    a pause. None: there were fewer than two.
    """
    durations_ns = []
    # A batch begins when the one before it ends if enough requests wait for it then.
    for number in range(len(record.begun_ns) - 1):
        is_full = record.taken[number] == largest
        if is_full and record.waiting[number] >= largest:
            durations_ns.append(record.begun_ns[number + 1] - record.begun_ns[number])
    if len(durations_ns) < _FEW:
        return None
    return largest * len(durations_ns) * 1e9 / sum(durations_ns)


def summary(record: Record) -> QueueSummary | None:
    """Return the means and the maximum over the batches. None: there was no batch."""
    count = len(record.taken)
    if not count:
        return None
    return QueueSummary(
        mean_waiting=sum(record.waiting) / count,
        most_waiting=max(record.waiting),
        mean_batch=sum(record.taken) / count,
    )
