"""Sends requests to an engine by HTTP, from a thread with an event loop. Nothing is sent twice."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from sut.endpoint.replies import EndpointError, Reply, document, event, shown

T = TypeVar("T")

_LARGEST = 1 << 24
"""Bytes. No answer in tokens is so large."""
_GLANCE_S = 0.25
_IDLE_S = 2.0
"""An idle connection is used again for so long. Servers close it after 5 s and more, and a request
that meets the closing would fail.
"""
_MOMENT_S = 0.0002
"""Texts that arrive so soon after one another were sent at once: no model computes a token so fast
and sends it by HTTP.
"""
_SPARE_PARTS = 16
"""The parts of a stream that may come in addition to one for each requested token."""


class Client:
    """An engine's address, and the requests to it.

    Attributes:
        url: the address of the API, without a slash at its end.
    """

    def __init__(self, url: str, key: str, silence_s: float, most: int | None):
        """Start the thread.

        Args:
            key: the bearer token; empty: none. No error quotes it.
            silence_s: seconds after which all requests fail if none of them gets a part of its
                answer.
            most: requests that are sent at a time; None: all.
        """
        self.url = url
        self._key = key
        self._silence_s = silence_s
        self._heard = time.monotonic()
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._most = asyncio.Semaphore(most) if most else None
        threading.Thread(target=self._run, name="endpoint", daemon=True).start()
        self._session = self.run(self._begin())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def begin(
        self,
        path: str,
        body: Mapping[str, Any],
        on_text: Callable[[str], None] | None,
        on_end: Callable[[Reply | Exception], None],
        most_parts: int,
    ) -> None:
        """Send a request, and return at once. Both functions are called from the thread.

        Args:
            on_text: gets the first text that has arrived; None: the request is not streamed.
            on_end: gets the answer or an error.
            most_parts: the parts of a stream, after which it is an error.
        """

        async def work() -> None:
            task = asyncio.current_task()
            assert task
            if not self._open:
                self._heard = time.monotonic()
            self._open.add(task)
            result: Reply | Exception
            try:
                chat = "messages" in body
                result = await self._limited(self._post(path, body, chat, on_text, most_parts))
            except EndpointError as e:
                result = e
            except asyncio.CancelledError:
                result = self._silence()
            # Without an end the request would be waited for.
            except Exception as e:  # noqa: BLE001
                result = self._error(f"{path}: {type(e).__name__}: {e}")
            try:
                on_end(result)
            finally:
                self._open.discard(task)

        asyncio.run_coroutine_threadsafe(work(), self._loop)

    def get(self, path: str) -> tuple[Any, Mapping[str, str], float]:
        """Return the reply to a GET, its headers and the seconds that it took. Raises
        EndpointError.

        Args:
            path: appended to `url`, if it is no address itself.
        """
        return self.run(self._watched(self._get(path)))

    def text(self, path: str) -> str:
        """Return the reply to a GET of an address. Raises EndpointError."""
        return self.run(self._watched(self._text(path)))

    def ask(self, path: str, body: Mapping[str, Any], chat: bool) -> Reply:
        """Return the whole answer to one request. Raises EndpointError."""
        return self.run(self._watched(self._post(path, body, chat, None, 0)))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _begin(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
        timeout = aiohttp.ClientTimeout(total=None)
        self._watch = asyncio.create_task(self._watch_silence())
        return aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout)

    async def _limited(self, work: Coroutine[Any, Any, Reply]) -> Reply:
        if self._most is None:
            return await work
        async with self._most:
            return await work

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that is given up after the time of silence."""
        try:
            return await asyncio.wait_for(work, self._silence_s)
        except TimeoutError:
            raise self._silence() from None

    async def _watch_silence(self) -> None:
        """Cancel all requests if none of them gets an answer for too long."""
        while True:
            await asyncio.sleep(_GLANCE_S)
            if self._open and time.monotonic() - self._heard > self._silence_s:
                for task in self._open:
                    task.cancel()

    def _silence(self) -> EndpointError:
        count = max(1, len(self._open))
        return EndpointError(
            f"{self.url} sent no part of an answer for {self._silence_s:g} s (timeout-s), and"
            f" {count} request{'s' * (count > 1)} waited"
        )

    async def _get(self, path: str) -> tuple[Any, Mapping[str, str], float]:
        start = time.perf_counter()
        async with self._response("GET", path, None) as response:
            reply = document(await _whole(response))
            return reply, response.headers, time.perf_counter() - start

    async def _text(self, path: str) -> str:
        async with self._response("GET", path, None) as response:
            return (await _whole(response)).decode(errors="replace")

    async def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        chat: bool,
        on_text: Callable[[str], None] | None,
        most_parts: int,
    ) -> Reply:
        reply = Reply()
        async with self._response("POST", path, body) as response:
            if on_text is None:
                raw = await _whole(response)
                self._heard = time.monotonic()
                reply.add(document(raw), chat, streamed=False)
            else:
                await self._stream(response, reply, chat, on_text, most_parts)
            reply.check()
        return reply

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a request. An error in the block becomes an EndpointError that names the
        request, and so does any status but 200.
        """
        address = path if "://" in path else self.url + path
        try:
            async with self._session.request(
                method, address, json=body, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raw = await response.content.read(1 << 12)
                    raise EndpointError(f"HTTP {response.status}: {shown(raw)}")
                yield response
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise self._error(f"{method} {address}: {_words(e)}") from None
        except EndpointError as e:
            raise self._error(f"{method} {address}: {e}") from None

    async def _stream(
        self,
        response: aiohttp.ClientResponse,
        reply: Reply,
        chat: bool,
        on_text: Callable[[str], None],
        most_parts: int,
    ) -> None:
        parts = 0
        part = 0
        arrived_s = -math.inf
        async for line in response.content:
            data = event(line)
            if data is None:
                continue
            if data == b"[DONE]":
                return
            text = reply.add(document(data), chat, streamed=True)
            if not text:
                continue
            self._heard = time.monotonic()
            if self._heard - arrived_s > _MOMENT_S:
                part = 0
            arrived_s = self._heard
            part += len(text)
            reply.largest_part = max(reply.largest_part, part)
            parts += 1
            if parts == 1:
                on_text(text)
            if parts > most_parts + _SPARE_PARTS:
                raise EndpointError(
                    f"a stream goes on after {parts} parts, and {most_parts} tokens were requested"
                )

    def _error(self, text: str) -> EndpointError:
        """An error without the key."""
        return EndpointError(text.replace(self._key, "…") if self._key else text)


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    parts = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise EndpointError(f"a reply of more than {_LARGEST:,} bytes")
    return b"".join(parts)


def _words(error: Exception) -> str:
    """An error of the connection in words."""
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ServerDisconnectedError):
        text = "the engine closed the connection"
    elif isinstance(error, aiohttp.ClientPayloadError):
        text = "the engine closed the connection in the middle of a reply"
    return " ".join(text.split())
