"""Sections on the memory and the compile time of SUTs, and on when compiling pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Row, Section, Table, grouped


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
        "memory on the accelerator, at most": _least(rows, "peak_device_bytes", 1e-9, "GB"),
        "memory of the worker, at most": _least(rows, "peak_host_bytes", 1e-9, "GB"),
        "compiling takes": _least(rows, "compile_seconds", 1.0, "s"),
        "with the compiled programs from the cache": _least(
            rows, "cached_compile_seconds", 1.0, "s"
        ),
    }
    return [f"{what}: {', '.join(each)}" for what, each in texts.items() if len(each) > 1]


def _least(rows: list[dict[str, Any]], column: str, factor: float, unit: str) -> list[str]:
    known = sorted((row for row in rows if row[column]), key=itemgetter(column))
    return [f"{row['sut']} {factor * row[column]:.1f} {unit}" for row in known]


_NOTE = (
    "Compile time is that of the first calls of all shapes, less the second calls, when no compiled"
    " program was kept on disk. It pays once the saved time makes up for it."
)


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
        note=_NOTE,
        tables=[table],
    )


def paybacks(content: Content) -> list[Payback]:
    """Return a payback for each compiled SUT, compared with the fastest eager one."""
    return [each for comparison in content.conclusive for each in _paybacks(comparison)]


def _paybacks(comparison: Comparison) -> Iterator[Payback]:
    rows = [tables.row(group) for group in comparison.good]
    timed = [row for row in rows if row["ms_per_step"]]
    eager = [row for row in timed if row["execution"] == "eager"]
    if not eager:
        return
    base = min(eager, key=itemgetter("ms_per_step"))
    for row in timed:
        seconds = row["compile_seconds"]
        if not seconds:
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
    after = f"not here: {each.eager} is as fast"
    if each.calls is not None:
        calls = max(1, math.ceil(each.calls))
        after = f"{calls:,} batch{'' if calls == 1 else 'es'} instead of {each.eager}"
    return each.sut, f"{each.compile_seconds:.1f} s", after
