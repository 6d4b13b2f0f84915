"""The order in which tokens are computed and handed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

Tokens = TypeVar("Tokens")


def one_ahead(tokens: Iterator[Tokens]) -> Iterator[Tokens]:
    """Yield the same tokens. Each one is begun before the one before it is yielded, so that the
    device computes while the host handles a token.

    It fits a framework whose calls return before the device is done. If the consumer stops early,
    the device has computed one token more than it needs.
    """
    current = next(tokens)
    for following in tokens:
        yield current
        current = following
    yield current
