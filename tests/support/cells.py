"""A cell of the mock as a user asks for it, who is told of its progress, and its Result."""

import shlex

import psutil

from harness.measurement import run
from harness.measurement.attempt import Attempt
from harness.request import plan
from harness.request.options import FLAGS, Options, flag, parse
from harness.sweep import cells
from tests.conftest import CACHE


def request(out, *, options=None, **changes):
    """`options`: the SUT's own, by name."""
    flags = {"sut": "mock", "model": "bert", "scenario": "SingleStream"}
    flags |= {"out": out, "cache": CACHE, "duration": 0.3}
    flags["sut_option"] = tuple(f"{name}={value}" for name, value in (options or {}).items())
    flags |= changes
    return plan.resolve(Options(**({"command": command(flags)} | flags)))


def attempt(asked, environment, inputs, checkpoint):
    """An attempt at the cell of a request."""
    made = {"environment": environment, "inputs": inputs, "checkpoint": checkpoint}
    return Attempt(request=asked, cell=asked.cell(), **made)


def command(flags):
    """The command with these flags, by the names of `Options`."""
    words = ["./run.sh"]
    for name, value in flags.items():
        if name not in FLAGS or value is None:
            continue
        for each in value if isinstance(value, tuple) else [value]:
            words += [flag(name), str(each)]
    return shlex.join(words)


def resolved(*words):
    """The request of a command with these words."""
    return plan.resolve(parse([*map(str, words)]))


GRID = {"sut": "mock", "model": "bert", "scenario": "Offline", "size": "tiny"}
WHERE = {"cache": [str(CACHE)], "out": ["nowhere"]}
"""Of a sweep that is not measured."""


def cells_of(*grids, control=False, out="nowhere", **values):
    """The cells that a sweep makes of lists of values, or of several of them; GRID is the rest."""
    lists = [
        {
            name: value if isinstance(value, list) else [value]
            for name, value in (GRID | grid).items()
        }
        for grid in grids or (values,)
    ]
    return cells.make(lists, WHERE | {"out": [str(out)]}, control)


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


def measure(asked, reporter=None):
    """Measure the cell of a request. → its Result."""
    return run.run(asked, reporter or Reporter(), 0)


class Killer(Reporter):
    """Kills the worker while it runs the accuracy test."""

    def watch(self, what):
        def seen(beat):
            if what == "accuracy" and beat.phase == "test":
                for child in psutil.Process().children():  # a worker that was killed may be there
                    is_alive = child.status() != psutil.STATUS_ZOMBIE
                    if is_alive and "scenarios.worker" in child.cmdline():
                        child.kill()

        return seen
