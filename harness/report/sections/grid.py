"""A section with mean ratios over the models of a grid of models, batches and lengths.

Any sweep may measure such a grid; the recipe `hf-2019` is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.comparison.pooled import mean_ratio
from harness.comparison.tables import Group, place_of
from harness.inputs import models
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Cell, Row, Section, Table, grouped, ratio_cell
from sut.registry import SUTS

_PLAIN = ("eager", "graph")
"""The executions that compile least."""

Times = dict[Any, float]
"""Repeat → milliseconds of a batch. A repeat has the name of its turn in a sweep, or of its folder.
"""

Pairs = Sequence[tuple[Times, Times]]
"""The times of two SUTs, or of two models, in cells that are otherwise equal."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Cells that differ only in SUT, model, batch and length.

    Attributes:
        work: the settings that the cells share, in words.
        cells: (model, batch, tokens of an input) → SUT → the times of its repeats.
    """

    work: str
    cells: Mapping[tuple[str, int, int], Mapping[str, Times]]

    @property
    def models(self) -> set[str]:
        """The models of the grid."""
        return {model for model, _, _ in self.cells}

    @property
    def suts(self) -> list[str]:
        """The SUTs that have a cell, in the order of the registry."""
        found = {sut for times in self.cells.values() for sut in times}
        return sorted(found, key=lambda sut: place_of(sut.partition(" ")[0]))


def section(content: Content) -> Section:
    """The tables of each grid of a report."""
    tables = []
    for grid in grids(content):
        tables += [*_speeds(grid), *_distilled(grid)]
    return Section(
        title="Means over models",
        note=(
            "In brackets the 95 % interval, and after it over how many cells. Few models take"
            " long inputs, so along a row the models change, too."
        ),
        tables=tables,
    )


def grids(content: Content) -> list[Grid]:
    """Return the Offline grids of two models or more, on synthetic inputs of one length."""
    cells: dict[str, dict[tuple[str, int, int], dict[str, Times]]] = {}
    comparisons = [comparison for comparison in content.conclusive if _belongs(comparison)]
    for comparison in sorted(comparisons, key=_order):  # the newest of several weights stays
        first = comparison.groups[0]
        cell = first.cell
        words = [f"size {cell.size}", cell.precision, cell.device]
        words += [f"{name}={value}" for name, value in sorted(cell.variables.items())]
        words += [first.last.result.mode, content.machine_labels.get(first.last.machine, "")]
        times = {group.sut: _times(group) for group in comparison.good}
        measured = {sut: of_one for sut, of_one in times.items() if of_one}
        of_work = cells.setdefault(", ".join(filter(None, words)), {})
        of_work[cell.model, cell.batch_size, cell.seq_len or 0] = measured
    found = [Grid(work=work, cells=of_work) for work, of_work in cells.items()]
    return [grid for grid in found if len(grid.models) > 1]


def _belongs(comparison: Comparison) -> bool:
    cell = comparison.groups[0].cell
    is_standard = cell.dataset == "synthetic" and cell.size != "user"
    is_plain = not cell.quantized and not cell.replicas
    return cell.scenario == "Offline" and bool(cell.seq_len) and is_standard and is_plain


def _order(comparison: Comparison) -> tuple[int, float, str]:
    return max(group.order for group in comparison.groups)


def _times(group: Group) -> Times:
    times = {}
    for run in group.good:
        ms = run.result.metrics.get("ms_per_step")
        if ms:
            times[run.turn or run.result.directory] = ms
    return times


def _speeds(grid: Grid) -> Iterator[Table]:
    """Yield a table of each SUT's speed over its library's plain SUT: a row a batch, a column a
    length.
    """
    for sut in grid.suts:
        base = _plain(sut, grid.suts)
        pairs: dict[tuple[int, int], list[tuple[Times, Times]]] = {}
        for (_, batch, length), times in grid.cells.items():
            if base and sut in times and base in times:
                pairs.setdefault((batch, length), []).append((times[sut], times[base]))
        lengths = sorted({length for _, length in pairs})
        rows: list[tuple[str, Row]] = []
        for batch in sorted({batch for batch, _ in pairs}):
            cells = [_mean(pairs.get((batch, length), [])) for length in lengths]
            rows.append(("", (str(batch), *cells)))
        yield Table(
            title=f"Speed of {sut} over {base}, mean over models, {grid.work}",
            columns=("batch", *(f"{length} tokens" for length in lengths)),
            numbers=range(1, 1 + len(lengths)),
            groups=grouped(rows),
            below=True,
            in_markdown=False,
        )


def _plain(sut: str, suts: Sequence[str]) -> str | None:
    """Return the SUT of the same library that compiles least. None if there is none, or if it is
    `sut`.
    """
    spec = SUTS.get(sut)
    if spec is None or spec.execution in _PLAIN:
        return None
    library = (spec.module, spec.environment)
    for other in suts:
        base = SUTS.get(other)
        if base and (base.module, base.environment) == library and base.execution in _PLAIN:
            return other
    return None


def _distilled(grid: Grid) -> Iterator[Table]:
    """Yield a table with the speed of distilled models over full ones, on each SUT."""
    rows: list[tuple[str, Row]] = []
    for small in sorted(grid.models.intersection(models.names())):
        full = models.load(small).distilled_from
        if full is None:
            continue
        for sut in grid.suts:
            pairs = []
            for (model, batch, length), times in grid.cells.items():
                of_full = grid.cells.get((full, batch, length), {})
                if model == small and sut in times and sut in of_full:
                    pairs.append((times[sut], of_full[sut]))
            if pairs:
                rows.append(("", (f"{small} over {full}", sut, _mean(pairs))))
    yield Table(
        title=f"Speed of distilled models over full ones, {grid.work}",
        columns=("models", "SUT", "speed"),
        numbers=(2,),
        groups=grouped(rows),
        in_markdown=False,
    )


def _mean(pairs: Pairs) -> Cell:
    """Return the geometric mean of the ratios, and their number. Empty if there are none."""
    if not pairs:
        return ""
    return ratio_cell(mean_ratio(pairs, higher_is_better=False), f", {len(pairs)}")
