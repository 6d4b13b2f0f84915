"""The server of `./run.sh serve`: its port, and the thread in which it runs."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from harness.errors import UsageError
from harness.serving.handlers import Counts, Settings, application
from harness.serving.link import Link

_END_S = 3.0
_BACKLOG = 1024


def bind(host: str, port: int) -> socket.socket:
    """Take the port. Raises UsageError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family, kind))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(_BACKLOG)  # else another server could take it, too
            stack.pop_all()
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise UsageError(
            f"--host {host} --port {port}: cannot be used ({why}): give another --port"
        ) from None
    return bound


class Service:
    """The server, in a thread with an event loop of its own.

    Attributes:
        counts: what was answered so far.
        serving: whether the SUT is warm, so that requests are answered.
        compiled: programs that were compiled while requests waited, once the thread has ended.
    """

    def __init__(
        self,
        settings: Settings,
        bound: socket.socket,
        path: Path,
        on_ready: Callable[[dict[str, Any]], None],
    ):
        """Start the thread.

        Args:
            path: the socket that the worker connects to.
            on_ready: called in the thread with the worker's description of the SUT, when requests
                are answered.
        """
        self.counts = Counts()
        self.serving = False
        self.compiled = 0
        self._settings = settings
        self._bound = bound
        self._path = path
        self._on_ready = on_ready
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._keep, name="serve", daemon=True)
        self._thread.start()
        self._started.wait()
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if there is one."""
        if self._error is not None:
            raise self._error

    def end(self, why: str) -> None:
        """Answer the open requests with 503 and this reason, and end the thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop, why)
        self._thread.join(2 * _END_S)

    def _stop(self, why: str) -> None:
        self._link.fail(why)
        self._ended.set()

    def _keep(self) -> None:
        try:
            asyncio.run(self._run())
        # The main thread raises it.
        except BaseException as e:  # noqa: BLE001
            self._error = e
        self._started.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._link = Link()
        await self._link.listen(self._path, self._settings.worker)
        runner = web.AppRunner(
            application(self._settings, self._link, self.counts),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_END_S,
        )
        await runner.setup()
        await web.SockSite(runner, self._bound, backlog=_BACKLOG).start()
        self._started.set()
        with suppress(asyncio.CancelledError):  # the worker ended while it loaded
            await self._serve(await self._link.ready)
        await runner.cleanup()
        await self._link.close()
        self.compiled = self._link.compiled

    async def _serve(self, ready: dict[str, Any]) -> None:
        self.serving = True
        self._on_ready(ready)
        await self._ended.wait()
