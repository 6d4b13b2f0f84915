"""A section of a report as a value. `sections/` has functions that create sections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.comparison.statistics import Ratio

Cell = str | tuple[str, str]
"""A text of a table, or a text and its remark, such as a ratio and its interval."""

Row = Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of texts, in groups.

    Attributes:
        columns: names of the columns.
        numbers: which of them contain numbers, counted from 0.
        groups: a group's title → its rows. The title is often the work that the rows share.
        title: title of the table; empty if the section has no other table.
        note: a remark for the reader; empty if there is none.
        most: how many rows the page shows.
        sorts: whether a click on a heading sorts the rows of the page.
        below: whether the page shows remarks below their texts.
        on_page, in_markdown: whether the table is shown there.
    """

    columns: Sequence[str]
    numbers: Collection[int] = ()
    groups: Mapping[str, Sequence[Row]]
    title: str = ""
    note: str = ""
    most: int = 60
    sorts: bool = False
    below: bool = False
    on_page: bool = True
    in_markdown: bool = True

    @property
    def count(self) -> int:
        """The number of its rows."""
        return sum(map(len, self.groups.values()))

    @property
    def first(self) -> dict[str, Sequence[Row]]:
        """The groups with the rows that the page shows."""
        shown: dict[str, Sequence[Row]] = {}
        left = self.most
        for title, rows in self.groups.items():
            if left > 0:
                shown[title] = rows[:left]
            left -= len(rows)
        return shown


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One drawing.

    Attributes:
        caption: the line above the drawing.
        draw: (`name=` the beginning of the ids in the SVG) → the <svg> element; empty if there is
            nothing to draw.
    """

    caption: str
    draw: Callable[..., str]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A ratio as a bar.

    Attributes:
        label: the compared work.
        sut: the SUT whose speed is compared with another's; the bar has its colour.
        mark: the same ratio from elsewhere; None: not known.
    """

    label: str
    sut: str
    ratio: Ratio
    mark: float | None


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The drawings of a section.

    Attributes:
        shown: the drawings on the page.
        more: how many drawings are left out.
    """

    shown: Sequence[Picture] = ()
    more: int = 0


def _none() -> Pictures:
    return Pictures()


@dataclass(frozen=True, kw_only=True)
class Section:
    """The part of a report about one question.

    Attributes:
        title: its heading on the page.
        note: a paragraph below the heading; empty if there is none.
        sentences: sentences for the answer of the report, in every format.
        tables: a table without rows is not shown.
        pictures: returns its drawings. Only the page calls it, because it imports matplotlib and
            some drawings read the logs of the runs.
        data: key of the JSON document → value.
    """

    title: str = ""
    note: str = ""
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Callable[[], Pictures] = _none
    data: Mapping[str, Any] = field(default_factory=dict)


def ratio_cell(ratio: Ratio, remark: str = "") -> Cell:
    """Return a ratio as a cell of a table: `1.47 ×` and `(1.43–1.52)`, followed by `remark`."""
    times, between = ratio.words
    return times, f"({between}){remark}"


def grouped(rows: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    """Return the groups of rows, in the order of their first rows. `rows`: (title of its group,
    row) of each.
    """
    groups: dict[str, list[Row]] = {}
    for title, row in rows:
        groups.setdefault(title, []).append(row)
    return groups
