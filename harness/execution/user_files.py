"""Asks Transformers and OpenCV what they make of a user's files, by processes of `sut.user_files`.

Each library is in an environment of its own, made at its first use. Answers are kept in the cache
by all that decides them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from formats import bounds
from harness.errors import EnvironmentFailure
from harness.execution import environments
from harness.execution.environments import ROOT, Environment
from scenarios.worker.child import end_with_parent
from sut import user_files
from sut.devices import HOST
from sut.registry import LIBRARIES_OF_FILES

AREA = "area"
_TRANSFORMERS, _OPENCV = LIBRARIES_OF_FILES
cache = ROOT / ".cache"
python: str | None = None
"""`--cache` and `--python`, which the plan of a cell sets (harness/request/plan.py)."""
# A thread for each core would reserve more memory than the process is allowed.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONPATH": str(ROOT),
    **dict.fromkeys(_THREADS, "1"),
}
SECONDS = 60
"""The time for an answer, in addition to a second for each 50 kB of the message."""
_BYTES_A_SECOND = 50_000


class Stopped(Exception):
    """The library failed, and the text is its own words, or it took too much time or memory."""


class Program:
    """A process that answers JSON values or arrays. It is started when it is first asked, and again
    after it failed. `files`: all files of the folder that it reads.
    """

    def __init__(self, name: str, files: Mapping[str, bytes]):
        self._name = name
        self._files = files
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Callable[[Any], Any]:
        return self.ask

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, value: Any) -> Any:
        """The answer. Raises Stopped if the library fails, and EnvironmentFailure."""
        with self._lock:
            process = self._process = self._process or self._started()
            message = user_files.packed(value)
            try:
                self._messages.send_bytes(message)
                if not self._messages.poll(SECONDS + len(message) / _BYTES_A_SECOND):
                    process.kill()
                return user_files.unpacked(self._messages.recv_bytes())
            except (EOFError, OSError):
                raise Stopped(self.end() or "it takes too much time or memory") from None

    def end(self) -> str:
        """End the process, if there is one. → its last words, if it failed by itself."""
        process, self._process = self._process, None
        if process is None:
            return ""
        self._messages.close()
        words = process.communicate()[1].decode(errors="replace").strip()
        self._folder.cleanup()
        return words.rpartition("\n")[2] if process.returncode == 1 else ""

    def _started(self) -> subprocess.Popen[bytes]:
        made = _environment(_OPENCV if self._name == AREA else _TRANSFORMERS)
        self._folder = tempfile.TemporaryDirectory()
        for file, content in self._files.items():
            (Path(self._folder.name) / file).write_bytes(content)
        self._messages, other = Pipe()
        words = [str(other.fileno()), self._name, self._folder.name]
        with other:
            return subprocess.Popen(
                [made.python, "-P", "-m", user_files.__name__, *words],
                pass_fds=[other.fileno()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **_VARIABLES},
                preexec_fn=end_with_parent,
            )


def _environment(name: str) -> Environment:
    """The interpreter of `--python` if it has the library in the version of the lock, or else an
    environment of its own. Raises EnvironmentFailure.
    """
    if python:
        with suppress(EnvironmentFailure):
            adopted = environments.adopt(python, name, HOST, cache)
            if not adopted.notes:
                return adopted
    return environments.ensure(cache, name, HOST, environments.say_on_stderr)


def contents(folder: Path, names: Iterable[str], multiple: int) -> dict[str, bytes]:
    """The contents of those files that are in the folder. `multiple`: see `formats.bounds`."""
    there = [name for name in names if (folder / name).is_file()]
    return {name: bounds.content(folder / name, multiple) for name in there}


def answer(name: str, files: Mapping[str, bytes], value: Any) -> Any:
    """The answer of a program of Transformers. It is kept. Raises Stopped."""

    def make() -> Any:
        with Program(name, files) as ask:
            return ask(value)

    return kept(name, files, [user_files.packed(value)], make)


def kept(
    name: str, files: Mapping[str, bytes], more: Iterable[bytes], make: Callable[[], Any]
) -> Any:
    """The value that `make` returns, from the cache if the same program with the same versions made
    it of the same files and `more`.
    """
    lock = environments.lock_files(_TRANSFORMERS, HOST)[0]
    decisive = [lock.read_bytes(), Path(user_files.__file__).read_bytes(), *files.values()]
    digests = [hashlib.sha256(part).digest() for part in (*decisive, *more)]
    key = hashlib.sha256(repr((*files, *digests)).encode()).hexdigest()[:16]
    path = cache / "user-files" / f"{name}-{key}"
    if not path.exists():
        message = user_files.packed(make())
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(message)
        partial.replace(path)
    return user_files.unpacked(path.read_bytes())
