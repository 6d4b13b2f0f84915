"""`./run.sh conformance` shows which released framework computes what differently."""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from formats.writing import write_json
from harness import terminal
from harness.conformance import parts, table
from harness.conformance.running import Runner
from harness.conformance.table import Table
from harness.conformance.verdicts import Row, Verdict
from harness.errors import UsageError
from harness.inputs.architectures import keras_file
from harness.inputs.keras_file import SUFFIX
from harness.request.flags import Parser, add_common
from harness.request.pins import spelt_all

_PARTS = ("keras-hub", "keras")
_ROWS = 4
_USUAL_S = {None: 1500, "keras-hub": 700, "keras": 800}
"""Part → seconds that it takes."""
_LIMITS = {
    "folders": (
        "A folder differs if its answers are farther than"
        f" {parts.OF_FOLDERS.of_noise:.0f} times the distance"
        " between Transformers in float32 and in float64, and at least"
        f" {parts.OF_FOLDERS.least:g} of their deviation."
    ),
    "operations": (
        f"An operation differs if an output is farther than {parts.OF_OPERATIONS:g} of its largest"
        " value from that in float64."
    ),
}


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    _check(flags)
    before = table.read(flags.expect) if flags.expect else None
    reporter = terminal.Terminal(flags.quiet)
    if not (flags.file or flags.only):
        reporter.say(f"about {terminal.duration(_USUAL_S[flags.of])} on two quiet cores")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(
            flags.cache.absolute(), Path(folder), spelt_all(flags.packages), reporter.say
        )
        rows = _rows(flags, runner)
        made = Table(
            schema=table.SCHEMA,
            made=time.strftime("%Y-%m-%d"),
            command=shlex.join(["./run.sh", "conformance", *arguments]),
            versions=runner.versions,
            limits=_LIMITS,
            seconds=round(time.monotonic() - begun, 1),
            rows=tuple(rows),
        )
    if flags.out:
        flags.out.mkdir(parents=True, exist_ok=True)
        write_json(flags.out / "conformance.json", made)
        page = "\n".join(table.page(made)) + "\n"
        (flags.out / "conformance.md").write_text(page, encoding="utf-8")
    found = table.news(before, made) if before else []
    if flags.json:
        terminal.document({**asdict(made), "news": found})
    else:
        _show(made, found if before else None)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "conformance",
        description=(
            "Which released framework computes what differently? Tiny Hugging Face folders in"
            " KerasHub against Transformers, and Keras' layers and operations on each backend"
            " against float64. Differing is the result, and no failure."
        ),
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE.keras",
        help="your model: which backend computes it differently, and from which layer on",
    )
    parser.add_argument(
        "--of", choices=_PARTS, metavar="PART", help="only one part: keras-hub or keras"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help=(
            "with --of keras-hub: one type of model, such as qwen2; with --of keras: a regular"
            " expression of names, such as layers.Conv or ops.pad"
        ),
    )
    parser.add_argument(
        "--with",
        dest="packages",
        action="append",
        default=[],
        metavar="PACKAGE==VERSION",
        help="another release of a package, such as jax==0.10.1; the judges keep theirs",
    )
    parser.add_argument(
        "--expect",
        type=Path,
        metavar="FILE",
        help="an earlier conformance.json: exit code 1 if a verdict is new",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write conformance.json and conformance.md there"
    )
    add_common(parser)
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Raises UsageError for flags that do not fit."""
    if flags.only and not flags.of:
        raise UsageError("--only: also name the part that it is of: --of keras-hub or --of keras")
    if flags.file and flags.of:
        raise UsageError(f"--of {flags.of}: a file is no part of a comparison: leave it out")
    try:
        re.compile(flags.only)
    except re.error as e:
        raise UsageError(f"--only {flags.only}: is no regular expression ({e})") from None


def _rows(flags: argparse.Namespace, runner: Runner) -> list[Row]:
    """The rows of what the flags name. Raises UsageError if there are none."""
    if flags.file:
        return parts.file(runner, flags.file, _inputs(flags.file))
    rows = []
    if flags.of != "keras":
        rows += parts.folders(runner, flags.only)
    if flags.of != "keras-hub":
        rows += parts.operations(runner, flags.only)
    if not rows:
        raise UsageError(f"--only {flags.only}: names nothing of {flags.of}")
    return rows


def _inputs(path: Path) -> dict[str, np.ndarray]:
    """Random inputs of a user's file, as its cells have them. Raises UsageError."""
    if path.suffix != SUFFIX:
        raise UsageError(f"{path}: is no {SUFFIX} file: give one that model.save writes")
    model = keras_file.model(path, None)
    size = model.sizes["user"]
    keras_file.check(model, size)
    return dict(keras_file.ARCHITECTURE.synthetic(size, _ROWS, 0))


def _show(made: Table, news: list[str] | None) -> None:
    """Print the counts, what differs, and what is new."""
    counts = table.counts(made.rows)
    lines = [[name, *(str(found[each]) for each in Verdict)] for name, found in counts.items()]
    terminal.table("Compared", ("backend", *Verdict), lines)
    lines = []
    for names, row in table.same_on(made.rows):
        why = row.layer if row.verdict is Verdict.DIFFERS else row.words
        lines.append([row.case, names, str(row.verdict), table.text_of(row.size), why])
    terminal.table("What does not agree", ("case", "on", "verdict", "size", "why, or from"), lines)
    if news is not None:
        for sentence in news or ["nothing is new"]:
            terminal.line(sentence)
