"""runs/<cell>/<mode>-<n>/: finished ⇔ result.json stands there with a final status. The tree is the
journal: the same command resumes.
"""

from __future__ import annotations

import errno
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from formats import reading
from formats.cell import Cell, SweepMark
from formats.job import Job, read_job
from formats.outcome import WorkerOutcome
from formats.result import FINAL
from harness.errors import EnvironmentFailure, UsageError
from harness.locks import Taken, held

_RESERVE, _RESERVE_BYTES = ".reserve", 1 << 20


@contextmanager
def opened(out: Path, cell: Cell, mode: str, sweep: SweepMark | None = None) -> Iterator[Path]:
    """The directory to measure into: a new one, or an attempt that was not finished. Held against a
    second process.

    An unfinished attempt of another sweep is left alone, because figures of one repeat must not
    stand in another.

    A reserve file is kept meanwhile and given up at the end, so that a full disk does not swallow
    the result.
    """
    parent = out / cell.name
    parent.mkdir(parents=True, exist_ok=True)
    try:
        with held(parent / ".lock"):
            directory = _choose(parent, mode, sweep)
            (directory / "raw").mkdir(parents=True, exist_ok=True)
            try:
                _keep_reserve(directory / _RESERVE)
                yield directory
            finally:
                release_reserve(directory)
    except Taken:
        raise EnvironmentFailure(
            f"another process measures this cell in {parent}: wait for it, or give another --out"
        ) from None


@contextmanager
def reopened(directory: Path) -> Iterator[None]:
    """A directory that is finished, to add to it: held against a second process as `opened` holds
    it.
    """
    try:
        with held(directory.parent / ".lock"):
            yield
    except Taken:
        raise EnvironmentFailure(
            f"another process measures this cell in {directory.parent}: wait for it"
        ) from None


def check_writable(flag: str, out: Path) -> None:
    """Before anything is made. Raises UsageError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            return
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(
            f"{flag} {out}: cannot be written ({e.strerror}): choose a directory you may write to"
        ) from None


def _keep_reserve(path: Path) -> None:
    with path.open("wb") as f:
        f.write(bytes(_RESERVE_BYTES))


def release_reserve(directory: Path) -> None:
    """Give up the reserve file, so that a result can be written on a full disk."""
    with suppress(OSError):
        (directory / _RESERVE).unlink(missing_ok=True)


def attempts(parent: Path, mode: str) -> list[Path]:
    """The attempts at a cell in this mode, the first one first. `parent`: the cell's folder."""
    numbers = (p.name.removeprefix(f"{mode}-") for p in parent.glob(f"{mode}-*"))
    return [parent / f"{mode}-{n}" for n in sorted(int(n) for n in numbers if n.isdigit())]


def _choose(parent: Path, mode: str, sweep: SweepMark | None) -> Path:
    """Outside of a sweep only the last attempt is gone on with; a sweep finds its own wherever it
    stands.
    """
    there = attempts(parent, mode)
    candidates = reversed(there) if sweep else there[-1:]
    unfinished = (
        path for path in candidates if status(path) not in FINAL and _may_go_on(path, sweep)
    )
    return next(
        unfinished, parent / f"{mode}-{int(there[-1].name.rpartition('-')[2]) + 1 if there else 1}"
    )


def _may_go_on(directory: Path, sweep: SweepMark | None) -> bool:
    """Return whether a measurement may go on in this attempt: its `sweep` must be the one in
    record.json (None: no sweep).

    Without a readable record.json, a measurement outside of a sweep may go on, and one of a sweep
    only if `raw/` is empty.
    """
    try:
        record = reading.from_file(directory / "record.json", reading.record)
    except (OSError, ValueError):
        return sweep is None or not any((directory / "raw").glob("*"))
    return record.sweep == sweep


def status(directory: Path) -> str | None:
    """The status in result.json; None where there is none that can be read."""
    try:
        return str(json.loads((directory / "result.json").read_text(encoding="utf-8"))["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept(job: Job) -> WorkerOutcome | None:
    """The outcome of an earlier attempt at exactly this test that went well; else the attempt's
    folder is set aside and None.
    """
    from harness.execution.process import read_outcome

    folder = job.log_dir
    if not folder.exists():
        return None
    outcome = read_outcome(folder)
    if outcome and outcome.status == "ok" and _same(folder / "job.json", job):
        return outcome
    set_aside(folder)
    return None


def set_aside(folder: Path) -> None:
    """An attempt's logs stay, under another name."""
    attempt = 1
    while (aside := folder.with_name(f"{folder.name}.attempt-{attempt}")).exists():
        attempt += 1
    folder.rename(aside)


def _same(path: Path, job: Job) -> bool:
    """Return whether the file holds this very job, so that its outcome can be kept. If `job` has no
    calibration, none is compared.
    """
    try:
        earlier = read_job(path)
        # A test that was over too soon was measured again with a calibration of its own.
        if job.calibration is None:
            earlier = replace(earlier, calibration=None)
        return earlier == job
    except (OSError, ValueError, KeyError, TypeError):
        return False
