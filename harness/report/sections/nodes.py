"""A section on how much nodes of one kind differ. They are never pooled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from harness.comparison.runs import Run, kind_words
from harness.comparison.tables import Group
from harness.report.content import Content
from harness.report.section import Section
from results.figure import short
from sut.registry import framework_of

_OfNodes = dict[str, list[float]]
"""Name of a node → figures that were measured there."""


def section(content: Content) -> Section:
    """The nodes of each kind, and how much their large matrix products differ, and the figures of
    cells that were measured on several. Empty without two nodes of one kind.
    """
    groups = [*content.groups, *content.controls]
    sentences = [*_kinds(groups), *_products(groups), *_cells(content.groups)]
    return Section(sentences=sentences, data={"nodes": sentences})


def _place(run: Run) -> tuple[str, str] | None:
    """(kind of the machine, name of the node). None: the run was not measured by a job."""
    if run.record is None or run.record.machine.node is None:
        return None
    machine = run.record.machine
    return kind_words(machine), str(machine.node)


def _kinds(groups: Iterable[Group]) -> Iterator[str]:
    kinds: dict[str, dict[str, None]] = {}
    for group in groups:
        for run in group.good:
            place = _place(run)
            if place:
                kinds.setdefault(place[0], {})[place[1]] = None
    for nodes in kinds.values():
        if len(nodes) > 1:
            yield (
                f"{len(nodes)} nodes of one kind were measured: {', '.join(sorted(nodes))};"
                " figures of two nodes are never pooled"
            )


def _products(groups: Iterable[Group]) -> Iterator[str]:
    """A sentence for each framework, precision, device, `--replicas` and kind of node. Every SUT
    measures such a product, so nodes can be compared although they measured other models.
    """
    found: dict[tuple[str, ...], _OfNodes] = {}
    for group in groups:
        framework = framework_of(group.cell.sut)
        for run in group.good:
            place = _place(run)
            rate = run.result.seen.matrix_flops if run.result.seen else None
            if framework and place and rate:
                cell = group.cell
                replicas = f" (replicas {cell.replicas})" if cell.replicas else ""
                key = (framework, cell.precision, cell.device, replicas, place[0])
                found.setdefault(key, {}).setdefault(place[1], []).append(rate)
    for (framework, precision, device, replicas, _), of_nodes in sorted(found.items()):
        if len(of_nodes) < 2:
            continue
        (low, slowest), *_, (high, fastest) = _ordered(of_nodes)
        yield (
            f"large matrix products of {framework} in {precision} on {device}{replicas} reach"
            f" {low / 1e9:,.0f} to {high / 1e9:,.0f} GFLOP/s on {len(of_nodes)} nodes of one"
            f" kind: {fastest} reaches {high / low - 1:.1%} more than {slowest}"
        )


def _cells(groups: Iterable[Group]) -> Iterator[str]:
    """A sentence for each cell that was measured on several nodes of one kind."""
    found: dict[tuple[str, str, str], _OfNodes] = {}
    names: dict[tuple[str, str, str], Group] = {}
    for group in groups:
        place = _place(group.last)
        if place and group.summary:
            key = (group.cell.digest, group.last.result.mode, place[0])
            found.setdefault(key, {}).setdefault(place[1], []).append(group.summary.mean)
            names[key] = group
    for key, of_nodes in found.items():
        if len(of_nodes) < 2:
            continue
        (low, _), *_, (high, _) = _ordered(of_nodes)
        cell = names[key].cell
        metric = names[key].metric
        unit = metric.unit if metric else ""
        yield (
            f"{names[key].sut} {cell.model} {cell.size} {cell.scenario} was measured on"
            f" {len(of_nodes)} nodes of one kind: {short(low)} to {short(high)} {unit}, the"
            f" largest is {high / low - 1:.1%} above the smallest"
        )


def _ordered(of_nodes: _OfNodes) -> list[tuple[float, str]]:
    """(median, name of the node), the smallest median first."""
    return sorted((median(figures), node) for node, figures in of_nodes.items())
