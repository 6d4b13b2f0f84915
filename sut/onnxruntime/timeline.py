"""Records which operators of ONNX Runtime run in a call, and for how long, with its profiler."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import onnxruntime_genai

from sut.evidence import operation_classes, wall_time
from sut.evidence.wall_time import Span, Trace, Window
from sut.onnxruntime.profile import spans

_NOTE = "ONNX Runtime profiles every run, so the step without the profiler has this cost, too"
_CLASSES = Path(__file__).with_name("operations.toml")
_clock = time.perf_counter_ns
_folder = tempfile.TemporaryDirectory()
_sessions: list[onnxruntime.InferenceSession] = []
_runs: list[tuple[int, Path]] = []  # (start, the beginning of the file's name) of a genai's run


class _Profiled(onnxruntime_genai.Generator):
    """A generator whose runs write their profiles, each to a file of its own."""

    def append_tokens(self, *arguments: Any) -> None:
        self._name_file()
        super().append_tokens(*arguments)

    def generate_next_token(self) -> None:
        self._name_file()
        super().generate_next_token()

    def _name_file(self) -> None:
        prefix = Path(_folder.name) / f"{len(_runs)}-"
        self.set_runtime_option("enable_profiling", str(prefix))
        _runs.append((_clock(), prefix))


def prepare() -> None:
    """Let all sessions that are made from here on write profiles. Must run before the SUT is
    loaded.
    """
    own = onnxruntime.InferenceSession.__init__

    def init(session: Any, path: Any, options: Any = None, *rest: Any, **named: Any) -> None:
        options = options or onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(_folder.name) / f"session{len(_sessions)}")
        _sessions.append(session)
        own(session, path, options, *rest, **named)

    onnxruntime.InferenceSession.__init__ = init
    onnxruntime_genai.Generator = _Profiled


def record(call: Callable[[Window], None]) -> Trace:
    """Run the call. It enters the given context around the steps to look at."""
    _runs.clear()
    start_ns, end_ns = wall_time.run(call)
    found = list(_of_runs())
    for session in _sessions:
        found += _of_session(session)
    inside = [each for each in found if start_ns <= each.start_ns <= end_ns]
    return Trace("ONNX Runtime's profiler", start_ns, end_ns, inside, notes=(_NOTE,))


def _of_session(session: Any) -> list[Span]:
    """The spans of a session. Its profile ends here. Its beginning is on the calendar's clock."""
    ahead_ns = time.time_ns() - _clock()
    began_ns = session.get_profiling_start_time_ns() - ahead_ns
    return _spans(Path(session.end_profiling()), began_ns)


def _of_runs() -> Iterator[Span]:
    """The spans of a generator's runs, each of which begins with its profile."""
    for start_ns, prefix in _runs:
        for file in prefix.parent.glob(f"{prefix.name}*"):
            yield from _spans(file, start_ns)


def _spans(file: Path, began_ns: int) -> list[Span]:
    return [
        Span(
            "session",
            name,
            operation_classes.of(_CLASSES, name),
            began_ns + 1000 * start,
            began_ns + 1000 * (start + duration),
        )
        for name, start, duration in spans(file)
    ]
