"""Run directories: runs/<cell>/<mode>-<n>/. One is finished if its result.json has a final status.
The same command continues with an unfinished one.
"""

from __future__ import annotations

import errno
import gzip
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from formats import reading
from formats.cell import Cell, SweepMark
from formats.job import PERFORMANCE, Job, read_job
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import FINAL
from formats.writing import read_json
from harness.errors import EnvironmentFailure, UsageError
from harness.locks import Taken, held

TRACE = "mlperf_log_trace.json.gz"
_RESERVE = ".reserve"
_RESERVE_BYTES = 1 << 20


@contextmanager
def opened(out: Path, cell: Cell, mode: str, sweep: SweepMark | None = None) -> Iterator[Path]:
    """Yield the directory for a measurement: a new one, or that of an unfinished attempt. It is
    locked against other processes.

    An unfinished attempt of another sweep is not continued, because figures of one repeat must not
    get into another.

    A reserve file is kept until the end, so that the result can be written even if the disk is
    full.
    """
    parent = out / cell.name
    parent.mkdir(parents=True, exist_ok=True)
    try:
        with held(parent / ".lock"):
            directory = _choose(parent, mode, sweep)
            (directory / "raw").mkdir(parents=True, exist_ok=True)
            try:
                (directory / _RESERVE).write_bytes(bytes(_RESERVE_BYTES))
                yield directory
            finally:
                release_reserve(directory)
    except Taken:
        raise EnvironmentFailure(
            f"another process measures this cell in {parent}: wait for it, or give another --out"
        ) from None


@contextmanager
def reopened(directory: Path) -> Iterator[None]:
    """Lock a finished directory against other processes, to add files to it."""
    try:
        with held(directory.parent / ".lock"):
            yield
    except Taken:
        raise EnvironmentFailure(
            f"another process measures this cell in {directory.parent}: wait for it"
        ) from None


def check_writable(flag: str, out: Path) -> None:
    """Raises UsageError if `out` cannot be written."""
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


def release_reserve(directory: Path) -> None:
    """Delete the reserve file, so that a result can be written on a full disk."""
    with suppress(OSError):
        (directory / _RESERVE).unlink(missing_ok=True)


def attempts(parent: Path, mode: str) -> list[Path]:
    """The attempts at a cell in this mode, oldest first. `parent`: the cell's folder."""
    numbers = (p.name.removeprefix(f"{mode}-") for p in parent.glob(f"{mode}-*"))
    return [parent / f"{mode}-{n}" for n in sorted(int(n) for n in numbers if n.isdigit())]


def _choose(parent: Path, mode: str, sweep: SweepMark | None) -> Path:
    """Return the directory of the next attempt. Outside of a sweep only the last attempt may be
    continued. A sweep continues any of its own.
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
    """Return whether a measurement may continue this attempt: its `sweep` must be the one in
    record.json (None: no sweep).

    Without a readable record.json, a measurement outside of a sweep may continue. One of a sweep
    may continue only if `raw/` is empty.
    """
    try:
        record = reading.from_file(directory / "record.json", Record)
    except (OSError, ValueError):
        return sweep is None or not any((directory / "raw").glob("*"))
    return record.sweep == sweep


def status(directory: Path) -> str | None:
    """The status in result.json. None if it cannot be read."""
    try:
        return str(read_json(directory / "result.json")["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept(job: Job) -> WorkerOutcome | None:
    """The outcome of an earlier good attempt at exactly this test. Else the earlier attempt's
    folder is renamed, and None is returned.
    """
    from harness.execution.process import read_outcome

    folder = job.log_dir
    if not folder.exists():
        return None
    outcome = read_outcome(folder)
    same = outcome and outcome.status == "ok" and _same(folder / "job.json", job)
    if same and _is_whole(folder / TRACE):
        return outcome
    set_aside(folder)
    return None


def _is_whole(packed: Path) -> bool:
    """Return whether a packed trace can be unpacked, or is not there."""
    try:
        with gzip.open(packed) as whole:
            while whole.read(1 << 20):
                pass
    except FileNotFoundError:
        return True
    except (EOFError, OSError, zlib.error):
        return False
    return True


def set_aside(folder: Path) -> None:
    """Rename the folder of an attempt, so that its logs stay."""
    attempt = 1
    while (aside := folder.with_name(f"{folder.name}.attempt-{attempt}")).exists():
        attempt += 1
    folder.rename(aside)


def _same(path: Path, job: Job) -> bool:
    """Return whether the file contains exactly this job, so that its outcome can be kept.
    Calibrations of performance tests are not compared.
    """
    try:
        earlier = read_job(path)
        # A test that ended too soon was measured again with another calibration.
        if job.test == PERFORMANCE:
            earlier = replace(earlier, calibration=job.calibration)
        return earlier == job
    except (OSError, ValueError, TypeError):
        return False
