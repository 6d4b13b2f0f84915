"""Everything that the harness prints.

Messages and progress go to standard error. The result, or the one document of --json, goes to
standard output.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from compliance.findings.verdict import Audit
from formats.cell import cell_words
from formats.checks import Check, RequiredBy, Verdict, escape
from formats.result import Result, Status
from results import summary
from results.figure import with_facts
from scenarios.worker.heartbeat import Beat

if TYPE_CHECKING:  # they import scipy, which would slow `list` down
    from harness.comparison.compare import Comparison
    from harness.comparison.history import Trend
    from harness.samples.words import Words

_COLOURS = {
    Status.OK: "green",
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.MANUAL: "yellow",
    Verdict.NA: "dim",
}

_WIDE = 200  # columns, if the output is no terminal
_PAGE = 100  # columns of a report, if the output is no terminal
_WORK_COLUMN = 32  # columns of the names of a report's rows
_ORDER = (Verdict.PASS, Verdict.NA, Verdict.MANUAL, Verdict.FAIL)


class Terminal:
    """Progress of one command. Without a terminal each phase is a line, with no bar. `quiet`: only
    errors.
    """

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}{task.fields[of]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            auto_refresh=False,  # no thread may draw during a measurement; each heartbeat does
            disable=quiet or not self.console.is_terminal,
        )

    def say(self, text: str) -> None:
        """Print one message, unless quiet."""
        if not self.quiet:
            self.console.print(Text(text))

    def warn(self, text: str) -> None:
        """Print one message, even if quiet."""
        self.console.print(Text(text))

    def planned(self, test: str, plan: Mapping[str, Any]) -> None:
        """Print what the test will cost. Its calibration is known by then."""
        batches = summary.counted(plan["batches"], "batch")
        memory_mb = plan["memory_bytes"] / 1e6
        logs_mb = plan["log_bytes"] / 1e6
        self.say(
            f"{test}: {plan['samples']:,} samples, {batches}, in about"
            f" {duration(plan['seconds'])}, until {until(plan['seconds'])}; {memory_mb:.0f} MB"
            f" for LoadGen, {logs_mb:.0f} MB of logs"
        )

    def watch(self, what: str) -> Callable[[Beat], None]:
        """Return a function that draws the progress of a worker. It is called with each new
        heartbeat.
        """
        state: dict[str, Any] = {"phase": None, "task": None}

        def draw(beat: Beat) -> None:
            if beat.phase != state["phase"]:
                self._enter(state, what, beat)
            if state["task"] is not None:
                self.progress.update(state["task"], completed=beat.completed, refresh=True)

        return draw

    def _enter(self, state: dict[str, Any], what: str, beat: Beat) -> None:
        state["phase"] = beat.phase
        if self.progress.disable:
            self.say(f"{what}: {beat.phase}")
            return
        if state["task"] is not None:
            self.progress.remove_task(state["task"])
        task: TaskID = self.progress.add_task(
            f"{what}: {beat.phase}",
            total=beat.expected or None,
            of=f"/{beat.expected}" if beat.expected else "",
        )
        state["task"] = None if beat.phase == "done" else task
        if beat.phase == "done":
            self.progress.remove_task(task)


def document(value: Mapping[str, Any]) -> None:
    """Print the one JSON document of --json."""
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def error(text: str) -> None:
    """Print one sentence on standard error, in red."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        Text(f"error: {typed_here(text)}", style="red")
    )


