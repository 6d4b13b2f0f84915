"""A section on what the switches of tuned cells give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from formats.cell import Cell
from harness.comparison import compare, partners
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Row, Section, Table, grouped, ratio_cell


def pairs(groups: Sequence[Group]) -> list[tuple[Group, Group, Ratio | None]]:
    """(a tuned group, the group of the same cell without switches, the gain) for each tuned group
    that has such a partner, measured under the same conditions.

    The gain is the speed of the first over that of the second. Its interval is wide enough for all
    sets of switches that were measured for the cell, because one of many may be fast by chance.
    None: one of the two has no figure.
    """
    found = partners.pairs(groups, _plain)
    sets = Counter(id(plain) for _, plain in found)
    return [
        (tuned, plain, partners.ratio(tuned, plain, 1 + sets[id(plain)])) for tuned, plain in found
    ]


def _plain(cell: Cell) -> Cell | None:
    """Return the same cell without switches. None for a cell that has none."""
    return replace(cell.of_work, tuned=False, switches=()) if cell.tuned else None


def section(content: Content) -> Section:
    """A row for each tuned cell, and a sentence for each work with the largest gain of each SUT."""
    rows: list[tuple[str, Row]] = []
    best: dict[str, dict[str, tuple[Ratio, str]]] = {}
    found = pairs(content.current)
    found.sort(key=lambda each: (each[0].cell.sut, -each[2].value if each[2] else 0.0))
    for tuned, plain, gain in found:
        work = compare.describe(plain, content.shared)
        rows.append((work, _row(tuned, plain, gain)))
        if gain is None or tuned.unranked or plain.unranked:
            continue
        of_work = best.setdefault(work, {})
        other = of_work.get(tuned.cell.sut)
        if other is None or gain.value > other[0].value:
            of_work[tuned.cell.sut] = (gain, _names(tuned))
    sentences = []
    for work, of_work in best.items():
        each = [f"{sut} {gain.times()} ({names})" for sut, (gain, names) in of_work.items()]
        sentences.append(
            f"tuned, compared with the same SUT as it comes, {work}: {', '.join(each)}"
        )
    table = Table(
        columns=("SUT", "switches", "as it comes", "tuned", "gain", "accuracy, limit"),
        numbers=(2, 3, 4),
        groups=grouped(rows),
    )
    return Section(
        title="Tuned",
        note=(
            "A tuned cell has switches that its framework documents and does not use by default"
            " (docs/tuning.md). The gain is its speed over that of the same cell without them,"
            " repeat by repeat. The more sets of switches were measured for a cell, the larger a"
            " gain has to be to be shown, because one of them may be fast by chance."
        ),
        sentences=sentences[:MOST_SENTENCES],
        tables=[table],
    )


def _names(tuned: Group) -> str:
    return " + ".join(tuned.cell.switches)


def _row(tuned: Group, plain: Group, gain: Ratio | None) -> Row:
    accuracy = tuned.last.result.accuracy
    judged = f"{accuracy.value:.3g}, {accuracy.threshold:.3g}" if accuracy else ""
    figures = (compare.mean(plain), compare.mean(tuned))
    return (tuned.cell.sut, _names(tuned), *figures, _times(tuned, plain, gain), judged)


def _times(tuned: Group, plain: Group, gain: Ratio | None) -> str | tuple[str, str]:
    """The gain with its interval, or why there is none."""
    if gain is None:
        return partners.obstacle(tuned, plain)
    return ratio_cell(gain, ", not ranked" if tuned.unranked or plain.unranked else "")
