"""The finished part of a sweep. It is read from the run directories: no other file lists the
measurements.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from compliance.logs.files import source_digest
from formats import reading
from formats.cell import SweepMark
from formats.result import Result
from formats.writing import json_digest, read_json, write_json
from harness.comparison import runs
from harness.execution import machine
from harness.execution.environments import ROOT
from harness.request import estimate
from harness.request.request import Request
from harness.sweep.cells import Series

_FOLDER = "sweeps"
_PLAN = "sweep.json"
_NOT_MEASURED = "not-measured"
_CUT_OFF = "cut-off.txt"
_OFTEN = 2
_END = "end.json"


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of a sweep of which nothing is left to measure.

    Attributes:
        repeats: how often each cell is measured.
        failed: whether the same command would try a cell again.
    """

    repeats: int
    failed: bool


def folder(
    out: Path, name: str, series: Sequence[Series], again: bool, more: Sequence[object] = ()
) -> Path:
    """The sweep's folder below `out`, whose name is its id. It is the last one of these cells, or
    with `again` a new one. Nothing is created.

    Cells are the same if their flags, environment variables, prompts, weight files and the source
    of SUTs and worker are the same.

    `more`: what else decides the cells.
    """
    cells = [[_named(each), each.control, _brought(each.request)] for each in series]
    stem = f"{name}-{json_digest([source_digest(ROOT), *cells, *more], 8)}"
    numbers = [path.name.removeprefix(f"{stem}-") for path in (out / _FOLDER).glob(f"{stem}-*")]
    last = max((int(n) for n in numbers if n.isdigit()), default=0)
    number = last + 1 if again or not last else last
    return out / _FOLDER / f"{stem}-{number}"


def _named(series: Series) -> list[str]:
    """The flags of a cell, with the name of a user's own model instead of its path. So the sweep
    goes on if the file was moved.
    """
    request = series.request
    if request is None or request.model.file is None:
        return list(series.words)
    return [request.model.name if w == request.options.model else w for w in series.words]


def _brought(request: Request | None) -> list[object]:
    """List what decides a cell in addition to its flags: the standard inputs, variables, digests of
    the data set's files, names, sizes and dates of weight files, the chat template's digest, and
    those of the user's own builds of packages.

    Empty without a request.
    """
    if request is None:
        return []
    dataset = request.options.dataset
    digests: list[str | None] = [None]
    if dataset:
        files = [dataset]
        if dataset.is_dir():
            files = sorted(path for path in dataset.iterdir() if path.is_file())
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    weight_files = request.weights.own_files if request.weights else []
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in weight_files]
    chat = request.chat.digest if request.chat else None
    code = request.model.file.code_digest if request.model.file else None
    builds = [pin.text for pin in request.pins if pin.path]
    variables = sorted(request.variables.items())
    of_builds = [builds] if builds else []
    return [code, request.inputs, variables, digests, stats, chat, *of_builds]


def seed(folder: Path) -> int:
    """The seed of the order of the cells in each round. It follows from the sweep's id."""
    return int(hashlib.sha256(folder.name.encode()).hexdigest()[:8], 16)


def write_plan(
    folder: Path, command: str, series: Sequence[Series], missing: Mapping[str, str]
) -> None:
    """Make the sweep's folder with sweep.json, unless it exists: the cells, each with the command
    that measures it, the seed of their order, and what is missing. `runs` is a pattern for the
    folders of a cell's runs below `--out`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _PLAN
    if path.exists():
        return
    write_json(
        path,
        {
            "schema": "sweep-1",
            "id": folder.name,
            "command": command,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seed": seed(folder),
            "cells": [
                {
                    "number": each.number,
                    "label": each.label,
                    "command": each.command,
                    "runs": f"{each.request.cell().stem}*" if each.request else None,
                    "control": each.control,
                    "obstacle": each.obstacle or None,
                }
                for each in series
            ],
            "missing": dict(missing),
        },
    )


def keep_not_measured(folder: Path, result: Result) -> None:
    """Write the result of a cell that was not run, and so has no run directory, to a place where
    `report` finds it.
    """
    sweep = result.sweep
    assert sweep is not None
    directory = folder / _NOT_MEASURED / f"{sweep.series}-{sweep.repeat}"
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "result.json", asdict(result))


def forget_not_measured(folder: Path) -> None:
    """Delete such results. The next command tries these cells again."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / _NOT_MEASURED)


