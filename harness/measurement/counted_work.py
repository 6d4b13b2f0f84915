"""The work of a sample, as the worker of the reference counted it. It is kept with the reference.

If a reference has none that today's source counted, another worker counts it, without new answers.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from formats import reading
from formats.outcome import WorkerOutcome
from formats.work import Counted
from harness.execution.environments import ROOT, is_made
from harness.request.request import Request
from scenarios.worker.work import FILE
from sut.registry import COUNTER, REFERENCE, spec_of

_FILES = (
    "formats/work.py",
    "scenarios/worker/work.py",
    f"{COUNTER.replace('.', '/')}.py",
    "sut/evidence/operation_classes.py",
    "sut/evidence/operations.toml",
)


def keep(folder: Path) -> None:
    """Give the file of the worker its final name in the folder of the reference."""
    if (folder / FILE).exists():
        (folder / FILE).rename(folder / _name())


def of(
    request: Request,
    reference: str,
    folder: Path,
    count: Callable[[], WorkerOutcome],
    scratch: Path,
) -> Counted:
    """Return the work of a sample. There is none, without a reason, if the reference is not the
    usual one or its environment is not installed.

    Args:
        folder: that of the reference.
        count: runs a worker that writes its files to `scratch`.
    """
    if reference != REFERENCE:
        return Counted(work=None)
    path = folder / _name()
    if not path.exists():
        options = request.options
        environment = spec_of(REFERENCE).environment
        if options.python is None and not is_made(options.cache, environment, request.device):
            return Counted(work=None)
        outcome = count()
        if outcome.status != "ok":
            shutil.rmtree(scratch)
            return Counted(work=None, reason=f"{outcome.status}: {outcome.reason}")
        (scratch / FILE).rename(path)
        shutil.rmtree(scratch)
    return reading.from_file(path, Counted)


def _name() -> str:
    """The final name of the file. It has a digest of the source that counts."""
    total = hashlib.sha256()
    for file in _FILES:
        total.update((ROOT / file).read_bytes())
    return f"work-{total.hexdigest()[:8]}.json"
