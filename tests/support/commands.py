"""Commands of the harness in the process of the tests, and waiting for other processes."""

import os
import time

import psutil

from harness import cli


def call(words, captured):
    """No interpreter is started. → the command's exit code, its standard output and its standard error."""
    arguments = [os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words]
    try:
        code = cli.main(arguments)
    except SystemExit as ended:  # by argparse, as after --help
        code = int(ended.code or 0)
    return code, *captured.readouterr()


def until(condition, seconds=20):
    """→ what the condition gives, as soon as it gives something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)
    return found


def is_alive(pid):
    """Whether the process is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
