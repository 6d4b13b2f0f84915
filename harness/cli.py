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

from harness.commands import COMMANDS, FORMER
from harness.errors import HarnessError, UsageError
from harness.request.flags import did_you_mean


def main(arguments: list[str]) -> int:
    """Run the command that `arguments` name. → the exit code."""
    _prepare_process()
    if arguments and arguments[0] in FORMER:
        arguments = [FORMER[arguments[0]], *arguments[1:]]
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:2], "--help"]
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] in COMMANDS else arguments
    try:
        if arguments == ["--version"]:
            return _version()
        if strange := next((a for a in arguments if not _encodable(a)), None):
            raise UsageError(f"{strange!a}: is not UTF-8: rename what it names")
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            raise UsageError(
                f"there is no command {arguments[0]!r}{did_you_mean(arguments[0], COMMANDS)}:"
                f" {', '.join(COMMANDS)}"
            )
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
            f"interrupted: what was measured stays; the same command goes on from there: {again}"
        )
        return 130
    except HarnessError as e:
        _error(str(e))
        return e.exit_code
    except OSError as e:
        full = e.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = (
            "free some space, or choose another --out or --cache"
            if full
            else "see --out and --cache"
        )
        _error(
            f"{'the disk is full' if full else e.strerror} ({e.filename or 'while writing'}):"
            f" {advice}"
        )
        return 3
    except Exception:  # noqa: BLE001  the last resort: whole traceback, exit code 70
        return _fault()


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

    from compliance.rules import CURRENT
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
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    sys.stdout, sys.stderr = _writable(sys.stdout), _writable(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is not UTF-8 gets escapes instead of an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fault() -> int:
    traceback.print_exc()
    _error("this is a fault of the harness: please report the traceback above with the command")
    return os.EX_SOFTWARE


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _error(text: str) -> None:
    from harness import terminal

    terminal.error(text)
