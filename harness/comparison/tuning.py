"""Tuned cells and the same cells without switches → how much the switches give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from formats.cell import Cell
from formats.tuning import Gain
from harness.comparison import tables
from harness.comparison.runs import kind_words
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group


def pairs(groups: Iterable[Group]) -> list[tuple[Group, Group]]:
    """(a tuned group, the group of the same cell without switches) for each tuned group that has
    such a partner, measured under the same conditions.

    A group without a figure may lack its conditions. Then cell, machine and mode must be the same.
    """
    every = list(groups)
    plain = [group for group in every if not group.cell.tuned]
    of_place = {_place(group): group for group in plain}
    measured = {_conditions(group): group for group in plain}
    found = []
    for group in every:
        if not group.cell.tuned:
            continue
        partner = measured.get(_conditions(group))
        last = of_place.get(_place(group))
        if partner is None and last and not (group.good and last.good):
            partner = last
        if partner:
            found.append((group, partner))
    return found


def sets(found: Iterable[tuple[Group, Group]]) -> Counter[int]:
    """Return id of a group without switches → the number of sets of switches that were measured
    for it. One of many may be fast by chance.

    `found`: as `pairs` returns them.
    """
    return Counter(id(plain) for tuned, plain in found if tuned.cell.switches)


def _place(group: Group) -> tuple[Any, ...]:
    return _without_switches(group.cell), group.last.result.mode, group.last.machine


def _conditions(group: Group) -> tuple[Any, ...]:
    last = group.last
    versions = tuple(sorted(last.versions.items()))
    return *_place(group), versions, last.source, last.planned_seconds


def _without_switches(cell: Cell) -> str:
    """Return the digest of the same cell without switches."""
    return replace(cell.of_work, tuned=False, switches=()).digest


def ratio(tuned: Group, plain: Group, compared: int = 2) -> Ratio | None:
    """Return the speed of the tuned cell over that of the other. None if one has no figure.

    `compared`: see `tables.ratio`.
    """
    if not tuned.good or not plain.good or not tables.alike(tuned, plain):
        return None
    return tables.ratio(tuned, plain, compared)


def gains(groups: Sequence[Group]) -> list[Gain]:
    """Return the gain of each cell with switches that has a partner."""
    found = pairs(groups)
    tried = sets(found)
    measured = [pair for pair in found if pair[0].cell.switches]
    return [_gain(tuned, plain, 1 + tried[id(plain)]) for tuned, plain in measured]


def _gain(tuned: Group, plain: Group, compared: int) -> Gain:
    """`compared`: the number of cells from which the fastest is chosen."""
    cell = tuned.cell
    record = tuned.last.record
    metric = tuned.metric or plain.metric
    result = tuned.last.result
    accuracy = result.accuracy or {}
    reason = result.reason
    times = None
    if not tuned.good or not plain.good:
        reason = reason or plain.last.obstacle
    elif tuned.unranked or plain.unranked:
        reason = "; ".join(tuned.unranked or plain.unranked)
    else:
        times = ratio(tuned, plain, compared)
    return Gain(
        sut=cell.sut,
        architecture=record.architecture if record else "",
        model=cell.model,
        size=cell.size,
        task=cell.task,
        scenario=cell.scenario,
        precision=cell.precision,
        batch_size=cell.of_work.batch_size,
        seq_len=cell.seq_len,
        prompt_tokens=cell.prompt_tokens,
        new_tokens=cell.new_tokens,
        rate=cell.rate,
        device=cell.device,
        cell=_without_switches(cell),
        mode=result.mode,
        switches=cell.switches,
        unit=metric.unit if metric else "",
        figure=tuned.summary.median if tuned.summary else None,
        plain_figure=plain.summary.median if plain.summary else None,
        ratio=times.value if times else None,
        low=times.low if times else None,
        high=times.high if times else None,
        different=times is not None and times.different,
        repeats=min(times.repeats) if times else 0,
        accuracy=accuracy.get("value"),
        accuracy_limit=accuracy.get("threshold"),
        status=str(result.status),
        reason=reason,
        machine=kind_words(record.machine) if record else "",
        versions=tuned.last.versions,
    )
