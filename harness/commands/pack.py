"""`./run.sh pack` merges the submissions of run directories into one. Its bytes do not depend on
time or place.

Two run directories that contradict each other are refused, and the error names both. In one
submission a system has one result for each benchmark and scenario, one configuration for each
benchmark, and one description. A benchmark has one source.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compliance import audit
from compliance.logs import files
from formats.cell import WORK, Cell, sut_words, title_words
from formats.checks import Check, Verdict
from formats.record import Official
from formats.result import Status
from harness.commands import checks
from harness.errors import UsageError
from harness.execution import rundir
from harness.request.flags import Parser, add_common
from harness.request.serving import OF_SERVING
from harness.terminal import near

_MODE = "submission"
_OPEN = "open"
_CLOSED = "closed"
_MAPPING = "model_mapping.json"
_NO_CALIBRATION = (
    "# Calibration\n\nNo data set is used to calibrate weights or activations. The"
    " measurements.json of each result says how weights are converted.\n"
)
Source = tuple[Path, bytes | None]
"""The path of a file, and its merged bytes; None: those of the file."""
_OF_SCENARIO = ("scenario", "batch_size", *OF_SERVING)
_CONFIGURATION = tuple(name for name in ("options", "switches", *WORK) if name not in _OF_SCENARIO)
"""Fields of a cell that must not differ between the scenarios of one benchmark on one system."""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    parser = Parser(
        "pack",
        description=(
            "One submission tree of the cells measured with --mode submission. The same cells give"
            " the same bytes."
        ),
    )
    parser.add_argument(
        "directories",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="run directories, or a folder above them (its newest good ones)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="the tree: a folder that is new or empty",
    )
    parser.add_argument(
        "--division",
        choices=(_OPEN, _CLOSED),
        default=_OPEN,
        help="closed: for runs of --benchmark, by the rules of the closed division (default open)",
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    directories = [directory.absolute() for directory in flags.directories]
    return checks.show(pack(directories, flags.out.absolute(), flags.division), flags)


@dataclass(frozen=True)
class Measured:
    """One run directory that may go into a submission.

    Attributes:
        official: of `--benchmark`; None: it was measured without the flag.
    """

    directory: Path
    cell: Cell
    official: Official | None = None

    def __str__(self) -> str:
        words = " ".join([sut_words(self.cell), *title_words(self.cell)])
        return f"{near(str(self.directory))} ({words})"


def pack(directories: Sequence[Path], out: Path, division: str = _OPEN) -> list[Check]:
    """Write the submission of all `directories` to `out` and audit it.

    Args:
        directories: run directories, or folders above them. From a folder the newest good attempt
            of each cell is taken.
        division: `open` or `closed`.

    Raises UsageError if the runs do not fit into one submission, or if `out` is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: already has files: give a folder that is new or empty")
    runs = list({run.directory: run for path in directories for run in _runs(path)}.values())
    for run in runs:
        _must_hold(run)
        if division == _CLOSED:
            _must_be_closed(run)
    sources = _merged(runs)
    if division == _CLOSED:
        sources = dict(_closed(sources))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".pack-") as scratch:
        for name, (path, content) in sources.items():
            target = Path(scratch, "tree", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                shutil.copy(path, target)
            else:
                target.write_bytes(content)
        if out.exists():
            out.rmdir()
        Path(scratch, "tree").rename(out)
    detail = (
        f"{len(runs)} cells, {len(sources)} files in {near(str(out))}, sha256 of names and"
        f" bytes {digest(out)}"
    )
    return [
        Check("packed", "packed", Verdict.PASS, detail, level=_MODE),
        *audit.audit(out).checks_for(_MODE),
    ]


def _closed(sources: Mapping[str, Source]) -> Iterator[tuple[str, Source]]:
    """Yield (name, source) of each file in the closed division. It has no mapping of models, and
    its system descriptions name it.
    """
    calibration = ""
    for name, (path, content) in sources.items():
        base, _, rest = name.partition("/")[2].partition("/")
        if rest == _MAPPING:
            continue
        calibration = f"{_CLOSED}/{base}/calibration.md"
        if rest.startswith("systems/"):
            description = files.json_object(path) | {"division": _CLOSED}
            content = (json.dumps(description, indent=1) + "\n").encode()
        yield f"{_CLOSED}/{base}/{rest}", (path, content)
    yield calibration, (Path(), _NO_CALIBRATION.encode())


def digest(tree: Path) -> str:
    """sha256 of the relative names and bytes of all files, in order of names."""
    total = hashlib.sha256()
    for path in sorted(
        (p for p in tree.rglob("*") if p.is_file()), key=lambda p: p.relative_to(tree).as_posix()
    ):
        content = path.read_bytes()
        total.update(f"{path.relative_to(tree).as_posix()}\n{len(content)}\n".encode() + content)
    return total.hexdigest()


def _runs(path: Path) -> list[Measured]:
    """The run directory at `path`. For a folder above several, the newest good attempt of each
    cell.
    """
    if not path.is_dir():
        raise UsageError(f"pack {path}: there is no such directory")
    if (path / "record.json").exists():
        return [_measured(path)]
    newest: dict[Path, Path] = {}
    for record in path.rglob(f"{_MODE}-*/record.json"):
        attempt = record.parent
        if rundir.status(attempt) == Status.OK:
            newest[attempt.parent] = max(attempt, newest.get(attempt.parent, attempt), key=_number)
    if not newest:
        raise UsageError(
            f"pack {path}: has no run of --mode {_MODE} with status ok: measure one first, or give"
            " other run directories"
        )
    return [_measured(attempt) for attempt in sorted(newest.values())]


def _number(attempt: Path) -> int:
    number = attempt.name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _measured(directory: Path) -> Measured:
    record, fault = files.attempt(files.record, directory / "record.json")
    if record is None:
        raise UsageError(f"pack {directory}: {fault}: measure it again")
    if record.mode != _MODE:
        raise UsageError(
            f"pack {directory}: was measured in mode {record.mode}; measure it with --mode {_MODE}"
        )
    return Measured(directory.resolve(), record.cell, record.official)


def _must_hold(run: Measured) -> None:
    """Audit a run. Raises UsageError with the first failing check."""
    report = audit.audit(run.directory)
    if not report.passes(_MODE):
        bad = next(
            (c.line() for c in report.checks_for(_MODE) if c.verdict is Verdict.FAIL),
            "nothing passes",
        )
        raise UsageError(
            f"pack {run}: the audit fails at level {_MODE}: {bad}; see ./run.sh audit"
            f" {near(str(run.directory))} --mode {_MODE}"
        )


def _must_be_closed(run: Measured) -> None:
    """Raises UsageError if a run may not enter the closed division."""
    why = "was measured without --benchmark, so it is of no benchmark of the closed division"
    official = run.official
    if official:
        why = f"may not enter the closed division ({'; '.join(official.not_closed)})"
    if official is None or official.not_closed:
        raise UsageError(f"pack {run}: {why}: leave it out, or pack without --division")


def _merged(runs: list[Measured]) -> dict[str, Source]:
    """Name in the submission → its source."""
    taken: dict[str, tuple[Measured, Path]] = {}
    results: dict[str, Measured] = {}
    mappings: dict[str, dict[str, Any]] = {}
    configurations: dict[str, Measured] = {}
    for run in runs:
        for path, name in _files(run):
            # `<system>/<benchmark>/<scenario>` of a file of a result. None for other files.
            parts = name.split("/")
            place = "/".join(parts[3:6]) if len(parts) > 6 and parts[2] == "results" else None
            if place:
                benchmark = place.rpartition("/")[0]
                first = configurations.setdefault(benchmark, run)
                if first is not run:
                    _must_be_one_configuration(benchmark, first, run)
            if name.endswith(f"/{_MAPPING}"):
                mappings.setdefault(name, {}).update(files.json_object(path))
            elif place and results.setdefault(place, run) is not run:
                raise UsageError(
                    f"pack: {results[place]} and {run} are both the result {place}, of which a"
                    " system has only one: leave one out"
                )
            elif name in taken:
                _must_agree(name, taken[name], (run, path))
            else:
                taken[name] = run, path
    submitters = {"/".join(name.split("/")[:2]) for name in taken}
    if len(submitters) > 1:
        raise UsageError(
            f"pack: a submission has one submitter, and these runs have"
            f" {', '.join(sorted(submitters))}: pack each submitter separately"
        )
    merged: dict[str, Source] = {name: (path, None) for name, (_, path) in taken.items()}
    entries: dict[str, Source] = {
        name: (Path(), (json.dumps(m, indent=1, sort_keys=True) + "\n").encode())
        for name, m in mappings.items()
    }
    return dict(sorted((merged | entries).items()))


def _files(run: Measured) -> Iterator[tuple[Path, str]]:
    """Every file of the run's submission, and its name there."""
    for division in (_CLOSED, "network", _OPEN):
        for path in files.under(run.directory / division):
            if path.is_file():
                yield path, path.relative_to(run.directory).as_posix()


def _must_be_one_configuration(place: str, first: Measured, second: Measured) -> None:
    """Raises UsageError if one benchmark of a system was measured with two configurations. Batch
    sizes of its scenarios may differ.
    """
    differences = []
    for key in _CONFIGURATION:
        one = getattr(first.cell, key)
        other = getattr(second.cell, key)
        if one != other:
            differences.append(f"{key} {one} and {other}")
    if differences:
        raise UsageError(
            f"pack: {place} would have two configurations ({', '.join(differences)}) in {first} and"
            f" {second}: leave one out"
        )


def _must_agree(name: str, first: tuple[Measured, Path], second: tuple[Measured, Path]) -> None:
    """Raises UsageError if two runs have the same file with different bytes."""
    (one, path), (other, its_path) = first, second
    if path.read_bytes() == its_path.read_bytes():
        return
    details = "they were measured with different sources"
    if name.endswith(".json"):
        a = files.json_object(path)
        b = files.json_object(its_path)
        keys = [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
        details = ", ".join(f"{key}: {a.get(key)!r} and {b.get(key)!r}" for key in keys)
    raise UsageError(
        f"pack: {name} differs ({details}) between {one} and {other}: measure both on one system"
        " with one revision, or pack each separately"
    )
