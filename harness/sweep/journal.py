"""What of a sweep is there already. The run directories are the journal: no other file says what
was measured.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from compliance.logs.files import source_digest
from formats.cell import SweepMark
from formats.result import Result
from formats.writing import write_json
from harness.comparison import runs
from harness.execution import machine
from harness.execution.environments import ROOT
from harness.request import estimate
from harness.request.request import Request
from harness.sweep.cells import Series

_FOLDER, _PLAN, _NOT_MEASURED = "sweeps", "sweep.json", "not-measured"
_CUT_OFF, _OFTEN = "cut-off.txt", 2


def folder(out: Path, name: str, series: Sequence[Series], again: bool) -> Path:
    """The sweep's folder below `out`, which is its id: the last one of these cells, or with `again`
    a new one. Nothing is made.

    Cells are the same where their flags, environment variables, prompts, files of weights, and the
    files of SUTs and worker are.
    """
    cells = json.dumps(
        [source_digest(ROOT), *([each.words, each.twin, _brought(each.request)] for each in series)]
    )
    stem = f"{name}-{hashlib.sha256(cells.encode()).hexdigest()[:8]}"
    numbers = (path.name.removeprefix(f"{stem}-") for path in (out / _FOLDER).glob(f"{stem}-*"))
    last = max((int(n) for n in numbers if n.isdigit()), default=0)
    return out / _FOLDER / f"{stem}-{last + 1 if again or not last else last}"


def _brought(request: Request | None) -> list[object]:
    """List what decides a cell beside the flags: the standard inputs, variables, digests of the
    data set's files, and names, sizes and dates of weight files.

    Empty without a request.
    """
    if request is None:
        return []
    dataset, weights = request.asked.dataset, request.weights
    files = [weights.path / name for name in weights.own_files] if weights else []
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    inputs = (
        sorted(path for path in (dataset, *dataset.iterdir()) if path.is_file())
        if dataset and dataset.is_dir()
        else [dataset]
    )
    return [
        request.inputs,
        sorted(request.variables.items()),
        [path and hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs],
        stats,
    ]


def seed(folder: Path) -> int:
    """The seed of the order in which each round measures the cells. It follows from the sweep's
    id.
    """
    return int(hashlib.sha256(folder.name.encode()).hexdigest()[:8], 16)


def write_plan(
    folder: Path, command: str, series: Sequence[Series], missing: Mapping[str, str]
) -> None:
    """Write sweep.json once: the cells, each with the command that measures it, the seed of their
    order, and what is not there.
    """
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
                    "twin": each.twin,
                    "obstacle": each.obstacle or None,
                }
                for each in series
            ],
            "missing": dict(missing),
        },
    )


def keep_not_measured(folder: Path, result: Result) -> None:
    """Write a result of which nothing was run, and which therefore has no run directory, where
    `report` finds it.
    """
    assert result.sweep is not None
    directory = folder / _NOT_MEASURED / f"{result.sweep.series}-{result.sweep.repeat}"
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "result.json", asdict(result))


def forget_not_measured(folder: Path) -> None:
    """Such results are of one command: the next one tries these cells again."""
    if (folder / _NOT_MEASURED).exists():
        shutil.rmtree(folder / _NOT_MEASURED)


def note_cut_off(folder: Path, number: int) -> None:
    """Note that the end of its time cut a series off."""
    with (folder / _CUT_OFF).open("a", encoding="utf-8") as f:
        f.write(f"{number}\n")


def often_cut_off(folder: Path) -> set[int]:
    """The numbers of the series that were cut off twice or more. Others go first."""
    path = folder / _CUT_OFF
    numbers = path.read_text(encoding="utf-8").split() if path.exists() else []
    return {int(number) for number, count in Counter(numbers).items() if count >= _OFTEN}


def obstacles(out: Path) -> dict[str, list[str]]:
    """Why cells of the sweeps below `--out` cannot be measured → their labels. What cannot be read
    is left out.
    """
    found: dict[str, list[str]] = {}
    for path in sorted((out / _FOLDER).glob(f"*/{_PLAN}")):
        with suppress(OSError, ValueError, KeyError, AttributeError):
            plan = json.loads(path.read_text(encoding="utf-8"))
            named = {
                cell["label"]: cell["obstacle"] for cell in plan["cells"] if cell["obstacle"]
            } | plan["missing"]
            for label, reason in named.items():
                found.setdefault(reason, []).append(label)
    return {reason: list(dict.fromkeys(labels)) for reason, labels in found.items()}


def finished(sweep_id: str, series: Sequence[Series]) -> list[tuple[tuple[int, int], Result]]:
    """((number of the series, repeat), result) of each finished attempt that carries this sweep's
    mark, in the order of the attempts.

    Those of another machine do not count. The sweep measures them again here, and a report keeps
    the machines apart.
    """
    here = runs.machine_words(machine.describe())
    found = []
    for each in series:
        if each.request is None:
            continue
        for result in estimate.earlier_results(each.request):
            mark = result.sweep
            if (
                mark
                and (mark.id, mark.series) == (sweep_id, each.number)
                and runs.read(result).machine in ("", here)
            ):
                found.append(((mark.series, mark.repeat), result))
    return found


def mark(sweep_id: str, series: Series, repeat: int) -> SweepMark:
    """What the attempt carries in its record."""
    return SweepMark(id=sweep_id, series=series.number, repeat=repeat, twin=series.twin)
