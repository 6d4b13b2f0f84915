"""Everything that the harness prints.

Messages and progress go to standard error. The result, or the one document of --json, goes to
standard output.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from formats.cell import title_words
from formats.checks import Check, RequiredBy, Verdict, escape
from scenarios.worker.heartbeat import Beat

if TYPE_CHECKING:  # they would slow `list` down
    from rich.progress import Progress, TaskID

    from compliance.findings.verdict import Audit
    from formats.result import Result
    from harness.comparison.compare import Pair
    from harness.comparison.history import Trend
    from harness.samples.words import Words

_COLOURS = {
    "ok": "green",
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.MANUAL: "yellow",
    Verdict.NA: "dim",
}

Styled = str | tuple[str, str]
"""A text, or a text and its style in rich's words."""
Placed = tuple[str, list[Styled]]
"""A SUT, and its figure with remarks."""
_WIDE = 200  # columns, if the output is no terminal
_ORDER = (Verdict.PASS, Verdict.NA, Verdict.MANUAL, Verdict.FAIL)


class Terminal:
    """Progress of one command. Without a terminal each phase is a line, with no bar. `quiet`: only
    errors.
    """

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self._bars = None if quiet or not sys.stderr.isatty() else _bars()

    @property
    def progress(self) -> AbstractContextManager[object]:
        """The context in which progress is drawn."""
        return self._bars or nullcontext()

    @property
    def draws(self) -> bool:
        """Whether it draws bars."""
        return self._bars is not None

    def say(self, text: str) -> None:
        """Print one message, unless quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print one message, even if quiet."""
        if self._bars:  # above the bar
            self._bars.console.print(
                text, markup=False, emoji=False, highlight=False, soft_wrap=True
            )
        else:
            write(text, stream=sys.stderr)

    def planned(self, test: str, plan: Mapping[str, Any]) -> None:
        """Print what the test will cost. Its calibration is known by then."""
        from results import summary

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
        phase = ""
        task: TaskID | None = None

        def draw(beat: Beat) -> None:
            nonlocal phase, task
            if beat.phase != phase:
                phase = beat.phase
                task = self._enter(task, f"{what}: {phase}", beat)
            if self._bars and task is not None:
                self._bars.update(task, completed=beat.completed, refresh=True)

        return draw

    def _enter(self, task: TaskID | None, label: str, beat: Beat) -> TaskID | None:
        """Begin a phase in place of `task`. Return its task; None: it has none."""
        if not self._bars:
            self.say(label)
            return None
        if task is not None:
            self._bars.remove_task(task)
        if beat.phase == "done":
            return None
        expected = beat.expected
        of = f"/{expected}" if expected else ""
        return self._bars.add_task(label, total=expected or None, of=of)


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}{task.fields[of]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # no thread may draw during a measurement; each heartbeat does
    )


def write(*parts: Styled, style: str = "", stream: TextIO | None = None, end: str = "\n") -> None:
    """Print texts on one line. Styles are shown only on a terminal.

    Args:
        style: rich's words for the style of the parts that have none.
        stream: standard output by default.
    """
    stream = stream or sys.stdout
    texts = [part if isinstance(part, tuple) else (part, style) for part in parts]
    if stream.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(file=stream, soft_wrap=True).print(Text.assemble(*texts), end=end)
    else:
        stream.write("".join(text for text, _ in texts) + end)
    stream.flush()


def document(value: Mapping[str, Any]) -> None:
    """Print the one JSON document of --json."""
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def error(text: str) -> None:
    """Print one sentence on standard error, in red."""
    write(f"error: {typed_here(text)}", style="red", stream=sys.stderr)


def ask(question: str) -> None:
    """Print a question on standard error, without a line's end."""
    write(question, stream=sys.stderr, end="")


def result_as_json(result: Result) -> dict[str, Any]:
    """A result as it is written to result.json."""
    return asdict(result)


def result(result: Result, hint: str = "", before: str | None = None) -> None:
    """Print a result: status, speed, accuracy, evidence, directory and the next command.

    Args:
        before: compares the result with the last run of the same cell.
        hint: the next command.
    """
    from results import summary

    words = [result.cell.sut, *title_words(result.cell, result.model_facts)]
    write("  ".join(words), style="bold")
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
        write((f"{name:<11}", "dim"), (text, style))


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
    write(text)


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
    place = ""
    by_verdict = sorted(results, key=lambda check: _ORDER.index(check.verdict))
    for check in by_verdict:
        if quiet and check.verdict not in (Verdict.FAIL, Verdict.MANUAL):
            continue
        if check.place != place:
            place = check.place
            write(escape(place), style="bold")
        write(replace(check, place="").line(), style=_COLOURS[check.verdict])
        if check.verdict is Verdict.FAIL and check.fix:
            write(f"       {check.fix}")
        if check.verdict is Verdict.FAIL and required_by:
            write(f"       {_REQUIRED_BY[check.required_by]}")
    verdicts = [check.verdict for check in by_verdict]
    counts = [f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict]
    write(", ".join(counts), style="bold")


