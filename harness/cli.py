"""The command line: flags in, exit code out. 0 good, 1 a cell or an audit failed, 2 usage, 3 environment, 4 internal, 130 interrupted."""

from __future__ import annotations

import errno
import importlib
import io
import shlex
import signal
import sys
import traceback
from typing import NoReturn

from harness.commands import COMMANDS, FORMER
from harness.errors import HarnessError, UsageError
from harness.flags import did_you_mean


def main(arguments: list[str]) -> int:
    """Run the command that `arguments` name. → the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # explicitly: a shell ignores SIGINT for what it starts with &
        signal.signal(number, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that is not UTF-8 gets escapes, not a fault
            stream.reconfigure(errors="backslashreplace")
    if arguments and arguments[0] in FORMER:
        arguments = [FORMER[arguments[0]], *arguments[1:]]
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] in COMMANDS else arguments
    try:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            raise UsageError(f"there is no command {arguments[0]!r}{did_you_mean(arguments[0], COMMANDS)}: {', '.join(COMMANDS)}")
        code: int = importlib.import_module(f"harness.commands.{command}").main(rest)  # `list` and --help answer at once, without numpy
        return code
    except KeyboardInterrupt:
        again = shlex.join(["./run.sh", *arguments])
        _error(f"interrupted: what was measured stays; the same command goes on from there: {again}")
        return 130
    except HarnessError as e:
        _error(str(e))
        return e.exit_code
    except OSError as e:
        full = e.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space, or choose another --out or --cache" if full else "see --out and --cache"
        _error(f"{'the disk is full' if full else e.strerror} ({e.filename or 'while writing'}): {advice}")
        return 3
    except Exception:  # noqa: BLE001  the last resort: whole traceback, exit code 4
        return _fault()


def _fault() -> int:
    traceback.print_exc()
    _error("this is a fault of the harness: please report the traceback above with the command")
    return 4


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _error(text: str) -> None:
    from harness import terminal

    terminal.error(text)
