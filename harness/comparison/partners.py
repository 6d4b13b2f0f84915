"""Cells and the cells that they are compared with, which differ from them in one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from formats.cell import Cell
from harness.comparison import tables
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group


def pairs(
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


def ratio(a: Group, b: Group, compared: int = 2) -> Ratio | None:
    """Return the speed of A over that of B. None if one has no figure.

    `compared`: see `tables.ratio`.
    """
    if not a.good or not b.good or not tables.alike(a, b):
        return None
    return tables.ratio(a, b, compared)


def obstacle(a: Group, b: Group) -> str:
    """Return why `ratio` returns None."""
    for group in (a, b):
        if not group.good:
            return group.last.obstacle
    return "their figures are not the same statistic"
