"""The end of a sweep's time (`--for`): whether a cell may begin, and how long it may take."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from harness.errors import UsageError

LONGEST_CELL = 1 / 3
"""No cell takes more than this share of the time, so that one slow cell leaves room for others."""
_LAST = 1 / 20
_LAST_S = 60.0
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}


class TimeUp(KeyboardInterrupt):
    """The time of a measurement is over. Its worker ends and its files stay, as after Ctrl-C.

    Attributes:
        seconds: the time that it had.
        measuring: whether everything was prepared, so that the cell itself took the time.
    """

    def __init__(self, seconds: float, measuring: bool):
        super().__init__(f"cut off after {seconds:.0f} s")
        self.seconds = seconds
        self.measuring = measuring


@dataclass(frozen=True)
class Deadline:
    """The end of a sweep's time.

    Attributes:
        seconds: how long the sweep may take.
        end_s: when it ends, on the monotonic clock.
    """

    seconds: float
    end_s: float

    @classmethod
    def after(cls, flag: str, text: str) -> Deadline:
        """Return the deadline after a time such as `90s`, `30min` or `2h`. Raises UsageError that
        names the flag.
        """
        match = _TIME.fullmatch(text)
        seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
        if not seconds:
            raise UsageError(f"{flag} {text}: a time such as 90s, 30min or 2h")
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds until the end. Negative after it."""
        return self.end_s - time.monotonic()

    @property
    def over(self) -> bool:
        """Whether no further cell begins. That is so in the last minute, or the last twentieth of
        the time if that is shorter.
        """
        return self.left_s < min(_LAST_S, _LAST * self.seconds)

    @contextmanager
    def limit(self, share: float = 1.0) -> Iterator[None]:
        """Raise TimeUp in the block at the end, or after this share of the whole time. A limit with
        a share, that of a measurement, may be within one without, and ends it.
        """
        seconds = max(min(self.left_s, share * self.seconds), 1e-3)

        def end(number: int, frame: object) -> NoReturn:
            raise TimeUp(seconds, measuring=share < 1)

        before = signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
