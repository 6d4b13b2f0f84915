"""The command line: flags in, exit code out.

Exit codes: 0 good, 1 a cell or an audit failed, 2 usage, 3 environment, 4 nothing proven, 70 a
fault of the harness, 130 interrupted.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import io
import os
import shlex
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn, TextIO

from formats import bounds
from harness.commands import COMMANDS, GONE
from harness.errors import HarnessError, UsageError
from harness.request.flags import did_you_mean


def main(arguments: list[str]) -> int:
    """Run the command that `arguments` name. → the exit code."""
    _prepare_process()
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:2], "--help"]
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] in COMMANDS else arguments
    try:
        if arguments == ["--version"]:
            return _version()
        _check(arguments)
        # Imported late, so that `list` and --help are fast without numpy.
        code: int = importlib.import_module(f"harness.commands.{command}").main(rest)
        sys.stdout.flush()
        return code
    # The reader of our output has ended, as `| head` does. The measured files stay.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        again = shlex.join(["./run.sh", *arguments])
        _error(
            "interrupted: finished measurements stay; the same command continues from there:"
            f" {again}"
        )
        return 130
    except HarnessError as e:
        _error(str(e))
        return e.exit_code
    except bounds.TooLarge as e:
        _error(str(e))
        return UsageError.exit_code
    except OSError as e:
        file = e.filename or "while writing"
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            _error(
                f"the disk is full ({file}): free some space, or choose another --out or --cache"
            )
        else:
            _error(f"{e.strerror} ({file}): see --out and --cache")
        return 3
    except Exception:  # noqa: BLE001  the last resort: whole traceback, exit code 70
        return _fault()


def _check(arguments: list[str]) -> None:
    for argument in arguments:
        if not _encodable(argument):
            raise UsageError(f"{argument!a}: is not UTF-8: rename the file, or type another value")
    if not arguments:
        return
    command = arguments[0]
    if command in GONE:
        raise UsageError(f"{command}: is no command any more: {GONE[command]} does it")
    if not command.startswith("-") and command not in COMMANDS:
        raise UsageError(
            f"there is no command {command!r}{did_you_mean(command, COMMANDS)}:"
            f" {', '.join(COMMANDS)}"
        )


def _writable(stream: TextIO | None) -> TextIO:
    """Return the stream, or one to /dev/null if it is closed or cannot be written. If a caller
    closed it, a shell may have opened a file for reading in its place.
    """
    try:
        if stream and fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            return stream
    except io.UnsupportedOperation:  # a test's stream, without a file
        return stream or io.StringIO()
    except OSError:
        pass
    return Path(os.devnull).open("w", encoding="utf-8")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _version() -> int:
    import tomllib

    from compliance import CURRENT
    from harness import terminal
    from harness.execution.environments import ROOT

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    terminal.line(f"{project['name']} {project['version']}, MLPerf Inference {CURRENT}")
    return 0


def _prepare_process() -> None:
    """Let signals end the command in order, and let no character that cannot be printed raise an
    error.
    """
    # Set explicitly, because a shell ignores SIGINT for a command that it starts with &.
    bounds.available_bytes = _available_memory_bytes
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    sys.stdout, sys.stderr = _writable(sys.stdout), _writable(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is not UTF-8 gets escapes instead of an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _available_memory_bytes() -> int | None:
    """As in `scenarios.worker.preflight`, which is imported late because it imports numpy."""
    from scenarios.worker.preflight import available_memory_bytes

    return available_memory_bytes()


def _fault() -> int:
    traceback.print_exc()
    _error("this is a fault of the harness: please report the traceback above with the command")
    return os.EX_SOFTWARE


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _error(text: str) -> None:
    from harness import terminal

    terminal.error(text)
