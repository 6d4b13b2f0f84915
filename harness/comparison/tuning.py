"""Tuned cells and the same cells without switches → how much the switches give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from formats.cell import Cell
from formats.record import Record
from formats.tuning import Gain
from harness.comparison import partners
from harness.comparison.runs import kind_words
from harness.comparison.tables import Group


def pairs(groups: Iterable[Group]) -> list[tuple[Group, Group]]:
    """(a tuned group, the group of the same cell without switches) for each tuned group that has
    such a partner, measured under the same conditions.
    """
    return partners.pairs(groups, lambda cell: _plain(cell) if cell.tuned else None)


def sets(found: Iterable[tuple[Group, Group]]) -> Counter[int]:
    """Return id of a group without switches → the number of sets of switches that were measured
    for it. One of many may be fast by chance.

    `found`: as `pairs` returns them.
    """
    return Counter(id(plain) for tuned, plain in found if tuned.cell.switches)


def _plain(cell: Cell) -> Cell:
    """Return the same cell without switches."""
    return replace(cell.of_work, tuned=False, switches=())


def gains(groups: Sequence[Group]) -> list[Gain]:
    """Return the gain of each cell with switches that has a partner."""
    found = pairs(groups)
    tried = sets(found)
    measured = [pair for pair in found if pair[0].cell.switches]
    return [_gain(tuned, plain, 1 + tried[id(plain)]) for tuned, plain in measured]


def _machine(record: Record) -> str:
    """The machine in words, with as many threads as the cell had."""
    threads = record.cell.threads or record.machine.usable_threads
    return kind_words(replace(record.machine, usable_threads=threads))


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
        times = partners.ratio(tuned, plain, compared)
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
        cell=_plain(cell).digest,
        mode=result.mode,
        switches=cell.switches,
        unit=metric.unit if metric else "",
        figure=tuned.summary.mean if tuned.summary else None,
        plain_figure=plain.summary.mean if plain.summary else None,
        ratio=times.value if times else None,
        low=times.low if times else None,
        high=times.high if times else None,
        different=times is not None and times.different,
        repeats=min(times.repeats) if times else 0,
        accuracy=accuracy.get("value"),
        accuracy_limit=accuracy.get("threshold"),
        status=str(result.status),
        reason=reason,
        machine=_machine(record) if record else "",
        versions=tuned.last.versions,
    )
