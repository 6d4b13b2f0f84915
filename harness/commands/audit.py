"""`./run.sh audit DIR` judges a run directory or a submission only by its files."""

from __future__ import annotations

import signal
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from compliance import audit
from compliance.findings import page
from compliance.folders import recorded_round
from compliance.rules import CURRENT, rounds
from formats.cell import MODES
from harness import terminal
from harness.commands.pages import write_page
from harness.errors import UsageError
from harness.request.flags import Parser, add_common, known_name
from harness.result import HARNESS


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = Parser(
        "audit",
        description="Judge run directories, submissions and LoadGen's logs only by their files.",
        gone={"--level": "--mode has its values"},
    )
    parser.add_argument(
        "directory",
        metavar="DIR",
        type=Path,
        help=(
            "a run directory, a submission, a submitter's folder, a folder of LoadGen's logs, or a"
            " folder with any number of them below it"
        ),
    )
    parser.add_argument(
        "--mode",
        default="quick",
        help="quick (default), valid or submission: what the directory must live up to",
    )
    parser.add_argument(
        "--round",
        metavar="ROUND",
        help=(
            f"{', '.join(rounds())}; default: the one record.json names, else the one of the seeds"
            f" in the logs, else {CURRENT}"
        ),
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help=(
            "exit 1 for every failure, also for one that only the rules' text requires and"
            " MLCommons' checker does not look for (always so outside a submission)"
        ),
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="the findings as one HTML page too, for a reviewer",
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    level = known_name(flags.mode, MODES, "--mode")
    _check_audited(flags)
    round = flags.round and known_name(flags.round, rounds(), "--round")
    report = audit.audit(flags.directory, round, harness=HARNESS)
    directory = terminal.near(str(flags.directory.absolute()))
    if flags.html:
        _write_page(flags, directory, level, report)
    strict = flags.strict
    if flags.json:
        terminal.document(asdict(report.document(directory, level, strict)))
    else:
        terminal.audited(report, level, strict, flags.quiet)
    return 0 if report.passes(level, strict) else 1


def _check_audited(flags: Any) -> None:
    directory = flags.directory
    html = flags.html
    if not directory.is_dir():
        if directory.exists():
            raise UsageError(f"audit {directory}: is a file; an audit takes a directory")
        raise UsageError(f"audit {directory}: there is no such directory")
    recorded = recorded_round(directory) if flags.round else None
    if recorded not in (flags.round, None):
        raise UsageError(
            f"--round {flags.round}: record.json says that the run is of {recorded}; leave the"
            " flag out"
        )
    if html and html.resolve().is_relative_to(directory.resolve()):
        raise UsageError(
            f"--html {html}: is in the audited directory, which an audit does not change; give a"
            " file elsewhere"
        )


def _write_page(flags: Any, directory: str, level: str, report: Any) -> None:
    now = datetime.now().astimezone()
    content = page.render(directory, level, report, now, strict=flags.strict)
    write_page("--html", flags.html, "an audit", page.BEGINNING, content)
    terminal.Terminal(flags.quiet).say(f"the page: {flags.html}")