def ask(question: str) -> None:
    """Print a question on standard error, without a line's end."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(question), end="")


def result_as_json(result: Result) -> dict[str, Any]:
    """A result as it is written to result.json."""
    return asdict(result)


def result(result: Result, hint: str = "", before: str | None = None) -> None:
    """Print a result: status, speed, accuracy, evidence, directory and the next command.

    Args:
        before: compares the result with the last run of the same cell.
        hint: the next command.
    """
    console = Console(highlight=False, soft_wrap=True)
    c = result.cell
    model = with_facts(f"{c.model} {c.size}", result.model_facts)
    cell = [c.sut, model, c.task, c.scenario, *cell_words(c)]
    console.print(Text("  ".join(cell), style="bold"))
    rows = list(summary.rows(result))
    if before:
        rows.append(("before", before))
    if hint:
        rows.append(("next", typed_here(hint)))
    for name, text in rows:
        style = ""
        if name == "status":
            style = _COLOURS.get(result.status, "red")
        elif name == "speed" and result.cause:
            style = "strike"
        elif name == "directory":
            text = near(text)
        console.print(Text.assemble((f"{name:<11}", "dim"), (text, style)))


def near(directory: str) -> str:
    """The path as the reader would type it. It is relative if it is below the current directory."""
    path = Path(directory)
    if not path.is_relative_to(Path.cwd()):
        return directory
    return str(path.relative_to(Path.cwd()))


def typed_here(text: str) -> str:
    """The text with `./run.sh` replaced by the path that the user typed, so that its commands can
    be pasted here.
    """
    return text.replace("./run.sh", shlex.quote(os.environ.get("HARNESS_RUN_SH", "./run.sh")))


def duration(seconds: float) -> str:
    """Seconds in words: `90 s`, `5 min` or `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def until(seconds: float) -> str:
    """The time of day that many seconds from now. Another day has its date."""
    then = time.localtime(time.time() + seconds)
    is_today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", then)


def line(text: str) -> None:
    """Print one line on standard output."""
    Console(highlight=False, soft_wrap=True).print(Text(text))


_REQUIRED_BY = {
    RequiredBy.CHECKER: "MLCommons' checker of this round refuses this",
    RequiredBy.RULES: "the rules' text requires this, and the checker does not look (--strict)",
    RequiredBy.LOGS: "the logs are not those of one unchanged run, or they contradict the tree",
    RequiredBy.AUDIT: "the audit cannot judge without this",
}


def checks(results: Iterable[Check], quiet: bool, *, required_by: bool = False) -> None:
    """Print one line for each finding, failures last, and then a line with the counts.

    `quiet`: only findings that fail or that a person has to judge. `required_by`: below each
    failure, who requires it.
    """
    console, place = Console(highlight=False, soft_wrap=True), ""
    by_verdict = sorted(results, key=lambda check: _ORDER.index(check.verdict))
    for check in by_verdict:
        if quiet and check.verdict not in (Verdict.FAIL, Verdict.MANUAL):
            continue
        if check.place != place:
            place = check.place
            console.print(Text(escape(place), style="bold"))
        console.print(Text(replace(check, place="").line(), style=_COLOURS[check.verdict]))
        if check.verdict is Verdict.FAIL and check.fix:
            console.print(Text(f"       {check.fix}"))
        if check.verdict is Verdict.FAIL and required_by:
            console.print(Text(f"       {_REQUIRED_BY[check.required_by]}"))
    verdicts = [check.verdict for check in by_verdict]
    counts = [f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict]
    console.print(Text(", ".join(counts), style="bold"))


def audited(audit: Audit, level: str, strict: bool, quiet: bool) -> None:
    """Print the findings, the claimed results, the round, and whether the level is reached."""
    checks(audit.checks_for(level), quiet, required_by=audit.checked)
    console = Console(highlight=False, soft_wrap=True)
    for result in audit.results if not quiet else ():
        console.print(Text(escape(result.sentence)))
        for sentence in result.explained:
            console.print(Text(f"    {escape(sentence)}"))
    if audit.round_chosen_by:
        console.print(Text(f"judged by {audit.round}, chosen {audit.round_chosen_by}"))
    console.print(Text(audit.sentence(level, strict), style="bold"))


def advice(check: Check) -> None:
    """Print the advice on a finding."""
    Console(highlight=False, soft_wrap=True).print(Text(f"{check.name}: {check.fix}"))


def table(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """A table on standard output, in which no word is broken.

    If it is too wide for the terminal, the last column is printed below each row.
    """
    console = Console(highlight=False, soft_wrap=True)
    rows = [list(row) for row in lines]
    width = console.width if sys.stdout.isatty() else _WIDE
    heads = [column.split("\n") for column in columns]
    widths = []
    for n, head in enumerate(heads):
        texts = [*head, *(row[n] for row in rows)]
        widths.append(max(map(len, texts)))
    narrow = sum(widths) + 2 * len(widths) > width
    shown = widths[:-1] if narrow else widths
    console.print(Text(title, style="bold"))
    for level in range(max(map(len, heads))):
        words = [head[level] if level < len(head) else "" for head in heads]
        console.print(Text(_joined(words, shown), style="dim"))
    if narrow and any(row[-1] for row in rows):
        console.print(Text(f"    {' '.join(heads[-1])}", style="dim"))
    for row in rows:
        console.print(Text(_joined(row, shown)))
        if narrow and row[-1]:
            words = textwrap.wrap(row[-1], max(width, 40) - 4, break_long_words=False)
            console.print(Text(textwrap.indent("\n".join(words), "    ")))
    console.print()


def _joined(words: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{word:<{width}}" for word, width in zip(words, widths, strict=False)]
    return "  ".join(padded).rstrip()


def comparisons(found: Iterable[Comparison], sides: tuple[str, str], quiet: bool) -> None:
    """Print each cell of two folders: the figures, the verdict, and other differences.

    `quiet`: only the verdicts.
    """
    console = Console(highlight=False, soft_wrap=True)
    for c in found:
        console.print(Text(c.name, style="bold"))
        for side, sut, figure in (("A", c.a, c.a_figure), ("B", c.b, c.b_figure)):
            if sut and not quiet:
                text = f"{sut}  {figure or 'no figure'}"
                console.print(Text.assemble((f"  {side}  ", "dim"), text))
        style = "bold" if c.ratio and c.ratio.different else ""
        if not c.comparable:
            style = "yellow"
        console.print(Text(f"  {c.verdict}", style=style))
        for flag in c.flags if not quiet else ():
            console.print(Text(f"  ! {flag}", style="yellow"))
    if not quiet:
        legend = (
            f"A is {sides[0]}, B is {sides[1]}; a ratio is the speed of B over that of A, with"
            " its 95 % interval"
        )
        console.print(Text(legend, style="dim"))


@dataclass(frozen=True)
class Place:
    """A SUT's place in a table of text: its figure, and what follows it.

    Attributes:
        best: whether it leads. `struck`: whether its figure is struck out.
        number: its place among the SUTs of the row, the fastest first.
    """

    figure: str = ""
    remark: str = ""
    best: bool = False
    struck: bool = False
    number: int = 0

    @property
    def plain(self) -> str:
        """The text without marks of Markdown."""
        star = " ★" if self.best else ""
        return f"{self.figure}{star} {self.remark}".strip()

    @property
    def markdown(self) -> str:
        """The text, with a struck-out figure between `~~`."""
        return f"~~{self.figure}~~ {self.remark}" if self.struck else self.plain


def report(
    preface: str,
    answer: str,
    sentences: Iterable[str],
    suts: list[str],
    cells: Iterable[tuple[str, list[Place]]],
    advice: Iterable[str],
) -> None:
    """Print the answer in words, then one table with a row for each work and a column for each SUT.

    If the table is too wide, each SUT has a line.

    Args:
        preface: one sentence on all cells.
        cells: (work, the place of each SUT) of each row.
    """
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(answer, style="bold"))
    console.print(Text(preface, style="dim"))
    for sentence in sentences:
        console.print(Text(f"- {sentence}"))
    rows = list(cells)
    width = console.width if sys.stdout.isatty() else _PAGE
    needed = _WORK_COLUMN
    for n, sut in enumerate(suts):
        column = [sut, *(places[n].plain for _, places in rows)]
        needed += 2 + max(map(len, column))
    if rows and needed <= width:
        _grid(suts, rows, width)
    else:  # the columns or the reasons are too wide
        _list(suts, rows)
    for sentence in advice:
        console.print(Text(f"! {sentence}", style="yellow"))


def _grid(suts: list[str], rows: list[tuple[str, list[Place]]], width: int) -> None:
    grid = Table(box=None, padding=(0, 2, 1, 0), header_style="dim")
    for n, column in enumerate(("work", *suts)):
        grid.add_column(column, overflow="fold", ratio=2 if n == 0 else 1)
    for work, places in rows:
        grid.add_row(Text(work), *map(_place, places))
    console = Console(highlight=False, width=width)
    console.print()
    console.print(grid)


def _list(suts: list[str], rows: list[tuple[str, list[Place]]]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    longest = max(map(len, suts), default=0)
    for work, places in rows:
        console.print(Text(f"\n{work}", style="bold"))
        by_place = zip(suts, places, strict=True)
        for sut, place in sorted(by_place, key=lambda pair: pair[1].number):
            if place.plain:
                console.print(Text.assemble(f"  {sut:<{longest}}  ", _place(place)))


def _place(place: Place) -> Text:
    """A figure of a report: bold if it is the best, struck out if it is invalid."""
    if place.struck:
        return Text.assemble((place.figure, "strike dim"), " ", place.remark)
    return Text(place.plain, style="bold green" if place.best else "")


def answers(samples: Iterable[Words]) -> None:
    """Print the prompts and answers of a model, and the first token that differs from the
    reference.
    """
    console = Console(highlight=False, soft_wrap=True)
    margin = 11 * " "
    for sample in samples:
        console.print(Text.assemble(("\nprompt     ", "dim"), escape(sample.prompt)))
        rest = escape(sample.answer[len(sample.shared) :])
        console.print(Text.assemble(("answer     ", "dim"), escape(sample.shared), (rest, "red")))
        if sample.differs_at is None:
            remark = f"all {sample.tokens} tokens are the reference's"
        else:
            console.print(Text.assemble(("reference  ", "dim"), escape(sample.reference)))
            remark = (
                f"differs from the reference from token {sample.differs_at} of {sample.tokens} on"
            )
        if sample.ended is not None:
            remark += "; it ended by itself" if sample.ended else "; it was cut off there"
        console.print(Text(f"{margin}{remark}", style="dim"))


def history(trends: Iterable[Trend]) -> None:
    """Print each cell over time: its summary, and each change with what differed then."""
    console = Console(highlight=False, soft_wrap=True)
    for trend in trends:
        console.print(Text(f"{trend.sut}  {trend.name}", style="bold"))
        console.print(Text(f"  {trend.sentence}"))
        for change in trend.changes:
            style = "yellow" if change.ratio.different else "dim"
            console.print(Text(f"  {change.at[:16]}  {change.verdict}", style=style))
            for what in change.what:
                console.print(Text(f"                    {what}", style="dim"))
