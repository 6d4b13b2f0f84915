"""`./run.sh history ROOT` shows the runs of each cell over time, and what changed when it became
slower or faster.
"""

from __future__ import annotations

import signal
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from harness import terminal
from harness.commands.folders import groups_below
from harness.commands.pages import drawing, write_page
from harness.comparison import history
from harness.errors import UsageError
from harness.request.flags import Parser, add_common


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = Parser(
        prog="./run.sh history",
        description="When did a cell get slower or faster, and what else changed then?",
        allow_abbrev=False,
    )
    parser.add_argument("root", metavar="ROOT", type=Path, help="a folder of run directories")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="a page with a plot for each cell"
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    trends = history.trends(groups_below(flags.root))
    if not trends:
        raise UsageError(f"history {flags.root}: the folder has no cell that was measured twice")
    if flags.html:
        page = drawing("--html", "page")
        html = page.render_trends(trends, str(flags.root), datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.json:
        cells = [_plain(trend) for trend in trends]
        terminal.document({"schema": "history-1", "cells": cells})
    else:
        terminal.history(trends)
    return 0


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
