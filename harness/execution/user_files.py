"""Asks Transformers and OpenCV what they make of a user's files, by processes of `sut.user_files`.

Each library is in an environment of its own, made at its first use. Environments and answers are
kept next to the environment that runs the harness, answers by all that decides them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from compliance import CURRENT
from formats import bounds
from harness.execution import environments
from harness.execution.environments import ROOT
from scenarios.worker.child import end_with_parent
from sut import user_files
from sut.devices import HOST

AREA = "area"
_TRANSFORMERS = "transformers"
_ENVIRONMENTS = {AREA: "opencv"}
"""Program → its environment, if that is not Transformers'."""
_CACHE = Path(sys.prefix).parents[1]
_VARIABLES = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONPATH": str(ROOT)}


class Stopped(Exception):
    """The library failed, and the text is its own words, or it took too much time or memory."""


class Program:
    """A process that answers arrays. It is started when it is first asked, and again after it
    failed. `words`: the program and its folder.
    """

    def __init__(self, *words: str):
        self._words = words
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, given: np.ndarray) -> np.ndarray:
        """The answer. Raises Stopped if the library fails, and EnvironmentFailure."""
        with self._lock:
            process = self._process = self._process or self._started()
            assert process.stdin and process.stdout
            with suppress(BrokenPipeError):
                user_files.send(process.stdin, given)
            answer = user_files.receive(process.stdout)
            if answer is None:
                raise Stopped(self.end() or "it takes too much time or memory")
            return answer

    def end(self) -> str:
        """End the process, if there is one. → its last words, if it failed by itself."""
        process, self._process = self._process, None
        if process is None:
            return ""
        words = process.communicate()[1].decode(errors="replace").strip()
        return words.rpartition("\n")[2] if process.returncode == 1 else ""

    def _started(self) -> subprocess.Popen[bytes]:
        name = _ENVIRONMENTS.get(self._words[0], _TRANSFORMERS)
        made = environments.ensure(_CACHE, name, HOST, CURRENT, environments.say_on_stderr)
        return subprocess.Popen(
            [made.python, "-P", "-m", user_files.__name__, *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_VARIABLES},
            preexec_fn=end_with_parent,
        )


@contextmanager
def asked(
    name: str, files: Mapping[str, bytes] | None = None
) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """`Program.ask` of a program. `files`: all files of the folder that it reads."""
    with tempfile.TemporaryDirectory() as folder:
        for file, content in (files or {}).items():
            (Path(folder) / file).write_bytes(content)
        program = Program(name, *([] if files is None else [folder]))
        try:
            yield program.ask
        finally:
            program.end()


def contents(folder: Path, names: Iterable[str], multiple: int) -> dict[str, bytes]:
    """The contents of those files that are in the folder. `multiple`: see `formats.bounds`."""
    there = [name for name in names if (folder / name).is_file()]
    return {name: bounds.content(folder / name, multiple) for name in there}


def answer(name: str, files: Mapping[str, bytes] | None, given: Any) -> Any:
    """The answer of a program of Transformers to a JSON value. It is kept. Raises Stopped."""
    question = user_files.packed(given)

    def make() -> np.ndarray:
        with asked(name, files) as ask:
            return ask(question)

    return user_files.unpacked(kept(name, files or {}, [question.tobytes()], make))


def kept(
    name: str, files: Mapping[str, bytes], more: Iterable[bytes], make: Callable[[], np.ndarray]
) -> np.ndarray:
    """The array that `make` returns, from the cache if the same program with the same versions made
    it of the same files and `more`.
    """
    lock = environments.lock_files(_TRANSFORMERS, HOST, CURRENT)[0]
    own = (lock.read_bytes(), Path(user_files.__file__).read_bytes(), repr([*files]).encode())
    digest = hashlib.sha256()
    for part in (*own, *files.values(), *more):
        digest.update(hashlib.sha256(part).digest())
    path = _CACHE / "user-files" / f"{name}-{digest.hexdigest()[:16]}.npy"
    if not path.exists():
        made = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.save(file, made)
        partial.replace(path)
    return np.asarray(np.load(path))
