"""Messages between the LoadGen process and its replicas: a header of JSON, and arrays as raw bytes.

The connections are TCP connections of `multiprocessing.connection` (`gate`). Nothing is pickled.
Messages are not encrypted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

ANSWER = "answer"
"""The name of the request to answer a batch."""
Header = dict[str, Any]
"""JSON values, by their names."""
Arrays = Mapping[str, np.ndarray]
"""Name → array of numbers."""
_LENGTH = struct.Struct("<I")


class Message(NamedTuple):
    """A message that was received.

    Attributes:
        header: JSON values.
        arrays: name → array. The arrays are read-only.
        size: bytes of the whole message.
    """

    header: Header
    arrays: dict[str, np.ndarray]
    size: int


def send(connection: Connection, header: Header, arrays: Arrays | None = None) -> int:
    """Send a message. → its bytes. Raises OSError if the other side has gone.

    Args:
        header: it does not have the key `arrays`.
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