def note_cut_off(folder: Path, number: int) -> None:
    """Note that a series was cut off because its time was over."""
    with (folder / _CUT_OFF).open("a", encoding="utf-8") as f:
        f.write(f"{number}\n")


def often_cut_off(folder: Path) -> set[int]:
    """The numbers of the series that were cut off at least twice. Others are measured first."""
    path = folder / _CUT_OFF
    numbers = path.read_text(encoding="utf-8").split() if path.exists() else []
    return {int(number) for number, count in Counter(numbers).items() if count >= _OFTEN}


def obstacles(out: Path) -> dict[str, list[str]]:
    """Reason why cells of the sweeps below `--out` cannot be measured → their labels. Files that
    cannot be read are left out.
    """
    found: dict[str, list[str]] = {}
    for path in sorted((out / _FOLDER).glob(f"*/{_PLAN}")):
        with suppress(OSError, ValueError, KeyError, AttributeError):
            plan = read_json(path)
            cells = [cell for cell in plan["cells"] if cell["obstacle"]]
            named = {cell["label"]: cell["obstacle"] for cell in cells}
            for label, reason in (named | plan["missing"]).items():
                found.setdefault(reason, []).append(label)
    return {reason: list(dict.fromkeys(labels)) for reason, labels in found.items()}


def note_end(folder: Path, end: End | None) -> None:
    """Write that nothing is left to measure. None: something is left."""
    if end:
        write_json(folder / _END, asdict(end))
    else:
        (folder / _END).unlink(missing_ok=True)


def end(folder: Path) -> End | None:
    """The end of a sweep. None: something is left to measure."""
    try:
        document = read_json(_fresh(folder) / _END)
        return End(**document)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def made_by(out: Path, name: str) -> list[Path]:
    """The folders of the sweeps below `--out` of a recipe's name, the oldest first."""
    plans = _fresh(out / _FOLDER).glob(f"{name}-*/{_PLAN}")
    return [path.parent for path in sorted(plans, key=lambda path: path.stat().st_mtime_ns)]


def measured(folder: Path, seen: dict[Path, int]) -> Iterator[tuple[str, Result]]:
    """(label of the cell, result) of each measurement of a sweep, on any machine.

    `seen`: result.json → its time of change in ns, when it was read. A file that did not change is
    left out. The files that are read now are added.
    """
    out = folder.parents[1]
    cells = read_json(folder / _PLAN)["cells"]
    labels = {cell["number"]: cell["label"] for cell in cells}
    patterns = dict.fromkeys(cell["runs"] for cell in cells if cell["runs"])
    of_cells = chain.from_iterable(out.glob(pattern) for pattern in patterns)
    found = chain.from_iterable(_fresh(path).glob("*/result.json") for path in of_cells)
    for path in (*sorted(found), *sorted(folder.glob(f"{_NOT_MEASURED}/*/result.json"))):
        with suppress(OSError, ValueError):
            changed_ns = path.stat().st_mtime_ns
            if seen.get(path) == changed_ns:
                continue
            seen[path] = changed_ns
            result = reading.from_file(path, Result)
            sweep = result.sweep
            if sweep and sweep.id == folder.name:
                # Its run directory, if it has one, may have been moved.
                directory = str(path.parent) if result.directory else ""
                yield labels[sweep.series], replace(result, directory=directory)


def _fresh(folder: Path) -> Path:
    """The folder. Its mode is set to what it is, so that NFS reads its list of files again."""
    with suppress(OSError):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode))
    return folder


def finished(sweep_id: str, series: Sequence[Series]) -> list[tuple[tuple[int, int], Result]]:
    """((number of the series, repeat), result) of each finished attempt with this sweep's mark, in
    the order of the attempts.

    Attempts on another machine do not count. The sweep measures them again here, and a report keeps
    the machines apart.
    """
    here = runs.machine_words(machine.describe())
    found = []
    for each in series:
        if each.request is None:
            continue
        for result in estimate.earlier_results(each.request):
            mark = result.sweep
            if mark is None or (mark.id, mark.series) != (sweep_id, each.number):
                continue
            if runs.read(result).loadgen_machine in ("", here):
                found.append(((mark.series, mark.repeat), result))
    return found


def mark(sweep_id: str, series: Series, repeat: int) -> SweepMark:
    """The sweep's mark for the record of an attempt."""
    return SweepMark(id=sweep_id, series=series.number, repeat=repeat, control=series.control)
