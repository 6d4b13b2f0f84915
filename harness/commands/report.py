"""`./run.sh report ROOT` shows the results of finished runs in words, as a table or a page. With
`--history` it shows the runs of each cell over time, and what changed when it became slower or
faster.
"""

from __future__ import annotations

import signal
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import terminal
from harness.commands.folders import groups_below
from harness.commands.pages import drawing, write, write_page
from harness.comparison import history
from harness.comparison.tables import Group
from harness.errors import UsageError
from harness.report import content, exports, sections
from harness.request.flags import Parser, add_common
from harness.sweep import journal


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    flags = _parser().parse_args(arguments)
    groups = groups_below(flags.root)
    if flags.history:
        _show_history(flags, groups)
        return 0
    report = content.gather(
        flags.root, terminal.near(str(flags.root.absolute())), journal.obstacles(flags.root)
    )
    parts = sections.of(report)
    if flags.html:
        page = drawing("--html", "page")
        html = page.render(report, parts, datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.markdown:
        text = exports.markdown(report, parts)
        write("--markdown", flags.markdown, text.encode(errors="backslashreplace"))
    if flags.json:
        terminal.document(exports.document(report, parts))
    else:
        _show(report, sections.sentences(parts), flags.quiet)
    return 0


def _show(report: content.Content, sentences: list[str], quiet: bool) -> None:
    """Print the report. `quiet`: only the answer."""
    unsupported = [f"unsupported: {why}" for why in report.obstacles]
    terminal.report(
        report.setting,
        report.headline,
        sentences,
        report.suts,
        () if quiet else exports.cells(report),
        () if quiet else [*unsupported, *report.advice],
    )


def _parser() -> Parser:
    parser = Parser(
        "report",
        description="What finished runs answer: in words, as a table or a page.",
        gone={
            "--csv": "--json has the rows, and the page of --html has them as CSV",
            "--figures": "the page of --html has the bars",
            "--parquet": "--json has the rows",
        },
    )
    parser.add_argument("root", metavar="ROOT", type=Path, help="a folder of run directories")
    parser.add_argument(
        "--history",
        action="store_true",
        help="when did a cell get slower or faster, and what else changed then?",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="one page that needs no network")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="the answer and the tables, as GitHub renders them; not of --history",
    )
    add_common(parser)
    return parser


def _show_history(flags: Any, groups: list[Group]) -> None:
    if flags.markdown:
        raise UsageError("--markdown: is not for --history: take --html or --json")
    trends = history.trends(groups)
    if not trends:
        raise UsageError(
            f"report --history {flags.root}: the folder has no cell that was measured twice"
        )
    if flags.html:
        page = drawing("--html", "page")
        html = page.render_trends(trends, str(flags.root), datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.json:
        cells = [_plain(trend) for trend in trends]
        terminal.document({"schema": "history-1", "cells": cells})
    else:
        terminal.history(trends)


def _plain(trend: history.Trend) -> dict[str, object]:
    changes = [
        {"at": c.at, "what": list(c.what), "verdict": c.verdict, "speed": asdict(c.ratio)}
        for c in trend.changes
    ]
    return {
        "sut": trend.sut,
        "work": trend.name,
        "unit": trend.unit,
        "figures": trend.figures,
        "started": [run.started for group in trend.stretches for run in group.runs],
        "sentence": trend.sentence,
        "changes": changes,
    }
