"""Where replicas connect to the LoadGen process. Both sides prove that they know a secret (HMAC).
Standard library only.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from queue import SimpleQueue

from scenarios.worker.replicas.placement import SECRET

HOST = "127.0.0.1"
"""The interface on which replicas of this machine connect."""
_PROOF_S = 5.0
"""A connection that is silent for so long, before it has proved the secret, is closed."""
_ALIVE = {socket.TCP_KEEPIDLE: 2, socket.TCP_KEEPINTVL: 1, socket.TCP_KEEPCNT: 4}
"""Options of a connection (tcp(7)): after 2 seconds without data the kernel asks the other kernel
for a sign of life, and after 6 seconds without one the connection is lost. A process that computes
needs to do nothing for it.
"""
_UNSENT_MS = 6_000
_UNSENT_ANSWERS_MS = 60_000
"""TCP_USER_TIMEOUT: a message may wait so long for its receiver. Answers wait until those of other
replicas are read.
"""


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
                _prepare(connection, _UNSENT_MS)
            except (AuthenticationError, EOFError, OSError):
                if self._closed:
                    return
                continue
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
    try:
        connection = Client(address, authkey=secret)
    except OSError as e:
        raise OSError(
            f"cannot reach {address[0]} port {address[1]} ({e}): give --interface, an address of"
            " the machine with the command that its nodes reach"
        ) from None
    _prepare(connection, _UNSENT_ANSWERS_MS)
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


def _prepare(connection: Connection, unsent_ms: int) -> None:
    """Do not hold small messages back until earlier ones are confirmed, and notice within seconds
    that the other machine has gone.
    """
    with _socket(connection) as own:
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unsent_ms)
        for option, value in _ALIVE.items():
            own.setsockopt(socket.IPPROTO_TCP, option, value)


def _socket(connection: Connection) -> socket.socket:
    """The socket of a connection, to set its options. Closing it leaves the connection open."""
    return socket.socket(fileno=os.dup(connection.fileno()))
