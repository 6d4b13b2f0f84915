"""`./run.sh show DIR` prints a finished run again, with the model's answers."""

from __future__ import annotations

import signal
from pathlib import Path

from harness import terminal
from harness.comparison import compare
from harness.comparison.runs import find
from harness.errors import UsageError
from harness.request.flags import Parser, add_common
from harness.samples import words


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code of the run that it shows, or 1 if a result cannot be
    read.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = Parser(
        "show",
        description="Print a finished run again, with its answers in words.",
    )
    parser.add_argument(
        "directory",
        metavar="DIR",
        type=Path,
        help="a run directory; of a folder of several, each is shown",
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    results, faults = find(flags.directory)
    for path, why in faults.items():
        terminal.error(f"{path}: {why}")
    if not results:
        raise UsageError(
            f"show {flags.directory}: has no finished run; a finished run has a result.json"
        )
    if flags.json:
        terminal.document({"cells": [terminal.result_as_json(result) for result in results]})
    else:
        for result in results:
            terminal.result(result, before=compare.beside_earlier(result))
            terminal.answers(() if flags.quiet else words.read(Path(result.directory)))
    return 0 if not faults and all(result.status == "ok" for result in results) else 1
