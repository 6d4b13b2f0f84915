"""Counts which requests of Server were over their limits of latency, as LoadGen does (results.cc).

LoadGen counts whole answers or, with token latencies, first tokens and later tokens separately. A
request is good if none of its latencies is over its limit.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from time import perf_counter_ns as _clock

import numpy as np

from formats.cell import Cell
from formats.figures import TOKEN_BYTES
from scenarios.worker.queries.answers import Ids, Indices, Payload
from scenarios.worker.queries.streaming import Responder

_LEFT = 0.05
_SPARE = 1.5
"""The share of all requests that may be left at the end, and the factor on those that the rate and
the shortest latency explain.
"""


@dataclass
class Limited:
    """The requests of one test, by the ids that `respond` gets.

    Attributes:
        limits: the cell, which has their limits.
        due: id → when the request was due, by `perf_counter_ns`. An answered request is not in it.
        over: `latency`, `ttft` and `tpot` → how many requests were over that limit.
        bad: how many requests were over some limit.
        answered: how many requests were answered.
        left: how many were not answered when the last one had been issued.
        least_ns: the shortest latency.
    """

    limits: Cell
    respond: Responder
    due: dict[int, int] = field(default_factory=dict)
    over: dict[str, int] = field(default_factory=lambda: {"latency": 0, "ttft": 0, "tpot": 0})
    bad: int = 0
    answered: int = 0
    left: int = 0
    _first: dict[int, int] = field(default_factory=dict)
    _in_order: deque[int] = field(default_factory=deque)
    _late: list[int] = field(default_factory=list)
    _begun_ns: int = 0
    _issued_ns: int = 0
    least_ns: float = math.inf

    def issue(self, ids: Ids) -> None:
        """Note that these requests are due now, unless a time is known for them."""
        now = _clock()
        self._begun_ns = self._begun_ns or now
        for number in ids:
            self.due.setdefault(number, now)
            self._in_order.append(number)
        while self._in_order and self._in_order[0] not in self.due:
            self._in_order.popleft()

    def last_issued(self) -> None:
        """Note that no more requests are issued."""
        self.left = len(self.due)
        self._issued_ns = _clock() - self._begun_ns

    def kept_up(self, largest: int) -> bool:
        """Return whether the SUT kept up with the requests: not many more were left at the end than
        the rate and the shortest latency explain (Little's law). In a short test a queue may grow
        within the limits.

        Args:
            largest: the requests of the largest batch.
        """
        rate = self.answered / max(1, self._issued_ns)
        usual = _SPARE * rate * self.least_ns
        return self.left <= usual + largest + _LEFT * self.answered

    @property
    def rate(self) -> float:
        """Answers a second until the last request was issued."""
        return 1e9 * (self.answered - self.left) / max(1, self._issued_ns)

    @property
    def responder(self) -> Responder:
        """The functions that count, and then report to `respond`."""
        return Responder(self._on_complete, self._on_first)

    def late(self) -> int:
        """How many requests wait for longer than the limit already, for their answer or for their
        first token.
        """
        limit_ms = self.limits.max_latency_ms or self.limits.max_ttft_ms
        if limit_ms is None:
            return 0
        latest = _clock() - limit_ms * 1e6
        # The thread that answers may take a request out at any time.
        while self._in_order and self.due.get(self._in_order[0], 0) < latest:
            self._late.append(self._in_order.popleft())
        self._late = [
            number for number in self._late if number in self.due and number not in self._first
        ]
        return len(self._late)

    def most_over(self) -> int:
        """The most requests over one limit, with those that are late already."""
        first = "latency" if self.limits.max_latency_ms is not None else "ttft"
        return max(self.over[first] + self.late(), self.over["tpot"])

    def _on_first(self, ids: Ids, tokens: np.ndarray) -> None:
        now = _clock()
        for number in ids:
            self._first[number] = now
        self.respond.first(ids, tokens)

    def _on_complete(self, ids: Ids, payload: Payload, indices: Indices) -> None:
        now = _clock()
        self.respond.complete(ids, payload, indices)
        _, lengths = payload
        for place, number in enumerate(ids):
            tokens = lengths[place] // TOKEN_BYTES if lengths else 0
            self._count(number, now, tokens)

    def _count(self, number: int, now: int, tokens: int) -> None:
        due = self.due.pop(number)
        first = self._first.pop(number, None)
        limits = self.limits
        is_bad = self._is_over("latency", now - due, limits.max_latency_ms)
        if first is not None:
            later = (now - first) / max(1, tokens - 1)
            is_bad |= self._is_over("ttft", first - due, limits.max_ttft_ms)
            is_bad |= self._is_over("tpot", later, limits.max_tpot_ms)
        self.least_ns = min(self.least_ns, now - due)
        self.bad += is_bad
        self.answered += 1

    def _is_over(self, name: str, taken_ns: float, limit_ms: float | None) -> bool:
        """Count a latency that is over its limit."""
        is_over = limit_ms is not None and taken_ns > limit_ms * 1e6
        self.over[name] += is_over
        return is_over
