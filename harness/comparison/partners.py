"""Cells and the cells that they are compared with, which differ from them in one thing: the
switches of a tuned SUT, or the number of replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from formats.cell import Cell
from harness.comparison import tables
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group


def tuned(groups: Sequence[Group]) -> list[tuple[Group, Group, Ratio | None]]:
    """(a tuned group, the group of the same cell without switches, the gain) for each tuned group
    that has such a partner, measured under the same conditions.

    The gain is the speed of the first over that of the second. Its interval is wide enough for all
    sets of switches that were measured for the cell, because one of many may be fast by chance.
    None: one of the two has no figure.
    """
    found = _pairs(groups, _plain)
    sets = Counter(id(plain) for _, plain in found)
    return [(of, plain, _ratio(of, plain, 1 + sets[id(plain)])) for of, plain in found]


def replicated(groups: Iterable[Group]) -> list[tuple[Group, Group, Ratio | None]]:
    """(a group of N replicas, the group of one of N, the efficiency) for each that has such a
    partner, measured under the same conditions.

    The efficiency is the speed of the N replicas over N times the speed of one. None: one of the
    two has no figure.
    """
    return [(many, one, _efficiency(many, one)) for many, one in _pairs(groups, _one_of_them)]


def _plain(cell: Cell) -> Cell | None:
    return replace(cell.of_work, tuned=False, switches=()) if cell.tuned else None


def _one_of_them(cell: Cell) -> Cell | None:
    return replace(cell, replicas=f"1/{cell.replicas}") if cell.replica_count > 1 else None


def _efficiency(many: Group, one: Group) -> Ratio | None:
    ratio = _ratio(many, one)
    if ratio is None:
        return None
    count = many.cell.replica_count
    ends = (ratio.low, ratio.high)
    low, high = (None if end is None else end / count for end in ends)
    return replace(ratio, value=ratio.value / count, low=low, high=high)


def _pairs(
    groups: Iterable[Group], partner_of: Callable[[Cell], Cell | None]
) -> list[tuple[Group, Group]]:
    """(a group, the group of its partner) for each group that has one, measured under the same
    conditions.

    A group without a figure may lack its conditions. Then cell, machine and mode must be the same.

    Args:
        partner_of: a cell → the cell with which it is compared; None: it is compared with none.
    """
    every = list(groups)
    of_place = {_place(group, group.cell): group for group in every}
    measured = {_conditions(group, group.cell): group for group in every}
    found = []
    for group in every:
        cell = partner_of(group.cell)
        if cell is None:
            continue
        partner = measured.get(_conditions(group, cell))
        last = of_place.get(_place(group, cell))
        if partner is None and last and not (group.good and last.good):
            partner = last
        if partner and set(partner.last.nodes) <= set(group.last.nodes):
            found.append((group, partner))
    return found


def _place(group: Group, cell: Cell) -> tuple[Any, ...]:
    last = group.last
    # One of several replicas runs on the node of the first.
    return cell.digest, last.result.mode, last.loadgen_machine, last.nodes[:1]


def _conditions(group: Group, cell: Cell) -> tuple[Any, ...]:
    last = group.last
    versions = tuple(sorted(last.versions.items()))
    return *_place(group, cell), versions, last.source, last.planned_seconds


def _ratio(a: Group, b: Group, compared: int = 2) -> Ratio | None:
    """Return the speed of A over that of B. None if one has no figure."""
    if not a.good or not b.good or not tables.alike(a, b):
        return None
    return tables.ratio(a, b, compared)
