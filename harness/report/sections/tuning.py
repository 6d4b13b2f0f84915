"""A section on what the switches of tuned cells give."""

from __future__ import annotations

from formats.cell import NOTHING
from harness.comparison import compare, partners, tuning
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Row, Section, Table, grouped, ratio_cell


def section(content: Content) -> Section:
    """A row for each tuned cell, and a sentence for each work with the largest gain of each SUT."""
    rows: list[tuple[str, Row]] = []
    best: dict[str, dict[str, tuple[Ratio, str]]] = {}
    found = tuning.pairs(content.current)
    tried = tuning.sets(found)
    for tuned, plain in found:
        work = compare.describe(plain, content.shared)
        sets = tried[id(plain)]
        ratio = partners.ratio(tuned, plain, 1 + max(1, sets))
        rows.append((work, _row(tuned, plain, ratio, sets)))
        if ratio is None or tuned.unranked:
            continue
        of_work = best.setdefault(work, {})
        other = of_work.get(tuned.cell.sut)
        if other is None or ratio.value > other[0].value:
            of_work[tuned.cell.sut] = (ratio, _names(tuned))
    sentences = []
    for work, of_work in best.items():
        each = [f"{sut} {ratio.times()} ({names})" for sut, (ratio, names) in of_work.items()]
        sentences.append(
            f"tuned, compared with the same SUT as it comes, {work}: {', '.join(each)}"
        )
    table = Table(
        columns=("SUT", "switches", "as it comes", "tuned", "gain", "sets", "accuracy, limit"),
        numbers=(2, 3, 4, 5),
        groups=grouped(rows),
    )
    return Section(
        title="Tuned",
        note=(
            "A tuned cell has switches that its framework documents and does not use by default"
            " (docs/tuning.md). The gain is its speed over that of the same cell without them,"
            " repeat by repeat. The column `sets` has the number of sets of switches that were"
            " measured for the cell: the more there are, the larger a gain has to be to be shown,"
            " because one of them may be fast by chance."
        ),
        sentences=sentences[:MOST_SENTENCES],
        tables=[table],
    )


def _names(tuned: Group) -> str:
    return " + ".join(tuned.cell.switches) or NOTHING


def _row(tuned: Group, plain: Group, ratio: Ratio | None, sets: int) -> Row:
    accuracy = tuned.last.result.accuracy
    judged = f"{accuracy['value']:.3g}, {accuracy['threshold']:.3g}" if accuracy else ""
    gain = ratio_cell(ratio) if ratio else tuned.last.obstacle
    texts = (tuned.cell.sut, _names(tuned), compare.mean(plain), compare.mean(tuned))
    return (*texts, gain, f"{sets}" if sets else "", judged)
