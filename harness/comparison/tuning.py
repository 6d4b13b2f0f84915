"""Tuned cells and the same cells without switches → how much the switches give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from formats.tuning import Gain
from harness.comparison import tables
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group


def pairs(groups: Iterable[Group]) -> list[tuple[Group, Group]]:
    """(a tuned group, the group of the same cell without switches) for each tuned group that has
    such a partner on its machine and in its mode.
    """
    every = list(groups)
    plain = {_key(group): group for group in every if not group.cell.tuned}
    return [(g, plain[_key(g)]) for g in every if g.cell.tuned and _key(g) in plain]


def _key(group: Group) -> tuple[Any, ...]:
    cell = replace(group.cell, tuned=False, switches=())
    return cell.digest, group.last.result.mode, group.last.machine


def ratio(tuned: Group, plain: Group) -> Ratio | None:
    """Return the speed of the tuned cell over that of the other. None if one has no figure."""
    if not tuned.good or not plain.good or not tables.alike(tuned, plain):
        return None
    return tables.ratio(tuned, plain)


def gains(groups: Sequence[Group]) -> list[Gain]:
    """Return the gain of each tuned cell that has a partner."""
    return [_gain(tuned, plain) for tuned, plain in pairs(groups)]


def _gain(tuned: Group, plain: Group) -> Gain:
    cell = tuned.cell
    record = tuned.last.record
    metric = tuned.metric or plain.metric
    result = tuned.last.result
    accuracy = result.accuracy or {}
    times = ratio(tuned, plain)
    return Gain(
        sut=cell.sut,
        architecture=record.architecture if record else "",
        model=cell.model,
        size=cell.size,
        task=cell.task,
        scenario=cell.scenario,
        precision=cell.precision,
        batch_size=cell.batch_size,
        device=cell.device,
        switches=cell.switches,
        unit=metric.unit if metric else "",
        figure=tuned.summary.median if tuned.summary else None,
        plain_figure=plain.summary.median if plain.summary else None,
        ratio=times.value if times else None,
        low=times.low if times else None,
        high=times.high if times else None,
        repeats=min(times.repeats) if times else 0,
        accuracy=accuracy.get("value"),
        accuracy_limit=accuracy.get("threshold"),
        status=str(result.status),
        reason=result.reason,
        machine=tuned.last.machine,
        versions=tuned.last.versions,
    )
