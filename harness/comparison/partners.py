"""Cells and the cells that they are compared with, which differ from them in one thing: the
switches of a tuned SUT, or the number of replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from formats.cell import Cell
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group, alike, ratio


def tuned(groups: Sequence[Group]) -> list[tuple[Group, Group, Ratio | None]]:
    """(a tuned group, the group of the same cell without switches, the gain) for each tuned group
    that has such a partner, measured under the same conditions.

    The gain is the speed of the first over that of the second. Its interval is wide enough for all
    sets of switches that were measured for the cell, because one of many may be fast by chance.
    None: one of the two has no figure.
    """
    cells = {}
    for group in groups:
        if group.cell.tuned:
            cells[group] = replace(group.cell.of_work, tuned=False, switches=())
    found = _pairs(groups, cells)
    sets = Counter(plain for _, plain in found)
    return [(of, plain, _ratio(of, plain, 1 + sets[plain])) for of, plain in found]


def replicated(groups: Sequence[Group]) -> list[tuple[Group, Group, Ratio | None]]:
    """(a group of N replicas, the group of one of N, the efficiency) for each that has such a
    partner, measured under the same conditions.

    The efficiency is the speed of the N replicas over N times the speed of one. None: one of the
    two has no figure.
    """
    cells = {}
    for group in groups:
        if group.cell.replica_count > 1:
            cells[group] = replace(group.cell, replicas=f"1/{group.cell.replicas}")
    found = []
    for many, one in _pairs(groups, cells):
        speed = _ratio(many, one)
        if speed:
            count = many.cell.replica_count
            low, high = (end and end / count for end in (speed.low, speed.high))
            speed = replace(speed, value=speed.value / count, low=low, high=high)
        found.append((many, one, speed))
    return found


def _pairs(groups: Sequence[Group], cells: dict[Group, Cell]) -> list[tuple[Group, Group]]:
    """(a group, the group of its partner) for each group that has one, measured under the same
    conditions.

    A group without a figure may lack its conditions. Then cell, machine and mode must be the same.

    Args:
        cells: a group → the cell with which it is compared.
    """
    of_place = {_conditions(group, group.cell)[0]: group for group in groups}
    measured = {_conditions(group, group.cell): group for group in groups}
    found = []
    for group, cell in cells.items():
        conditions = _conditions(group, cell)
        partner = measured.get(conditions)
        last = of_place.get(conditions[0])
        if partner is None and last and not (group.good and last.good):
            partner = last
        if partner and set(partner.last.nodes) <= set(group.last.nodes):
            found.append((group, partner))
    return found


def _conditions(group: Group, cell: Cell) -> tuple[Any, ...]:
    """The conditions of a group, with another cell. The first ones are known without a figure."""
    last = group.last
    # One of several replicas runs on the node of the first.
    place = (cell.digest, group.mode, last.loadgen_machine, last.nodes[:1])
    versions = tuple(sorted(last.versions.items()))
    return place, versions, last.source, last.planned_seconds


def _ratio(a: Group, b: Group, compared: int = 2) -> Ratio | None:
    """Return the speed of A over that of B. None if one has no figure."""
    return ratio(a, b, compared) if a.good and b.good and alike(a, b) else None
