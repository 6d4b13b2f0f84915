"""Models that a runtime's tools make of a checkpoint. They are kept in the cache, by the weights
and the versions of the environment (`Workload.converted`).

A converter is a module of its own, whose process ends before anything is measured. Neither its
memory nor its threads are those of the SUT.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from sut.contract import Unsupported, Workload
from sut.evidence import compilations

_REFUSED = "refused.txt"
_SUT = Path(__file__).parent

_found: list[bool] = []  # for each model that was looked for in the cache, whether it was there


def count() -> None:
    """From now on, count converted models as programs that are found in a cache on disk. A SUT
    calls it when it is loaded, and converts in its first batch, so that the time counts as
    compiling.
    """
    compilations.count_cached_by(lambda: sum(_found), lambda: len(_found) - sum(_found))


@contextmanager
def folder(workload: Workload, name: str, module: str, *arguments: Any) -> Iterator[Path]:
    """A context in which a SUT reads a converted model from the folder that it yields. A process
    that runs `module` fills the folder, unless it is in the cache.

    Processes that need the same model wait for the first one. A folder that was not completed is
    made again. Raises Unsupported in the words of the converter if it refuses the model.

    Args:
        name: a name for everything that the model depends on in addition to the checkpoint, the
            environment and this code.
        module: its `main` is `converter` of a function.
        arguments: JSON values for that function.
    """
    if workload.converted is None:
        with tempfile.TemporaryDirectory() as temporary:
            _run(module, workload, Path(temporary), *arguments)
            yield Path(temporary)
        return
    workload.converted.mkdir(parents=True, exist_ok=True)
    path = workload.converted / f"{name}-{_source_digest()}"
    with _held(path.with_name(f"{path.name}.lock")):
        _found.append(path.exists())
        if not _found[-1]:
            partial = path.with_name(f"{path.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                _run(module, workload, partial, *arguments)
                partial.rename(path)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    yield path


@cache
def _source_digest() -> str:
    """The digest of the code that converts, which may be in any room of `sut`."""
    digest = hashlib.sha256()
    for each in sorted(_SUT.rglob("*.py")):
        digest.update(each.read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Hold a lock file. The kernel releases it when this process ends."""
    handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _run(module: str, workload: Workload, path: Path, *arguments: Any) -> None:
    """Run `python -m module`, which fills the folder. Its output goes to the worker's log."""
    paths = {"checkpoint": str(workload.checkpoint), "converted": None}
    given = [{**asdict(workload), **paths}, str(path), *arguments]
    command = [sys.executable, "-P", "-m", module, str(os.getpid())]
    code = subprocess.run(command, input=json.dumps(given), text=True, check=False).returncode
    refused = path / _REFUSED
    if refused.exists():
        raise Unsupported(refused.read_text(encoding="utf-8"))
    if code:
        raise RuntimeError(f"{module} failed with exit code {code}: worker.log has its words")


def converter(convert: Callable[..., None]) -> None:
    """Run `convert` (workload, folder to fill, arguments) as `folder` requests it."""
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)
    fields, folder, *arguments = json.load(sys.stdin)
    workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
    try:
        convert(workload, Path(folder), *arguments)
    except Unsupported as e:
        (Path(folder) / _REFUSED).write_text(str(e), encoding="utf-8")
