"""What else went on while a cell was measured, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Shares of the test, and processors: from the first on a reader is told, from the second on the figure is not ranked.
_STALLED, _OTHERS, _STOLEN = (0.02, 0.05), (0.1, 0.5), (0.02, 0.1)
BY_CLOCK = ("kept answers", "speed", "loadgen")
"""Causes of an invalid run that a disturbed machine may be the reason of."""


def sentences(noise: Mapping[str, Any], processors: int) -> tuple[list[str], list[str]]:
    """(why the figure may not be ranked, what a reader should know) of what else went on while it was measured.

    `processors`: that the worker may use. On many of them the same work of others weighs less.
    """
    if not noise:
        return [], []
    serious: list[str] = []
    notes: list[str] = []
    stalled = noise["stalled_seconds"] / noise["seconds"]
    longest = noise["longest_stall_seconds"]
    standstill = f"nothing was completed for {noise['stalled_seconds']:.2g} of its {noise['seconds']:.3g} s (longest {longest:.2g} s)"
    for text, share, limits in (
        (f"{standstill}: the worker stood still, or one batch took far longer than is usual", stalled, _STALLED),
        (
            "other programs used {:.0%} of a processor while it was measured: end them, and measure again",
            noise["other_processors"],
            _of_many(_OTHERS, processors),
        ),
        (
            "the hypervisor kept {:.0%} of a processor from this machine while it was measured",
            noise["stolen_processors"],
            _of_many(_STOLEN, processors),
        ),
    ):
        if share is not None and share >= limits[0]:
            (serious if share >= limits[1] else notes).append(text.format(share))
    if children := noise.get("children"):
        notes.append(
            f"the SUT ran in {children} more process{'es' if children > 1 else ''}, which used {noise['children_processors']:.0%} of a "
            "processor; their memory is not counted"
        )
    if (threads := noise.get("threads")) is not None and threads != processors:
        notes.append(f"the framework ran with {threads} thread{'s' if threads > 1 else ''}, and the worker may use {processors} processors")
    if (slower := noise.get("fresh_slower")) is not None:
        serious.append(
            f"inputs that it had not met took {slower:.3g} times as long as those it had: it keeps a part of its answers, or the machine "
            "was disturbed: measure again"
        )
    return serious, notes


def _of_many(limits: tuple[float, float], processors: int) -> tuple[float, float]:
    """At most a fiftieth and a tenth of a large machine."""
    return max(limits[0], processors / 50), max(limits[1], processors / 10)
