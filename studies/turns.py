"""Runs a SUT in its environment. It makes calls on command, so that several processes can take
turns on one machine.

A process is stopped (SIGSTOP) until its next turn. Its threads can neither spin nor work while
another process is measured. The frameworks run with the harness' settings.

`python -m studies.turns SPEC.json` loads the specification's SUT (`benchmarks.answers`), and
prepares inputs.npz in the same folder. It answers each line of its input with a line of JSON. The
answer to `turn S` is the milliseconds of a call, and to `layers S` the share of a call's time in
each layer.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import answers
from harness.execution.interpreter import die_with_parent

_WARM_UP = 5
_SAMPLE_S = 1e-3
DEVICE = "the device, and the copy to the host"
OTHER = "the SUT's own lines"
_LAYERS = (
    ("Keras: variables in and out", r":_get_jax_state$|:jax_state_sync$"),
    ("Keras: attributes that a layer tracks", r"/keras/.*:__setattr__$"),
    # At these places JAX's arrays become NumPy's.
    (DEVICE, r"/jax/_src/array\.py:|/backend/jax/trainer\.py:<lambda>$|/native_jax/.*:to_host$"),
    ("JAX: dispatch", r"/jax/|/jaxlib/|:_program$"),
    (
        "Keras: standardising inputs and answers",
        r"/keras/src/tree/|/keras/src/trainers/data_adapters/|/optree/|:standardi[sz]e",
    ),
    ("Keras: the rest of its call", r"/keras/|/keras_hub/"),
    (OTHER, ""),
)
"""Layer → pattern of file:function. Time belongs to the first layer whose pattern matches one of
the frames of a call.
"""
LAYERS = tuple(_LAYERS[n][0] for n in (0, 1, 4, 5, 6, 3, 2))
"""Keras' layers, then those below Keras."""


class Peer:
    """A SUT in another process, which is stopped between its turns. Closing it ends the process.

    The process runs `module`, and the file `specification` is its argument.
    """

    def __init__(
        self,
        specification: Path,
        python: Path,
        process_env: Mapping[str, str],
        module: str = __name__,
    ):
        env = {**os.environ, **process_env, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [str(python), "-P", "-m", module, str(specification)]
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # a stopped process does not see that its input ended
        )
        self._answer()  # once it is loaded

    def turn(self, seconds: float) -> float:
        """Call for so many seconds, at least once. Return the median milliseconds of a call."""
        return float(self._ask(f"turn {seconds}"))

    def layers(self, seconds: float) -> dict[str, float]:
        """Call for so many seconds. Return layer → its share of the time."""
        return dict(self._ask(f"layers {seconds}"))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin and self.process.stdout
        self.process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # the process has ended already
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _ask(self, line: str) -> Any:
        assert self.process.stdin
        self.process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # the process has ended, as the missing answer shows
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise RuntimeError(f"{self.process.args!r} ended with {code}; its output is above")
        self._stop()
        return json.loads(line)

    def _stop(self) -> None:
        """Stop every thread of the process. Return when all have stopped, or the process has
        ended.
        """
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def main(specification: Path) -> None:
    """Answer until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks print, too
    spec = json.loads(specification.read_text(encoding="utf-8"))
    call = _call(spec, specification.with_name("inputs.npz"))
    for _ in range(_WARM_UP):
        call()
    reply: Any = "ready"
    commands: dict[str, Callable[[Callable[[], Any], float], Any]] = {
        "turn": _turn,
        "layers": _layers,
    }
    while True:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        line = sys.stdin.readline()
        if not line:
            return
        name, seconds = line.split()
        reply = commands[name](call, float(seconds))


def _call(spec: Mapping[str, Any], inputs: Path) -> Callable[[], Any]:
    """Return a function that calls `predict` and `to_host` of one prepared batch."""
    import numpy as np

    if spec["workload"]["backend"] == "jax":
        _mark_programs()
    sut = answers.load(spec)
    with np.load(inputs) as f:
        batch = sut.prepare(dict(f))
    if hasattr(sut, "program"):
        setattr(sut, "program", _marked(sut.program))  # noqa: B010  a protocol has no such attribute
    return lambda: sut.to_host(sut.predict(batch))


def _mark_programs() -> None:
    """Give each program that Keras compiles its own Python frame. Time in the program counts as
    time of the frame that calls it.
    """
    trainer = importlib.import_module("keras.src.backend.jax.trainer")
    compiled = trainer.jit
    # A function of the module is replaced.
    setattr(trainer, "jit", lambda *rest, **named: _marked(compiled(*rest, **named)))  # noqa: B010


def _marked(program: Callable[..., Any]) -> Callable[..., Any]:
    def _program(*rest: Any, **named: Any) -> Any:
        return program(*rest, **named)

    return _program


def _turn(call: Callable[[], Any], seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def _layers(call: Callable[[], Any], seconds: float) -> dict[str, float]:
    """Sample the running Python frame a thousand times a second. A profiler that follows every call
    would make small calls look large.
    """
    seen: Counter[str] = Counter()
    last_s = time.perf_counter()

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal last_s
        now_s = time.perf_counter()  # no handler runs during C code, so one look may count for many
        seen[_layer(frame)] += max(1, round((now_s - last_s) / _SAMPLE_S))
        last_s = now_s

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _SAMPLE_S, _SAMPLE_S)
    _turn(call, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    total = sum(seen.values())
    return {name: seen[name] / total for name in LAYERS}


def _layer(frame: FrameType | None) -> str:
    """Return the layer of a stack of frames. The last layer's pattern matches every frame."""
    stack = []
    while frame is not None:
        stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        frame = frame.f_back
    for name, pattern in _LAYERS:
        if any(re.search(pattern, place) for place in stack):
            return name
    return OTHER


if __name__ == "__main__":
    main(Path(sys.argv[1]))
