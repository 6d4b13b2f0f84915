"""A model of which no time is measured."""

from __future__ import annotations

from sut.contract import AsGiven


class Untimed(AsGiven):
    """A reference. It takes the inputs as they are."""

    in_flight = 1

    def synchronise(self) -> None:
        """Do nothing: no time is measured."""
