"""`./run.sh compare A B` compares two folders of finished runs cell by cell."""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from pathlib import Path

from harness import terminal
from harness.commands.folders import groups_below
from harness.comparison import compare
from harness.comparison.compare import Pair
from harness.errors import UsageError
from harness.request.flags import Parser, add_common

_UNPROVEN = 4
"""Exit code: no cell is shown to be slower, but for one or more cells nothing is proven."""
_PUBLISHED = "published"
"""In earlier releases the name of Keras' own table in place of B."""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code. With --fail-if-slower it is 1 if a cell is certainly
    slower, and 4 if for some cell nothing is proven.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    flags = _parser().parse_args(arguments)
    fail_if_slower = flags.fail_if_slower
    limit = None if fail_if_slower is None else _share(fail_if_slower)
    comparisons = _comparisons(flags.a, flags.b)
    if flags.allow_unproven and limit is None:
        raise UsageError("--allow-unproven: is for --fail-if-slower; give both, or neither")
    sides = {"a": str(flags.a), "b": str(flags.b)}
    if flags.json:
        cells = [asdict(comparison) for comparison in comparisons]
        terminal.document({"schema": "compare-1", **sides, "comparisons": cells})
    else:
        terminal.comparisons(comparisons, **sides, quiet=flags.quiet)
    if limit is None:
        return 0
    unproven = [c for c in comparisons if c.unproven]
    proven = [c for c in comparisons if not c.unproven]
    slower = [c for c in proven if c.ratio and c.ratio.slower_than(limit)]
    for c in slower:
        _say(f"slower than {fail_if_slower}: {c.b}, {c.name}: {c.verdict}")
    for c in unproven:
        _say(f"nothing proven: {c.b or c.a}, {c.name}: {c.unproven}")
    if slower:
        return 1
    return _UNPROVEN if unproven and not flags.allow_unproven else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _parser() -> Parser:
    parser = Parser(
        "compare",
        description=(
            "Two folders of finished runs, cell by cell: the ratio of speed, its 95 % interval, and"
            " what else differs."
        ),
    )
    parser.add_argument("a", metavar="A", type=Path, help="a folder of run directories")
    parser.add_argument("b", metavar="B", type=Path, help="the folder that is compared with A")
    parser.add_argument(
        "--fail-if-slower",
        metavar="SHARE",
        help=(
            "exit 1 if a cell of B is slower than that of A by more than this, such as 5%%, with"
            " the whole interval"
        ),
    )
    parser.add_argument(
        "--allow-unproven",
        action="store_true",
        help=(
            f"with --fail-if-slower: exit 0, not {_UNPROVEN}, if no cell is slower and for some"
            " cells nothing is proven"
        ),
    )
    add_common(parser)
    return parser


def _comparisons(a: Path, b: Path) -> list[Pair]:
    if str(b) == _PUBLISHED and not b.exists():
        raise UsageError(
            f"compare {a} {b}: is gone: the page of ./run.sh report {a} --html has Keras' published"
            " ratio beside each of yours"
        )
    names = ("A", "B")
    if a.name != b.name:
        names = (a.name or str(a), b.name or str(b))
    found = compare.compare(groups_below(a), groups_below(b), names)
    if not any(c.a and c.b for c in found):
        raise UsageError(
            f"compare {a} {b}: the folders have no cell in common (same model, size, task,"
            " scenario, precision, batch, inputs and weights)"
        )
    return found


def _share(text: str) -> float:
    """`5%`, or `0.05`, as 0.05. Raises UsageError for anything else."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise UsageError(
            f"--fail-if-slower {text}: a share such as 5% or 0.05, at least 0 and less than 100%"
        )
    return value
