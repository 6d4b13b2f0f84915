"""A report as Markdown, CSV and JSON.

compliance/schemas/report.json describes the JSON document.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from harness.comparison import tables
from harness.report import answer
from harness.report.comparison import Comparison, Standing, range_of
from harness.report.content import Content
from harness.report.section import Cell, Section, Table
from harness.terminal import Place
from results.figure import short


def rows(content: Content) -> list[dict[str, Any]]:
    """Return one row a cell, with the columns of `harness.comparison.tables.COLUMNS`."""
    return [tables.row(group) for group in content.groups]


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
        "rows": rows(content),
        "advice": content.advice,
        "left_out": {str(path): why for path, why in content.faults.items()},
    }


def table_csv(content: Content) -> str:
    """Return the rows as CSV with a header. Lists and tables within a row are JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(tables.COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in rows(content):
        writer.writerow({name: _flat(value) for name, value in row.items()})
    return text.getvalue()


def markdown(content: Content, sections: Sequence[Section]) -> str:
    """Return the answer in words and the tables, in GitHub's Markdown."""
    return "\n".join(_markdown(content, sections)) + "\n"


def cells(content: Content) -> Iterator[tuple[str, list[Place]]]:
    """Yield (work, the place of each SUT) of each comparison."""
    for comparison in content.comparisons:
        direction = "no figure"
        if comparison.unit:
            better = "more" if comparison.higher_is_better else "less"
            direction = f"{comparison.unit}, {better} is better"
        lora = ", other parameters each" if comparison.other_factors else ""
        order = [group.sut for group in comparison.ordered]
        order += [sut for sut in content.suts if sut not in order]
        places = [replace(_place(comparison, sut), number=order.index(sut)) for sut in content.suts]
        yield f"{comparison.name} ({direction}{lora})", places


def _markdown(content: Content, sections: Sequence[Section]) -> Iterator[str]:
    yield f"**{content.headline}**"
    yield ""
    yield content.setting
    yield ""
    for section in sections:
        yield from (f"- {sentence}" for sentence in section.sentences)
    yield ""
    texts = [(work, *(place.markdown for place in places)) for work, places in cells(content)]
    yield from _rows(("work", *content.suts), texts)
    yield ""
    for section in sections:
        for table in section.tables:
            if table.in_markdown and table.count:
                yield from _table(table)
    for sentence in content.obstacles:
        yield f"- unsupported: {sentence}"
    yield from (f"- {sentence}" for sentence in content.advice)


def _table(table: Table) -> Iterator[str]:
    """Yield the lines of a table. Its first column has the titles of its groups."""
    if table.note:
        yield table.note
        yield ""
    texts = []
    for title, group in table.groups.items():
        texts += [(title, *map(_text, row)) for row in group]
    yield from _rows(("work", *table.columns), texts)
    yield ""


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        escaped = [text.replace("|", "\\|") for text in row]
        yield f"| {' | '.join(escaped)} |"


def _place(comparison: Comparison, sut: str) -> Place:
    entry = comparison.entries.get(sut)
    if entry is None:
        return Place(remark="unsupported" if comparison.obstacle(sut) else "")
    if entry.reason:
        return Place(short(entry.figure), entry.reason, struck=entry.struck)
    remarks = [ratio_words(comparison, entry)]
    if entry.unranked:
        remarks.append("not ranked")
    return Place(short(entry.figure), " ".join(filter(None, remarks)), best=entry.best)


def ratio_words(comparison: Comparison, entry: Standing) -> str:
    """A SUT's ratio to the leader with the interval that decides: `(0.79 ×, 0.63–0.90)`. The range
    of the figure if there is no other SUT; empty if there is no ratio.
    """
    if not comparison.ratios:
        between = range_of(entry.low, entry.high)
        return f"({between})" if between else ""
    if comparison.inconclusive or entry.relative is None:
        return ""
    words = [*entry.relative.words]
    if entry.behind:
        words.append(f"{entry.behind} is faster")
    return f"({', '.join(words)})"


def _comparison(comparison: Comparison) -> dict[str, Any]:
    ratios, best = {}, None
    if not comparison.inconclusive:
        ratios = {sut: asdict(ratio) for sut, ratio in comparison.ratios.items()}
        best = comparison.field[0].sut if comparison.good else None
    return {
        "work": comparison.full_name,
        "unit": comparison.unit,
        "higher_is_better": comparison.higher_is_better,
        "answer": answer.sentence(comparison),
        "ranked": bool(comparison.good) and not comparison.unranked,
        "inconclusive": comparison.inconclusive,
        "best_figure": best,
        "speed_over_best_figure": ratios,
        "leading": [sut for sut, entry in comparison.entries.items() if entry.best],
    }


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
