"""Messages between the LoadGen process and its replicas: a header of JSON, and arrays as raw bytes.

The connections are TCP connections of `multiprocessing.connection`. Both sides prove that they know
the secret (HMAC), and nothing is pickled. Messages are not encrypted.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from scenarios.worker.replicas.placement import SECRET

ANSWER = "answer"
"""The name of the request to answer a batch."""
HOST = "127.0.0.1"
"""The interface on which replicas of this machine connect."""
_PROOF_S = 5.0
"""A connection that is silent for so long, before it has proved the secret, is closed."""
_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 6000}
"""Options of a connection (tcp(7)): after 2 seconds without data the kernel asks the other kernel
for a sign of life, and after 6 seconds (6000 ms) without one the connection is lost. A process that
computes needs to do nothing for it.
"""
_LENGTH = struct.Struct("<I")


class Message(NamedTuple):
    """A message that was received.

    Attributes:
        header: JSON values.
        arrays: name → array. The arrays are read-only.
        size: bytes of the whole message.
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    size: int


class Gate:
    """Where replicas connect. Connections without the secret are closed.

    Attributes:
        address: host and port.
        secret: 32 random bytes.
        arrived: the connections, as they come.
    """

    def __init__(self, count: int, host: str = HOST):
        """Wait for `count` connections, in a thread."""
        self.secret = secrets.token_bytes(32)
        self._listener = Listener((host, 0), backlog=count)
        self.address: tuple[str, int] = self._listener.address
        self.arrived: SimpleQueue[Connection] = SimpleQueue()
        self._closed = False
        threading.Thread(target=self._accept, args=(count,), name="gate", daemon=True).start()

    def _accept(self, count: int) -> None:
        while count:
            try:
                connection = self._proved(self._listener.accept())
            except (AuthenticationError, EOFError, OSError):
                if self._closed:
                    return
                continue
            _prepare(connection)
            self.arrived.put(connection)
            count -= 1

    def _proved(self, connection: Connection) -> Connection:
        """Return the connection if both sides know the secret. Otherwise close it, and raise
        AuthenticationError, EOFError or OSError.
        """
        limit_waiting(connection, _PROOF_S)
        try:
            deliver_challenge(connection, self.secret)
            answer_challenge(connection, self.secret)
        except BaseException:
            connection.close()
            raise
        limit_waiting(connection, 0)
        return connection

    def close(self) -> None:
        """Accept no further connection."""
        self._closed = True
        self._listener.close()


def dial(address: tuple[str, int]) -> Connection:
    """Connect to a gate, with the secret of the environment. Raises OSError if there is no gate,
    and AuthenticationError if it has another secret.
    """
    secret = bytes.fromhex(os.environ.pop(SECRET))
    connection = Client(address, authkey=secret)
    _prepare(connection)
    return connection


def limit_waiting(connection: Connection, seconds: float) -> None:
    """Let a transfer that stands still for so long raise OSError; 0: it may stand still for ever.
    Messages are only read if some of their bytes are there, so the time between messages does not
    count.
    """
    timeout = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    with _socket(connection) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def end_without(connection: Connection, seconds: float, end: Callable[[], None]) -> None:
    """Start a thread that calls `end` so long after the other side has gone, even if this process
    waits for something else.
    """
    gone = select.poll()
    gone.register(connection.fileno(), getattr(select, "POLLRDHUP", select.POLLHUP))

    def wait() -> None:
        gone.poll()
        time.sleep(seconds)
        end()

    threading.Thread(target=wait, name="link", daemon=True).start()


def _prepare(connection: Connection) -> None:
    """Do not hold small messages back until earlier ones are confirmed, and notice within seconds
    that the other machine has gone.
    """
    with _socket(connection) as own:
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if hasattr(socket, name):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _socket(connection: Connection) -> socket.socket:
    """The socket of a connection, to set its options. Closing it leaves the connection open."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def send(
    connection: Connection,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Send a message. → its bytes. Raises OSError if the other side has gone.

    Args:
        header: JSON values, without the key `arrays`.
        arrays: name → array of numbers.
    """
    kinds = {}
    contents = []
    for name, array in (arrays or {}).items():
        kinds[name] = [array.dtype.str, array.shape]
        contents.append(array.tobytes())
    text = json.dumps({**header, "arrays": kinds}).encode()
    content = b"".join([_LENGTH.pack(len(text)), text, *contents])
    connection.send_bytes(content)
    return len(content)


def receive(connection: Connection) -> Message:
    """Wait for a message. Raises EOFError or OSError if the other side has gone, and ValueError for
    anything that is no message.
    """
    content = connection.recv_bytes()
    if len(content) < _LENGTH.size:
        raise ValueError(f"a message of {len(content)} bytes has no header")
    start = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    header = json.loads(content[_LENGTH.size : start])
    arrays = {}
    for name, (kind, shape) in header.pop("arrays").items():
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(content, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize
    return Message(header, arrays, len(content))
