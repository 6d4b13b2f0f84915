"""Answers batches, whole or token by token. A scenario needs not know which.

With LoadGen's token latencies each first token is reported when it is in host memory, and each
answer when its last token is. A row does not wait for longer answers of its batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from time import perf_counter_ns as _clock
from typing import Any, NamedTuple, Protocol

import numpy as np

from scenarios.worker.queries.answers import Ids, Indices, Payload, pack
from sut.contract import Batch, Inference


class Responder(NamedTuple):
    """The functions that report to LoadGen. Each takes the ids of samples first.

    Attributes:
        complete: (ids, payload, indices of the samples): these answers are complete.
        first: (ids, tokens int32 [ids, 1]): these first tokens have arrived.
    """

    complete: Callable[[Ids, Payload, Indices], None]
    first: Callable[[Ids, np.ndarray], None]


Callbacks = tuple[Callable[..., None], Callable[[], None]]
"""A scenario's functions for LoadGen: (issue, flush)."""

Answer = Callable[[Batch, Ids, Indices], None]
"""(prepared batch, ids, indices of the samples): answer the batch and report it. The batch may have
more rows than there are ids; those are padding.
"""


class TokenTimes(Protocol):
    """The record of a test; see `scenarios.worker.watch.Watch`."""

    first_ns: array[float]
    later_ns: array[float]
    in_one_part: int


class Streamed:
    """A SUT that streams. Its methods are those of `sut.contract.Inference`, and all that generate
    run `stream`.

    Attributes:
        steps: how often the SUT has handed over a token of each row so far.
    """

    in_flight = 1
    steps = 0

    def __init__(self, sut: Inference, end_tokens: Sequence[int]):
        self.sut = sut
        self.end_tokens = list(end_tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sut, name)

    def predict(self, batch: Batch) -> Batch:
        """Return the answers, as `to_host` does."""
        requested = batch["max_new_tokens"]
        answers = np.zeros((len(requested), int(requested.max())), np.int32)
        n_tokens = np.zeros(len(requested), np.int32)

        def on_end(rows: np.ndarray, tokens: np.ndarray, count: int) -> None:
            answers[rows] = tokens
            n_tokens[rows] = count

        self.generate(batch, len(requested), lambda tokens: None, on_end)
        return {"tokens": answers, "n_tokens": n_tokens}

    def to_host(self, outputs: Batch) -> Batch:
        """Return the answers unchanged."""
        return outputs

    def generate(
        self,
        batch: Batch,
        count: int,
        on_first: Callable[[np.ndarray], None],
        on_end: Callable[[np.ndarray, np.ndarray, int], None],
    ) -> None:
        """Stream the first `count` rows of a batch. Raises ValueError if the SUT stops early.

        Args:
            on_first: gets the first tokens, int32 [count, 1].
            on_end: gets the rows that ended at the same token (int64 [k], ascending), their tokens,
                int32 [k, most new tokens], and how many of these are their answer.
        """
        requested = batch["max_new_tokens"][:count]
        tokens = np.zeros((count, int(requested.max())), np.int32)
        open_rows = np.ones(count, bool)
        steps = 0

        def on_step(following: np.ndarray) -> bool:
            nonlocal steps
            self.steps += 1
            following = following[:count]
            tokens[:, steps] = following
            steps += 1
            if steps == 1:
                on_first(np.ascontiguousarray(tokens[:, :1]))
            ended = open_rows & (requested <= steps)
            if self.end_tokens:
                ended |= open_rows & np.isin(following, self.end_tokens)
            if ended.any():
                open_rows[ended] = False
                on_end(np.flatnonzero(ended), tokens[ended], steps)
            return bool(open_rows.any())

        self.sut.stream(batch, on_step)
        if open_rows.any():
            raise ValueError(
                f"the SUT stopped after {steps} tokens, and {open_rows.sum()} of {count} answers"
                " had not ended"
            )


def at_once(first_ns: float, later_ns: float, tokens: int) -> bool:
    """Return whether a SUT computed an answer before it handed over its first token. A pass over
    the prompt takes no longer than a pass for each of its tokens, so it takes at most `tokens`
    times as long as a later token. A prompt may be padded to twice its length.

    Args:
        first_ns: nanoseconds to the first token.
        later_ns: nanoseconds a later token.
        tokens: those of prompt and answer.
    """
    return later_ns * 2 * tokens < first_ns


def answering(sut: Inference, respond: Responder, keys: Sequence[str], times: TokenTimes) -> Answer:
    """Return the function that answers a batch and reports it.

    Args:
        keys: the arrays of `to_host` that form the answer, in payload order.
        times: records when tokens came, if the SUT streams.
    """
    if own := getattr(sut, "answering", None):  # an engine (scenarios.worker.queries.engine)
        answer: Answer = own(respond, keys, times)
        return answer
    complete = respond.complete
    if not isinstance(sut, Streamed):

        def whole(batch: Batch, ids: Ids, indices: Indices) -> None:
            complete(ids, pack(sut.to_host(sut.predict(batch)), keys), indices)

        return whole

    def streamed(batch: Batch, ids: Ids, indices: Indices) -> None:
        begin = _clock()
        first = begin
        longest = int(batch["prompt_length"].max())

        def on_first(tokens: np.ndarray) -> None:
            nonlocal first
            first = _clock()
            respond.first(ids, tokens)

        def on_end(rows: np.ndarray, tokens: np.ndarray, count: int) -> None:
            end = _clock()
            if count > 1:
                later = (end - first) / (count - 1)
                times.later_ns.extend([later] * len(rows))
                if at_once(first - begin, later, longest + count):
                    times.in_one_part += len(rows)
            payload = tokens, [count * tokens.itemsize] * len(rows)
            complete([ids[row] for row in rows], payload, [indices[row] for row in rows])

        sut.generate(batch, len(ids), on_first, on_end)
        times.first_ns.extend([first - begin] * len(ids))

    return streamed
