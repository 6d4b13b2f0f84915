"""What a node must share with the machine of the LoadGen process: its kind, and the files that a
replica reads. On another node, files of the same paths may differ.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from formats.job import Job
from scenarios.worker.system import counters

_ROOT = Path(__file__).parents[3]
_PACKAGES = ("formats", "scenarios", "sut")
_LOCK = "lock.txt"
"""The lock from which an environment was made, in its folder."""


def facts(job: Job) -> dict[str, str]:
    """Name of a fact → its value on this machine. The value of a file is its path and the first
    digits of its sha256. A file that does not exist has the digest of nothing.
    """
    inputs = {"inputs": job.inputs, "synthetic inputs": job.synthetic, "fresh inputs": job.fresh}
    paths = {"lock": Path(sys.prefix) / _LOCK, **inputs, "weights": job.workload.checkpoint}
    # A SUT that reads no weights has the path `.`.
    read = {name: path for name, path in paths.items() if path and path != Path()}
    return {
        "device": counters.device_name(job.workload.device),
        "logical processors": str(os.cpu_count()),
        "source": _named(_ROOT, _digest([_ROOT / package for package in _PACKAGES], "*.py")),
        **{name: _named(path, _digest([path])) for name, path in read.items()},
    }


def _named(path: Path, digest: str) -> str:
    return f"{path} (sha256 {digest[:12]})"


def _digest(paths: list[Path], pattern: str = "*") -> str:
    """The sha256 of files, and of all files below folders with their names."""
    whole = hashlib.sha256()
    for path in paths:
        below = [each for each in sorted(path.rglob(pattern)) if each.is_file()]
        for file in below or [path] * path.is_file():
            whole.update(file.relative_to(path).as_posix().encode())
            with file.open("rb") as content:
                whole.update(hashlib.file_digest(content, "sha256").digest())
    return whole.hexdigest()
