"""`./run.sh report ROOT` shows the results of finished runs in words, as a table or a page. With
`--history` it shows the runs of each cell over time, and what changed when it became slower or
faster.
"""

from __future__ import annotations

import signal
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import terminal
from harness.commands.folders import found_below
from harness.commands.pages import drawing, write_page
from harness.comparison import history, tables
from harness.comparison.tables import Group
from harness.errors import UsageError
from harness.report import content, exports, sections
from harness.request.flags import Parser, add_common
from harness.sweep import journal


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    flags = _parser().parse_args(arguments)
    root = flags.root
    results, faults = found_below(root)
    if flags.history:
        _show_history(flags, tables.grouped(results))
        return 0
    report = replace(
        content.of_results(results, terminal.near(str(root.absolute()))),
        faults=faults,
        not_measured=journal.obstacles(root),
    )
    parts = sections.of(report)
    if flags.html:
        page = drawing("--html")
        html = page.render(report, parts, datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.json:
        terminal.document(exports.document(report, parts))
    else:
        sentences = sections.sentences(parts)
        if flags.quiet:  # only the answer
            terminal.report(report.setting, report.headline, sentences, (), ())
        else:
            exports.show(report, sentences, report.obstacles)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "report",
        description="What finished runs answer: in words, as a table or a page.",
        gone={
            "--csv": "--json has the rows",
            "--figures": "the page of --html has the bars",
            "--markdown": "the page of --html has the tables",
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
    add_common(parser)
    return parser


def _show_history(flags: Any, groups: list[Group]) -> None:
    if flags.html:
        raise UsageError("--html: is not for --history: take --json")
    trends = history.trends(groups)
    if not trends:
        raise UsageError(
            f"report --history {flags.root}: the folder has no cell that was measured twice"
        )
    if flags.json:
        cells = [asdict(trend) for trend in trends]
        terminal.document({"schema": "history-1", "cells": cells})
    else:
        terminal.history(trends)
