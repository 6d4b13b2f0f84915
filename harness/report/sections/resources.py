"""Sections on the memory and the compile time of SUTs, and on when compiling pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.messages import Finding, SectionNote
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Row, Section, Table, grouped
from harness.summary import counted


def section(content: Content) -> Section:
    """The memory and the compile time of a single comparison, in sentences."""
    if len(content.with_rivals) != 1:
        return Section()
    return Section(sentences=_sentences(content.with_rivals[0]))


def _sentences(comparison: Comparison) -> list[str]:
    """Return a sentence on the memory of each device and one on compiling, the least first.

    There is no sentence for a figure that fewer than two SUTs have.
    """
    rows = [tables.row(group) for group in comparison.good]
    texts = {
        Finding.DEVICE_MEMORY: _least(rows, "peak_device_bytes", 1e-9, "GB"),
        Finding.HOST_MEMORY: _least(rows, "peak_host_bytes", 1e-9, "GB"),
        Finding.COMPILING: _least(rows, "compile_seconds", 1.0, "s"),
        Finding.FROM_CACHE: _least(rows, "cached_compile_seconds", 1.0, "s"),
    }
    return [f"{finding}: {', '.join(each)}" for finding, each in texts.items() if len(each) > 1]


def _least(rows: list[dict[str, Any]], column: str, factor: float, unit: str) -> list[str]:
    known = sorted((row for row in rows if row[column]), key=itemgetter(column))
    return [f"{row['sut']} {factor * row[column]:.1f} {unit}" for row in known]


@dataclass(frozen=True, kw_only=True)
class Payback:
    """The number of calls after which compiling pays.

    Attributes:
        compile_seconds: the time in which all shapes were compiled.
        calls: calls of a batch after which a compiled and an eager SUT have taken equally long;
            None: the compiled SUT is not faster.
    """

    work: str
    sut: str
    eager: str
    compile_seconds: float
    calls: float | None


def payback(content: Content) -> Section:
    """When compiling pays, in a table of the page."""
    rows = [(each.work, _row(each)) for each in paybacks(content)]
    table = Table(
        columns=("compiled", "compile time", "pays after"),
        numbers=(1,),
        groups=grouped(rows),
        in_markdown=False,
    )
    return Section(
        title="When compiling pays",
        note=SectionNote.PAYBACK,
        tables=[table],
    )


def paybacks(content: Content) -> list[Payback]:
    """Return a payback for each compiled SUT that is shown to differ from the fastest eager one."""
    return [each for comparison in content.conclusive for each in _paybacks(comparison)]


def _paybacks(comparison: Comparison) -> Iterator[Payback]:
    groups = {group.sut: group for group in comparison.good}
    rows = [tables.row(group) for group in comparison.good]
    timed = [row for row in rows if row["ms_per_step"]]
    eager = [row for row in timed if row["execution"] == "eager"]
    if not eager:
        return
    base = min(eager, key=itemgetter("ms_per_step"))
    for row in timed:
        seconds = row["compile_seconds"]
        if not seconds or not comparison.ratio(groups[row["sut"]], groups[base["sut"]]).different:
            continue
        saved_ms = base["ms_per_step"] - row["ms_per_step"]
        yield Payback(
            work=comparison.name,
            sut=row["sut"],
            eager=base["sut"],
            compile_seconds=seconds,
            calls=1e3 * seconds / saved_ms if saved_ms > 0 else None,
        )


def _row(each: Payback) -> Row:
    compiling = f"{each.compile_seconds:.1f} s"
    if each.calls is None:
        return each.sut, compiling, Finding.PAYS_NOT.format(eager=each.eager)
    batches = counted(max(1, math.ceil(each.calls)), "batch")
    return each.sut, compiling, Finding.PAYS_AFTER.format(batches=batches, eager=each.eager)
