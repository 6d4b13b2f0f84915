"""`./run.sh conformance` shows which released framework computes what differently."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from harness.execution.environments import ROOT
from harness.inputs.architectures import keras_file
from harness.inputs.keras_file import SUFFIX
from harness.locks import held
from harness.request.flags import Parser, add_common
from harness.request.pins import spelt_all
from sut.conformance import FOLDERS, OPERATIONS, PARTS

_ROWS = 4
_USUAL_S = {None: 1500, FOLDERS: 700, OPERATIONS: 800}
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
    given = spelt_all(flags.packages)
    if not (flags.file or flags.only):
        reporter.say(f"about {terminal.duration(_USUAL_S[flags.of])} on two quiet cores")
    cache = flags.cache.absolute()
    folder = _folder(cache, flags, given)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder.with_suffix(".lock"), lambda: reporter.say("waiting for the same command")):
        folder.mkdir(exist_ok=True)
        runner = Runner(cache, folder, given, reporter.say)
        with _counted(folder / "seconds.txt"):
            rows = _rows(flags, runner)
        seconds = float((folder / "seconds.txt").read_text(encoding="utf-8"))
        shutil.rmtree(folder)
    made = Table(
        schema=table.SCHEMA,
        made=time.strftime("%Y-%m-%d"),
        command=shlex.join(["./run.sh", "conformance", *arguments]),
        versions=runner.versions,
        limits=_LIMITS,
        seconds=seconds,
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
        "--of", choices=PARTS, metavar="PART", help="only one part: keras-hub or keras"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help=(
            "a regular expression of types of models and names of operations, such as ^qwen2$,"
            " layers.Conv or ops.pad"
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


def _folder(cache: Path, flags: argparse.Namespace, given: Sequence[str]) -> Path:
    """The folder in which an interrupted comparison goes on: one for its flags, its cases, and the
    sources and environments that compute them.
    """
    files = [*(ROOT / "environments").glob("*.txt"), *(ROOT / "sut").rglob("*.py"), *parts.DATA]
    digest = hashlib.sha256(json.dumps([flags.of, flags.only, *given]).encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    if flags.file and flags.file.is_file():
        digest.update(flags.file.read_bytes())
    part = "file" if flags.file else flags.of or "all"
    return cache / "conformance" / f"{part}-{digest.hexdigest()[:12]}"


@contextmanager
def _counted(path: Path) -> Iterator[None]:
    """A context whose seconds are added to those in a file."""
    before = float(path.read_text(encoding="utf-8")) if path.exists() else 0.0
    begun = time.monotonic()
    try:
        yield
    finally:
        seconds = round(before + time.monotonic() - begun, 1)
        path.write_text(str(seconds), encoding="utf-8")


def _check(flags: argparse.Namespace) -> None:
    """Raises UsageError for flags that do not fit."""
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
    if flags.of != OPERATIONS:
        rows += parts.folders(runner, flags.only)
    if flags.of != FOLDERS:
        rows += parts.operations(runner, flags.only)
    if not rows:
        raise UsageError(f"--only {flags.only}: no type of model and no operation has such a name")
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
        why = row.layer or row.words
        lines.append([row.case, names, str(row.verdict), table.text_of(row.size), why])
    terminal.table("What does not agree", ("case", "on", "verdict", "size", "why, or from"), lines)
    if news is not None:
        for sentence in news or ["nothing is new"]:
            terminal.line(sentence)
