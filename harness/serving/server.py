"""The thread that answers the requests of `./run.sh serve`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from harness.errors import UsageError

_END_S = 3.0
_BACKLOG = 1024


@contextmanager
def answering(application: web.Application, host: str, port: int) -> Iterator[int]:
    """A context in which a thread answers requests. It gives the port, which is another one if
    `port` is 0. At its end open requests have some seconds. Raises UsageError if the port cannot be
    used.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def wait(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    runner = web.AppRunner(
        application, handler_cancellation=True, access_log=None, shutdown_timeout=_END_S
    )
    wait(runner.setup())
    try:
        wait(web.TCPSite(runner, host, port, backlog=_BACKLOG).start())
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise UsageError(
            f"--host {host} --port {port}: cannot be used ({why}): give another --port"
        ) from None
    try:
        yield runner.addresses[0][1]
    finally:
        wait(runner.cleanup())
