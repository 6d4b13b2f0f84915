"""A section on how much nodes of one kind differ. They are never pooled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from harness.comparison.runs import kind_words
from harness.report.content import Content
from harness.report.section import Section
from sut.registry import framework_of


def section(content: Content) -> Section:
    """The nodes of each kind, and how much their large matrix products differ. Empty without two
    nodes of one kind.
    """
    sentences = list(_sentences(content))
    return Section(sentences=sentences, data={"nodes": sentences})


def _sentences(content: Content) -> Iterator[str]:
    nodes: dict[str, set[str]] = defaultdict(set)
    # What was measured, and the kind of its machine → node → figures. Every SUT measures a large
    # product, so nodes can be compared although they measured other models.
    products: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for group in [*content.groups, *content.controls]:
        cell = group.cell
        record = group.last.record
        if record is None or record.machine.node is None or not group.good:
            continue
        kind = kind_words(record.machine)
        node = record.machine.node
        nodes[kind].add(node)
        replicas = f" (replicas {cell.replicas})" if cell.replicas else ""
        place = f"{framework_of(cell.sut)} in {cell.precision} on {cell.device}{replicas}"
        for run in group.good:
            rate = run.result.seen and run.result.seen.matrix_flops
            if framework_of(cell.sut) and rate:
                products.setdefault((place, kind), {}).setdefault(node, []).append(rate)
    for of_kind in nodes.values():
        if len(of_kind) > 1:
            yield (
                f"{len(of_kind)} nodes of one kind were measured: {', '.join(sorted(of_kind))};"
                " figures of two nodes are never pooled"
            )
    for (place, _), figures in sorted(products.items()):
        ordered = sorted((median(rates), node) for node, rates in figures.items())
        (low, slowest), (high, fastest) = ordered[0], ordered[-1]
        if slowest != fastest:
            yield (
                f"large matrix products of {place} reach {low / 1e9:,.0f} to {high / 1e9:,.0f}"
                f" GFLOP/s on {len(figures)} nodes of one kind: {fastest} reaches"
                f" {high / low - 1:.1%} more than {slowest}"
            )
