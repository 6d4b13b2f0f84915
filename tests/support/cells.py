"""A cell of the mock as a user asks for it, and who is told of its progress."""

import shlex
from dataclasses import fields
from pathlib import Path

import psutil

from harness.measurement.attempt import Attempt
from harness.request import plan
from harness.request.options import Options, flag
from harness.request.request import Request
from tests.conftest import CACHE

FLAGS = {each.name for each in fields(Options) if each.metadata}


def request(out: Path, *, options=None, **changes) -> Request:
    """`options`: the SUT's own, by name."""
    flags = {
        "sut": "mock",
        "model": "bert",
        "scenario": "SingleStream",
        "out": out,
        "cache": CACHE,
        "duration": 0.3,
    }
    given = tuple(f"{name}={value}" for name, value in (options or {}).items())
    flags |= {"sut_option": given} | changes
    return plan.resolve(Options(**({"command": command(flags)} | flags)))


def attempt(asked: Request, environment, inputs, checkpoint) -> Attempt:
    """An attempt at the cell of a request."""
    made = {"environment": environment, "inputs": inputs, "checkpoint": checkpoint}
    return Attempt(request=asked, cell=asked.cell(), **made)


def command(flags) -> str:
    """The command with these flags, by the names of `Options`."""
    words = ["./run.sh"]
    for name, value in flags.items():
        if name not in FLAGS or value is None:
            continue
        for each in value if isinstance(value, tuple) else [value]:
            words += [flag(name), str(each)]
    return shlex.join(words)


class Reporter:
    """Keeps what is said; `stop` interrupts the named test when it begins."""

    def __init__(self, stop=None):
        self.said, self.stop = [], stop

    def say(self, text):
        self.said.append(text)

    def warn(self, text):
        self.say(text)

    def planned(self, test, found):
        self.said.append(f"{test} planned: {found['samples']}")

    def watch(self, what):
        def seen(beat):
            if what == self.stop:
                raise KeyboardInterrupt

        return seen


class Killer(Reporter):
    """Kills the worker while it runs the accuracy test."""

    def watch(self, what):
        def seen(beat):
            if what == "accuracy" and beat.phase == "test":
                children = psutil.Process().children()
                living = [c for c in children if c.status() != psutil.STATUS_ZOMBIE]
                (worker,) = (c for c in living if "scenarios.worker" in c.cmdline())
                worker.kill()

        return seen
