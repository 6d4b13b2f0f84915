"""The connection to the worker that answers (`scenarios.worker.serving` has its messages)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.serving.protocol import Refusal

_LONGEST_LINE = 1 << 28


class Step(NamedTuple):
    """Further tokens of one answer.

    Attributes:
        prompt: which prompt of the request, counted from 0.
        reason: why the answer has ended; None: it has not.
    """

    prompt: int
    tokens: list[int]
    reason: str | None


class Link:
    """Requests to the worker, each with its queue of replies.

    Attributes:
        ready: the worker's description of the SUT, once it is warm.
        compiled: programs that were compiled after the warm-up.
    """

    def __init__(self) -> None:
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.compiled = 0
        self._failure: str | None = None
        self._replies: dict[int, tuple[int, asyncio.Queue[Any]]] = {}
        self._last = 0
        self._writer: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None
        self._reading: asyncio.Task[None] | None = None

    async def listen(self, path: Path, settings: dict[str, Any]) -> None:
        """Wait for the worker at this socket, and send it the settings when it comes."""

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writer = writer
            self._send(settings)
            self._reading = asyncio.create_task(self._read(reader))

        self._server = await asyncio.start_unix_server(connected, path, limit=_LONGEST_LINE)

    async def close(self) -> None:
        """End the connection. The worker then ends by itself."""
        if self._server:
            self._server.close()
        if self._reading and self._writer:
            self._writer.close()
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def fail(self, why: str) -> None:
        """Refuse all requests from now on, because the worker has ended."""
        self._failure = why
        if not self.ready.done():
            self.ready.cancel()
        for _, queue in self._replies.values():
            queue.put_nowait(self._unavailable())

    def check(self) -> None:
        """Raises Refusal if nothing is answered yet, or any more."""
        if self._failure:
            raise self._unavailable()
        if not self.ready.done():
            raise Refusal(503, "nothing is answered yet: the SUT is being loaded", code="loading")

    async def generate(
        self, prompts: Sequence[Sequence[int]], new: int, deadline: float
    ) -> AsyncGenerator[Step, None]:
        """Yield the tokens of the answers as they come. If it is closed early, the worker is told
        that nobody waits any more.

        Args:
            new: the most tokens of each answer.
            deadline: seconds of the loop's clock.

        Raises Refusal if the queue is full or the worker has ended, and TimeoutError at the
        deadline.
        """
        documents = [{"ids": list(prompt), "new": new} for prompt in prompts]
        numbers, queue = self._ask(documents)
        try:
            while numbers:
                index, reply = await _next(queue, deadline)
                _, tokens, reason = reply
                if reason:
                    self._replies.pop(numbers.pop(index))
                yield Step(index, tokens, reason)
        finally:
            self._leave(numbers)

    async def scores(
        self, prompts: Sequence[Sequence[int]], top: int, deadline: float
    ) -> list[dict[str, Any]]:
        """Return the worker's `scores` of each prompt. Raises as `generate`."""
        documents = [{"ids": list(prompt), "top": top} for prompt in prompts]
        numbers, queue = self._ask(documents)
        found = {}
        try:
            while numbers:
                index, reply = await _next(queue, deadline)
                self._replies.pop(numbers.pop(index))
                found[index] = reply
        finally:
            self._leave(numbers)
        return [found[index] for index in range(len(prompts))]

    def _ask(
        self, documents: Sequence[dict[str, Any]]
    ) -> tuple[dict[int, int], asyncio.Queue[Any]]:
        """Send the requests. Return (index → number of each, the queue of their replies)."""
        self.check()
        queue: asyncio.Queue[Any] = asyncio.Queue()
        numbers = {}
        for index, document in enumerate(documents):
            self._last += 1
            numbers[index] = self._last
            self._replies[self._last] = (index, queue)
            self._send({"id": self._last, **document})
        return numbers, queue

    def _leave(self, numbers: dict[int, int]) -> None:
        for number in numbers.values():
            self._replies.pop(number, None)
            if not self._failure:
                self._send({"leave": number})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            self._take(json.loads(line))

    def _take(self, document: dict[str, Any]) -> None:
        if "rows" in document:
            for row in document["rows"]:
                self._reply(row[0], row)
        elif "scores" in document:
            self._reply(document["scores"], document)
        elif "refused" in document:
            self._reply(document["refused"], _full(document["why"]))
        elif "compiled" in document:
            self.compiled += document["compiled"]
        elif not self.ready.done():
            self.ready.set_result(document["ready"])

    def _reply(self, number: int, reply: Any) -> None:
        if number not in self._replies:  # nobody waits for it any more
            return
        index, queue = self._replies[number]
        queue.put_nowait(reply if isinstance(reply, Refusal) else (index, reply))

    def _send(self, document: dict[str, Any]) -> None:
        assert self._writer
        self._writer.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def _unavailable(self) -> Refusal:
        return Refusal(503, f"nothing is answered any more: {self._failure}", code="unavailable")


def _full(why: str) -> Refusal:
    return Refusal(429, f"the queue is full: {why}", code="queue_full")


async def _next(queue: asyncio.Queue[Any], deadline: float) -> tuple[int, Any]:
    """The next reply of the worker. Raises it if it is a Refusal."""
    async with asyncio.timeout_at(deadline):
        reply = await queue.get()
    if isinstance(reply, Refusal):
        raise reply
    index, document = reply
    return index, document
