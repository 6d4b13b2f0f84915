"""A report as places in a table of text, and as JSON.

compliance/schemas/report.json describes the JSON document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from harness import terminal
from harness.comparison import compare, tables
from harness.report import answer
from harness.report.comparison import Comparison, Standing
from harness.report.content import Content
from harness.report.section import Section
from harness.terminal import Placed, Styled
from results.figure import short


def document(content: Content, sections: Sequence[Section]) -> dict[str, Any]:
    """Return the JSON document: the answer, the comparisons, and the rows."""
    data: dict[str, Any] = {}
    for section in sections:
        data |= section.data
    return {
        "schema": "report-2",
        "source": content.source,
        "preface": content.preface,
        "answer": content.headline,
        **data,
        "comparisons": [_comparison(comparison) for comparison in content.comparisons],
        "rows": [tables.row(group) for group in content.groups],
        "advice": content.advice,
        "left_out": {str(path): why for path, why in content.faults.items()},
    }


def show(content: Content, sentences: Sequence[str], obstacles: Sequence[str] = ()) -> None:
    """Print the answer, the sentences, a line for each SUT of each comparison, and the advice.

    Args:
        sentences: those of the sections.
        obstacles: why SUTs have no place in a comparison.
    """
    advice = [*(f"unsupported: {why}" for why in obstacles), *content.advice]
    terminal.report(content.setting, content.headline, sentences, cells(content), advice)


def cells(content: Content) -> Iterator[tuple[str, list[Placed]]]:
    """Yield (work, the SUTs with their figures) of each comparison, the fastest first."""
    for comparison in content.comparisons:
        direction = comparison.direction or "no figure"
        lora = ", other parameters each" if comparison.other_factors else ""
        suts = dict.fromkeys([*(group.sut for group in comparison.ordered), *content.suts])
        places = [(sut, parts) for sut in suts if (parts := _place(comparison, sut))]
        yield f"{comparison.name} ({direction}{lora})", places


def _place(comparison: Comparison, sut: str) -> list[Styled]:
    """The figure of a SUT and its remarks. Empty if it has no place in the comparison."""
    entry = comparison.entries.get(sut)
    if entry is None:
        return ["unsupported"] if comparison.obstacle(sut) else []
    figure = short(entry.figure)
    reason = entry.reason
    if reason:
        return [(figure, "strike dim"), f" {reason}"] if entry.struck else [reason]
    star = "★" if entry.best else ""
    unranked = "not ranked" if entry.unranked else ""
    texts = filter(None, (figure, star, ratio_words(comparison, entry), unranked))
    return [(" ".join(texts), "bold green" if entry.best else "")]


def ratio_words(comparison: Comparison, entry: Standing) -> str:
    """A SUT's ratio to the leader with the interval that decides: `(0.79 ×, 0.63–0.90)`. The range
    of the figure if there is no other SUT; empty if there is no ratio.
    """
    ratio = entry.relative
    if not comparison.ratios:
        return compare.between(entry.group)
    if comparison.inconclusive or ratio is None:
        return ""
    behind = f", {entry.behind} is faster" if entry.behind else ""
    return f"({ratio.words}, {ratio.between}{behind})"


def _comparison(comparison: Comparison) -> dict[str, Any]:
    shown = {} if comparison.inconclusive else comparison.ratios
    leader = None if comparison.inconclusive else next(iter(comparison.field), None)
    return {
        "work": comparison.full_name,
        "unit": comparison.unit,
        "higher_is_better": comparison.higher_is_better,
        "answer": answer.sentence(comparison),
        "ranked": bool(comparison.good) and not comparison.unranked,
        "inconclusive": comparison.inconclusive,
        "best_figure": leader and leader.sut,
        "speed_over_best_figure": {group.sut: asdict(ratio) for group, ratio in shown.items()},
        "leading": [sut for sut, entry in comparison.entries.items() if entry.best],
    }
