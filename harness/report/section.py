"""A section of a report as a value. `sections/` has functions that create sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.comparison.statistics import Ratio
from harness.report.comparison import Comparison

Cell = str | tuple[str, str]
"""A text of a table, or a text and its remark, such as a ratio and its interval."""

Row = Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of texts, in groups.

    Attributes:
        columns: names of the columns.
        texts: how many of the first columns contain words. The others contain numbers.
        groups: a group's title → its rows. The title is often the work that the rows share.
        title: title of the table; empty if the section has no other table.
    """

    columns: Sequence[str]
    texts: int = 1
    groups: Mapping[str, Sequence[Row]]
    title: str = ""

    @property
    def sorts(self) -> bool:
        """Whether a click on a heading sorts the rows of the page: they are one group."""
        return len(self.groups) == 1


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A drawing with a line a SUT.

    Attributes:
        work: the work in words.
        about: what is drawn of it.
        series: SUT → (x, y) of its points.
        x, y: names of the axes, which begin at zero.
        limit: the y of a dashed line; None: there is none. Points far above it are cut off.
        ticks: what x = 0, 1, … mean; empty: x is a number.
        ranges: (SUT, x, low, high) of each interval.
        steps: the x of each dashed line across.
    """

    work: str
    about: str
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    x: str
    y: str
    limit: float | None = None
    ticks: Sequence[str] = ()
    ranges: list[tuple[str, float, float, float]] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The line above the drawing."""
        return f"{self.work}: {self.about}"

    def add(self, sut: str, point: tuple[float, float]) -> None:
        """Add a point of a SUT."""
        self.series.setdefault(sut, []).append(point)


Picture = Comparison | Lines
"""The figures of a comparison are drawn as bars."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """The part of a report about one question.

    Attributes:
        title: its heading on the page.
        note: a paragraph below the heading; empty if there is none.
        sentences: sentences for the answer of the report.
        tables: a table without rows is not shown.
        pictures: its drawings. Only the page draws them.
        data: key of the JSON document → value.
    """

    title: str = ""
    note: str = ""
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def ratio_cell(ratio: Ratio) -> Cell:
    """Return a ratio as a cell of a table: `1.47 ×` and `(1.43–1.52)`."""
    return ratio.words, f"({ratio.between})"
