"""A section on what several replicas give, compared with as many times one replica."""

from __future__ import annotations

from harness.comparison import compare, partners, replicas
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Row, Section, Table, grouped, ratio_cell


def section(content: Content) -> Section:
    """A row and a sentence for each cell of several replicas."""
    rows: list[tuple[str, Row]] = []
    sentences = []
    pairs = sorted(replicas.pairs(content.current), key=lambda pair: pair[0].cell.replica_count)
    for many, one in pairs:
        work = compare.describe(one, ("replicas", *content.shared))
        efficiency = replicas.efficiency(many, one)
        count = many.cell.replica_count
        found = ratio_cell(efficiency) if efficiency else partners.obstacle(many, one)
        rows.append((work, (many.sut, str(count), compare.mean(one), compare.mean(many), found)))
        if efficiency:
            words = replicas.words(efficiency, count)
            sentences.append(f"{many.sut}, {work}: efficiency {words}")
    table = Table(
        columns=("SUT", "replicas", "one of them", "all", "efficiency"),
        numbers=(1, 2, 3, 4),
        groups=grouped(rows),
    )
    return Section(
        title="Replicas",
        note=(
            "Several replicas of a SUT run at the same time, each on its own accelerator or"
            " cores. The efficiency is their speed over as many times that of one of them, which"
            " ran by itself at one of these places, repeat by repeat (docs/scale.md)."
        ),
        sentences=sentences[:MOST_SENTENCES],
        tables=[table],
    )
