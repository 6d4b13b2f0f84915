"""The text of an answer, as its tokens arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_CONTEXT = 5
"""Tokens before the new ones that are decoded with them, because some tokenizers drop the space in
front of the first token.
"""
_LONGEST_CHARACTER = 4
"""Tokens of bytes that may be one character. More are no character at all."""
_INCOMPLETE = "\ufffd"


class Text:
    """The text of one answer.

    Attributes:
        stopped: whether a stop text has come. It is no part of the answer.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int], stop: Sequence[str]
    ):
        self.stopped = False
        self._decode = decode
        self._stop = tuple(stop)
        self._held = max(map(len, stop), default=1) - 1
        self._pending = ""
        self._ids = list(prompt)[-_CONTEXT:]
        self._decoded = len(self._ids)
        self._context = 0

    def add(self, tokens: Sequence[int], last: bool) -> str:
        """Return the further text that these tokens give. It may be empty.

        Args:
            last: no tokens follow, so nothing is held back.
        """
        if self.stopped:
            return ""
        self._ids += tokens
        self._pending += self._further(last)
        found = [at for at in map(self._pending.find, self._stop) if at >= 0]
        if found:
            self.stopped = True
            return self._release(min(found))
        held = 0 if last else self._beginning()
        return self._release(len(self._pending) - held)

    def _release(self, count: int) -> str:
        text = self._pending[:count]
        self._pending = self._pending[count:]
        return text

    def _beginning(self) -> int:
        """The number of last characters that may be the beginning of a stop text."""
        for count in range(min(self._held, len(self._pending)), 0, -1):
            if any(text.startswith(self._pending[-count:]) for text in self._stop):
                return count
        return 0

    def _further(self, last: bool) -> str:
        before = self._decode(self._ids[self._context : self._decoded])
        now = self._decode(self._ids[self._context :])
        waiting = len(self._ids) - self._decoded
        if now.endswith(_INCOMPLETE) and not last and waiting < _LONGEST_CHARACTER:
            return ""
        self._context = self._decoded
        self._decoded = len(self._ids)
        return now[len(before) :]