def audited(audit: Audit, level: str, strict: bool, quiet: bool) -> None:
    """Print the findings, the claimed results, the round, and whether the level is reached."""
    checks(audit.checks_for(level), quiet, required_by=audit.checked)
    for result in audit.results if not quiet else ():
        write(escape(result.sentence))
        for sentence in result.explained:
            write(f"    {escape(sentence)}")
    if audit.round_chosen_by:
        write(f"judged by {audit.round}, chosen {audit.round_chosen_by}")
    write(audit.sentence(level, strict), style="bold")


def advice(check: Check) -> None:
    """Print the advice on a finding."""
    write(f"{check.name}: {check.fix}")


def table(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """A table on standard output, in which no word is broken.

    If it is too wide for the terminal, the last column is printed below each row.
    """
    rows = [list(row) for row in lines]
    heads = list(zip_longest(*(column.split("\n") for column in columns), fillvalue=""))
    widths = [max(map(len, texts)) for texts in zip(*heads, *rows, strict=True)]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    narrow = sum(widths) + 2 * len(widths) > width
    if narrow:
        widths.pop()
    write(title, style="bold")
    for head in heads:
        write(_joined(head, widths), style="dim")
    if narrow and any(row[-1] for row in rows):
        write(f"    {' '.join(columns[-1].split())}", style="dim")
    for row in rows:
        write(_joined(row, widths))
        if narrow and row[-1]:
            words = textwrap.wrap(row[-1], max(width, 40) - 4, break_long_words=False)
            write(textwrap.indent("\n".join(words), "    "))
    write()


def _joined(words: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{word:<{width}}" for word, width in zip(words, widths, strict=False)]
    return "  ".join(padded).rstrip()


def comparisons(found: Iterable[Pair], a: str, b: str, quiet: bool) -> None:
    """Print each cell of two folders: the figures, the verdict, and other differences.

    `quiet`: only the verdicts.
    """
    for c in found:
        write(c.name, style="bold")
        for side, sut, figure in (("A", c.a, c.a_figure), ("B", c.b, c.b_figure)):
            if sut and not quiet:
                write((f"  {side}  ", "dim"), f"{sut}  {figure or 'no figure'}")
        style = "bold" if c.ratio and c.ratio.different else ""
        write(f"  {c.verdict}", style=style if c.comparable else "yellow")
        for flag in c.flags if not quiet else ():
            write(f"  ! {flag}", style="yellow")
    if not quiet:
        legend = (
            f"A is {a}, B is {b}; a ratio is the speed of B over that of A, with its 95 % interval"
        )
        write(legend, style="dim")


def report(
    preface: str,
    answer: str,
    sentences: Iterable[str],
    cells: Iterable[tuple[str, list[Placed]]],
    advice: Iterable[str],
) -> None:
    """Print the answer in words, then a line for each SUT of each work, the fastest first.

    Args:
        preface: one sentence on all cells.
        cells: (work, its SUTs).
    """
    write(answer, style="bold")
    write(preface, style="dim")
    for sentence in sentences:
        write(f"- {sentence}")
    rows = list(cells)
    longest = max((len(sut) for _, places in rows for sut, _ in places), default=0)
    for work, places in rows:
        write(f"\n{work}", style="bold")
        for sut, parts in places:
            write(f"  {sut:<{longest}}  ", *parts)
    for sentence in advice:
        write(f"! {sentence}", style="yellow")


def answers(samples: Iterable[Words]) -> None:
    """Print the prompts and answers of a model, and the first token that differs from the
    reference.
    """
    margin = 11 * " "
    for sample in samples:
        write(("\nprompt     ", "dim"), escape(sample.prompt))
        rest = escape(sample.answer[len(sample.shared) :])
        write(("answer     ", "dim"), escape(sample.shared), (rest, "red"))
        if sample.differs_at is None:
            remark = f"all {sample.tokens} tokens are the reference's"
        else:
            write(("reference  ", "dim"), escape(sample.reference))
            remark = (
                f"differs from the reference from token {sample.differs_at} of {sample.tokens} on"
            )
        if sample.ended is not None:
            remark += "; it ended by itself" if sample.ended else "; it was cut off there"
        write(f"{margin}{remark}", style="dim")


def history(trends: Iterable[Trend]) -> None:
    """Print each cell over time: its summary, and each change with what differed then."""
    for trend in trends:
        write(f"{trend.sut}  {trend.work}", style="bold")
        write(f"  {trend.sentence}")
        for change in trend.changes:
            style = "yellow" if change.speed.different else "dim"
            write(f"  {change.at[:16]}  {change.verdict}", style=style)
            for what in change.what:
                write(f"                    {what}", style="dim")
