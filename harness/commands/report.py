"""`./run.sh report ROOT` shows the results of finished runs in words, as a table or a page."""

from __future__ import annotations

import signal
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from harness import terminal
from harness.commands.folders import found_below
from harness.commands.pages import drawing, write_page
from harness.report import content, exports, sections
from harness.request.flags import Parser, add_common
from harness.sweep import journal


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    flags = _parser().parse_args(arguments)
    results, faults = found_below(flags.root)
    report = replace(
        content.of_results(results, terminal.near(str(flags.root.absolute()))),
        faults=faults,
        not_measured=journal.obstacles(flags.root),
    )
    parts = sections.of(report)
    document = exports.document(report, parts) if flags.html or flags.json else {}
    if flags.html:
        page = drawing("--html", "page")
        html = page.render(report, parts, document, datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.json:
        terminal.document(document)
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
            "--history": "compare A B compares the runs before and after a change",
            "--markdown": "the page of --html has the tables",
            "--parquet": "--json has the rows",
        },
    )
    parser.add_argument("root", metavar="ROOT", type=Path, help="a folder of run directories")
    parser.add_argument("--html", type=Path, metavar="FILE", help="one page that needs no network")
    add_common(parser)
    return parser
