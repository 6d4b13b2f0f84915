"""N replicas and one of them by itself → the efficiency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from formats.cell import Cell
from harness.comparison import partners
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group


def pairs(groups: Iterable[Group]) -> list[tuple[Group, Group]]:
    """(a group of N replicas, the group of one of N) for each that has such a partner, measured
    under the same conditions.
    """
    return partners.pairs(groups, _one_of_them)


def _one_of_them(cell: Cell) -> Cell | None:
    return replace(cell, replicas=f"1/{cell.replicas}") if cell.replica_count > 1 else None


def efficiency(many: Group, one: Group) -> Ratio | None:
    """Return the speed of N replicas over N times the speed of one. None if one has no figure."""
    ratio = partners.ratio(many, one)
    if ratio is None:
        return None
    count = many.cell.replica_count
    ends = (ratio.low, ratio.high)
    low, high = (None if end is None else end / count for end in ends)
    return replace(ratio, value=ratio.value / count, low=low, high=high)


def words(efficiency: Ratio, count: int) -> str:
    """`0.97 (0.95–0.99) of 4 × one replica`."""
    between = "no interval"
    if efficiency.low is not None and efficiency.high is not None:
        between = f"{efficiency.low:.3g}–{efficiency.high:.3g}"
    return f"{efficiency.value:.3g} ({between}) of {count} × one replica"
