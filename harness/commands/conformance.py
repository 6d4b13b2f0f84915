"""`./run.sh conformance` shows which released framework computes what differently."""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from harness import terminal
from harness.conformance import parts, running, table
from harness.conformance.parts import PARTS
from harness.conformance.running import Runner
from harness.conformance.table import Conformance
from harness.conformance.verdicts import LIMITS, Agreement, Finding
from harness.errors import UsageError
from harness.execution.environments import ROOT
from harness.inputs.architectures import keras_file
from harness.inputs.keras_file import SUFFIX
from harness.locks import held
from harness.request.flags import Parser, add_common
from harness.request.pins import spelt_all

_ROWS = 4


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    _check(flags)
    before = table.read(flags.expect) if flags.expect else None
    made = _compared(flags, shlex.join(["./run.sh", "conformance", *arguments]))
    news = table.news(before, made) if before else []
    if flags.out:
        table.write(made, flags.out)
    if flags.json:
        terminal.document({**asdict(made), "news": news})
        return 1 if news else 0
    _show(made.rows)
    if before:
        for sentence in news or ["nothing is new"]:
            terminal.line(sentence)
    return 1 if news else 0


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


def _check(flags: argparse.Namespace) -> None:
    """Raises UsageError for flags that do not fit."""
    if flags.file and flags.of:
        raise UsageError(f"--of {flags.of}: a file is no part of a comparison: leave it out")
    try:
        re.compile(flags.only)
    except re.error as e:
        raise UsageError(f"--only {flags.only}: is no regular expression ({e})") from None


def _compared(flags: argparse.Namespace, command: str) -> Conformance:
    """Compare, or go on with the same comparison that was interrupted. Raises UsageError if there
    is nothing of the name of --only.
    """
    given = spelt_all(flags.packages)
    chosen = [PARTS[flags.of]] if flags.of else [*PARTS.values()]
    if flags.file:
        chosen = [parts.of_file(flags.file, _inputs(flags.file))]
    say = terminal.Terminal(flags.quiet).say
    usual_s = sum(part.usual_s for part in chosen)
    if usual_s and not flags.only:
        say(f"about {terminal.duration(usual_s)} on two quiet cores")
    folder = _folder(flags, given)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder.with_suffix(".lock"), lambda: say("waiting for the same command")):
        folder.mkdir(exist_ok=True)
        times = folder / "seconds.txt"
        with _added_to(times):
            suts = dict.fromkeys(sut for part in chosen for sut in part.suts)
            environments = running.prepared(flags.cache.absolute(), suts, given, say)
            runner = Runner(folder=folder, environments=environments, say=say)
            rows = tuple(row for part in chosen for row in part.find(runner, flags.only))
        if not rows:
            raise UsageError(
                f"--only {flags.only}: no type of model and no operation has such a name"
            )
        seconds = sum(map(float, times.read_text(encoding="utf-8").split()))
        shutil.rmtree(folder)
    return Conformance(
        schema=table.SCHEMA,
        made=time.strftime("%Y-%m-%d"),
        command=command,
        versions=running.versions(environments.values()),
        limits=LIMITS,
        seconds=round(seconds, 1),
        rows=rows,
    )


def _inputs(path: Path) -> dict[str, np.ndarray]:
    """Random inputs of a user's file, as its cells have them. Raises UsageError."""
    if path.suffix != SUFFIX:
        raise UsageError(f"{path}: is no {SUFFIX} file: give one that model.save writes")
    model = keras_file.model(path, None)
    size = model.sizes["user"]
    keras_file.check(model, size)
    return dict(keras_file.ARCHITECTURE.synthetic(size, _ROWS, 0))


def _folder(flags: argparse.Namespace, given: Sequence[str]) -> Path:
    """The folder in which an interrupted comparison goes on: one for its flags, its cases, and the
    sources and environments that compute them.
    """
    files = [*(ROOT / "environments").glob("*.txt"), *(ROOT / "sut").rglob("*.py"), *parts.DATA]
    if flags.file:
        files.append(flags.file)
    digest = hashlib.sha256(repr((flags.of, flags.only, given)).encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    part = "file" if flags.file else flags.of or "all"
    return flags.cache.absolute() / "conformance" / f"{part}-{digest.hexdigest()[:12]}"


@contextmanager
def _added_to(path: Path) -> Iterator[None]:
    """A context whose seconds are added to a file, a line for each time."""
    begun = time.monotonic()
    try:
        yield
    finally:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - begun:.1f}\n")


def _show(rows: Sequence[Finding]) -> None:
    """Print the counts, and what does not agree."""
    terminal.table("Compared", ("backend", *Agreement), table.counts(rows))
    lines = []
    for names, row in table.same_on(rows):
        why = row.layer or row.words
        lines.append([row.case, names, str(row.verdict), table.text_of(row.size), why])
    terminal.table("What does not agree", ("case", "on", "verdict", "size", "why, or from"), lines)
