"""`./run.sh report ROOT` shows the results of finished runs in words, as a table, a page or
a file.
"""

from __future__ import annotations

import json
import re
import signal
from datetime import datetime
from pathlib import Path

from harness import terminal
from harness.commands.folders import groups_below
from harness.commands.pages import drawing, write, write_page
from harness.errors import EnvironmentFailure, UsageError
from harness.report import content, exports, sections
from harness.request.flags import Parser, add_cache
from harness.sweep import journal


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    flags = _parser().parse_args(arguments)
    groups_below(flags.root)
    report = content.gather(
        flags.root, terminal.near(str(flags.root.absolute())), journal.obstacles(flags.root)
    )
    parts = sections.of(report)
    if flags.html:
        page = drawing("--html", "page")
        html = page.render(report, parts, datetime.now().astimezone())
        write_page("--html", flags.html, "a report", page.BEGINNING, html)
    if flags.figures:
        _write_figures(flags.figures, report)
    if flags.markdown:
        write("--markdown", flags.markdown, _encoded(exports.markdown(report, parts)))
    if flags.csv:
        write("--csv", flags.csv, _encoded(exports.table_csv(report)))
    if flags.parquet:
        write("--parquet", flags.parquet, _parquet(report))
    if flags.json not in (None, "-"):
        text = json.dumps(exports.document(report, parts), indent=1, ensure_ascii=False)
        write("--json", Path(flags.json), _encoded(f"{text}\n"))
    if flags.json == "-":
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
        prog="./run.sh report",
        description="What finished runs answer: in words, as a table, a page or a file.",
        allow_abbrev=False,
    )
    parser.add_argument("root", metavar="ROOT", type=Path, help="a folder of run directories")
    parser.add_argument("--html", type=Path, metavar="FILE", help="one page that needs no network")
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="the bars of each comparison as an SVG file"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="the answer and the table, as GitHub renders it",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="one row a cell")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="one JSON document, to FILE or else on standard output",
    )
    parser.add_argument(
        "--parquet", type=Path, metavar="FILE", help="one row a cell; needs pyarrow"
    )
    parser.add_argument("--quiet", action="store_true", help="only the answer, no table")
    add_cache(parser)
    return parser


def _write_figures(folder: Path, report: content.Content) -> None:
    figures = drawing("--figures", "figures")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"--figures {folder}: the folder cannot be created ({e.strerror}); give another one"
        ) from None
    for comparison in report.comparisons:
        svg = figures.bars(comparison, "bars")
        if svg:
            name = re.sub(r"[^\w.-]+", "-", comparison.full_name)
            write("--figures", folder / f"{name}.svg", _encoded(figures.as_file(svg)))


def _parquet(report: content.Content) -> bytes:
    data = exports.parquet(report)
    if data is None:
        raise EnvironmentFailure(
            "--parquet: needs pyarrow, which the harness does not install; --csv writes the same"
            " rows"
        )
    return data


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
