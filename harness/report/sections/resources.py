"""Sections on the memory and the start of SUTs, and on when compiling pays."""

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
from results.figure import calls_until_paid
from results.summary import counted
from sut.registry import framework_of


def section(content: Content) -> Section:
    """The memory and the start of a single comparison, in sentences."""
    if len(content.with_rivals) != 1:
        return Section()
    return Section(sentences=_sentences(content.with_rivals[0]))


def _sentences(comparison: Comparison) -> list[str]:
    """Return a sentence on the memory of each device and one on the start, the least first.

    There is no sentence for a figure that fewer than two SUTs have.
    """
    rows = [tables.row(group) for group in comparison.good]
    texts = {
        "memory on the accelerator, at most": _least(rows, "peak_device_bytes", 1e-9, "GB"),
        "memory of the worker, at most": _least(rows, "peak_host_bytes", 1e-9, "GB"),
        "the first answer comes after": _least(rows, "first_answer_seconds", 1.0, "s"),
        "the first answer with compiled programs from the cache comes after": _least(
            rows, "cached_first_answer_seconds", 1.0, "s"
        ),
        "compiling takes": _least(rows, "compile_seconds", 1.0, "s"),
        "with the compiled programs from the cache": _least(
            rows, "cached_compile_seconds", 1.0, "s"
        ),
    }
    return [f"{finding}: {', '.join(each)}" for finding, each in texts.items() if len(each) > 1]


def _least(rows: list[dict[str, Any]], column: str, factor: float, unit: str) -> list[str]:
    known = sorted((row for row in rows if row[column]), key=itemgetter(column))
    return [f"{row['sut']} {factor * row[column]:.1f} {unit}" for row in known]


@dataclass(frozen=True, kw_only=True)
class Compiling:
    """The cost of compiling, with an empty or with a filled cache of programs.

    Attributes:
        first_answer_seconds: the time until the first answer; None: a training.
        compile_seconds: the time in which all shapes were compiled, or found; None: not measured.
        calls: calls of a batch after which a compiled and an eager SUT have taken equally long;
            None: the compiled SUT is not faster, or the time is not known.
    """

    first_answer_seconds: float | None
    compile_seconds: float | None
    calls: float | None


@dataclass(frozen=True, kw_only=True)
class Payback:
    """The number of calls after which compiling pays.

    Attributes:
        is_faster: whether a batch takes the compiled SUT less time than the eager one.
    """

    work: str
    sut: str
    eager: str
    is_faster: bool
    cold: Compiling
    warm: Compiling


def payback(content: Content) -> Section:
    """When compiling pays, in a table of the page."""
    rows = [(each.work, _row(each)) for each in paybacks(content)]
    table = Table(
        columns=(
            "compiled",
            "first answer, cold",
            "first answer, warm",
            "compiling, cold",
            "compiling, warm",
            "pays after, cold",
            "pays after, warm",
            "compared with",
        ),
        numbers=range(1, 5),
        groups=grouped(rows),
        in_markdown=False,
    )
    return Section(
        title="When compiling pays",
        note=(
            "Cold: no compiled program was on disk. Warm: some were. The first answer includes"
            " the import of the framework and the loading of the model. Compile time is the time"
            " of the first calls of all shapes minus that of the second calls. Compiling pays as"
            " soon as the saved time is longer. The eager SUT is that of the same framework, if"
            " there is one. Runs of both kinds are needed for both columns: the first run of a"
            " cell is cold, and `./run.sh profile --starts` measures both."
        ),
        tables=[table],
    )


def paybacks(content: Content) -> list[Payback]:
    """Return a payback for each compiled SUT that is shown to differ from the fastest eager one of
    its framework, or of all if its framework has none.
    """
    return [each for comparison in content.conclusive for each in _paybacks(comparison)]


def _paybacks(comparison: Comparison) -> Iterator[Payback]:
    groups = {group.sut: group for group in comparison.good}
    rows = [(group, tables.row(group)) for group in comparison.good]
    timed = [(group, row) for group, row in rows if row["ms_per_step"]]
    eager = [(group, row) for group, row in timed if row["execution"] == "eager"]
    if not eager:
        return
    for group, row in timed:
        if not row["compile_seconds"] and not row["cached_compile_seconds"]:
            continue
        framework = framework_of(group.cell.sut)
        same = [each for one, each in eager if framework_of(one.cell.sut) == framework]
        candidates = same or [each for _, each in eager]
        base = min(candidates, key=itemgetter("ms_per_step"))
        if not comparison.ratio(groups[row["sut"]], groups[base["sut"]]).different:
            continue
        saved_ms = base["ms_per_step"] - row["ms_per_step"]
        yield Payback(
            work=comparison.name,
            sut=row["sut"],
            eager=base["sut"],
            is_faster=saved_ms > 0,
            cold=_compiling(row, "", saved_ms),
            warm=_compiling(row, "cached_", saved_ms),
        )


def _compiling(row: dict[str, Any], state: str, saved_ms: float) -> Compiling:
    """`state`: the beginning of the columns' names."""
    seconds = row[f"{state}compile_seconds"]
    return Compiling(
        first_answer_seconds=row[f"{state}first_answer_seconds"],
        compile_seconds=seconds,
        calls=calls_until_paid(seconds, saved_ms / 1e3),
    )


def _row(each: Payback) -> Row:
    states = (each.cold, each.warm)
    answers = [_seconds(state.first_answer_seconds) for state in states]
    compiling = [_seconds(state.compile_seconds) for state in states]
    pays = [_batches(state) for state in states]
    other = each.eager
    if not each.is_faster:
        other = f"not here: {each.eager} is as fast"
    return each.sut, *answers, *compiling, *pays, other


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"


def _batches(of: Compiling) -> str:
    return "" if of.calls is None else counted(math.ceil(of.calls), "batch")
