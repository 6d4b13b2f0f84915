import argparse
import os
import signal
import sys
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings

from harness.execution import environments, wheels
from sut.registry import REFERENCE, SUTS, spec_of

CACHE = environments.ROOT / ".cache"
# No speed is measured in a test. OpenMP threads that spin while they wait make torch 60 times
# slower beside any other busy process, and at size tiny a second thread costs more than it brings.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What the tests say of the defaults is of a machine without a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser):
    """The options `--all`, `--part` and `--share`."""
    parser.addoption("--all", action="store_true", help="run the tests that are marked `long` too")
    parser.addoption(
        "--part",
        metavar="I/N",
        type=_part,
        help="run one of N parts of them; a number I above N begins again",
    )
    parser.addoption(
        "--share",
        metavar="FOLDER",
        type=Path,
        help="leave out the files of tests that another process with this folder has begun",
    )


def _part(text):
    number, parts = (int(word) for word in text.split("/"))
    if parts < 1:
        raise argparse.ArgumentTypeError(f"{text}: there is at least one part (I/N)")
    return number % parts, parts


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out long tests, unless `--all`, `--part`, `-m` or the id of a test selects them. Tests
    of real SUTs come last, in the order of the processes that serve them.
    """
    items.sort(key=_process)
    if config.option.all or config.option.markexpr:
        return
    number, parts = config.option.part or (0, 0)
    left_out = [
        item
        for item in items
        if item.get_closest_marker("long")
        and not _is_named(item)
        and not (parts and _place(item) % parts == number)
    ]
    config.hook.pytest_deselected(items=left_out)
    config.stash[_LEFT_OUT] = len(left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _process(item):
    """The place of the framework's process that serves the test. That of PyTorch is the first one,
    because it makes the reference's answers. Tests that start no framework have place 0.
    """
    if "interpreter" not in getattr(item, "fixturenames", ()):
        return 0
    named = item.callspec.params if hasattr(item, "callspec") else {}
    sut = named.get("sut", getattr(item.module, "SUT", REFERENCE))
    return 1 + _PROCESSES.index(_served_by(sut))


def _served_by(sut):
    spec = spec_of(sut)
    return spec.environment, frozenset(spec.process_env.items())


_PROCESSES = [_served_by(sut) for sut in (REFERENCE, *SUTS)]


def _place(item):
    """A number that the long tests of one process share, or else those of one file."""
    return _process(item) or zlib.crc32(item.path.name.encode())


def pytest_runtestloop(session):
    """With `--share`, run the tests that no other process has begun."""
    folder = session.config.option.share
    if not folder or session.testsfailed:
        return None
    for item, following in pairwise(_begun(session.items, folder)):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def _begun(items, folder):
    """The tests of the files that this process is the first to begin, and None. All tests of real
    SUTs count as one file. They are the last one and take longest, so the first process goes from
    the last file to the first.
    """
    files = {}
    for item in items:
        name = "real SUTs" if _process(item) else str(item.path).replace(os.sep, " ")
        files.setdefault(name, []).append(item)
    names = [*files]
    if _is_first(folder / "process"):
        names.reverse()
    for name in names:
        if _is_first(folder / name):
            yield from files[name]
    yield None


def _is_first(path):
    """Make the file. → whether no other process has made it."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _is_named(item):
    """Whether an argument is the id of the test, or of its function with all parameters."""
    own = item.nodeid.partition("::")[2]
    names = {own, own.partition("[")[0]}
    for argument in item.config.args:
        file, _, name = argument.partition("::")
        if name in names and Path(file).resolve() == item.path:
            return True
    return False


def pytest_terminal_summary(terminalreporter, config):
    """Say how many tests were left out."""
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{count} long tests were left out; `./run.sh test --all` runs them"
        )


def pytest_runtest_teardown():
    """Ignore SIGPIPE again. Commands that print set it to end their process, which is pytest here."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@pytest.fixture(scope="session")
def interpreter():
    """name of an environment → its interpreter, made from its lock on first use; `core` is the one
    that runs the tests.

    In a bundle that does not hold the environment the test is skipped: no network could bring it.
    """

    def ensure(name):
        if name == "core":
            return Path(sys.executable)
        if (bundle := wheels.bundle(environments.ROOT)) and f"{name}-cpu" not in wheels.manifest(
            bundle
        )["environments"]:
            pytest.skip(f"the bundle {bundle} holds no {name}")
        return environments.ensure(CACHE, name, "cpu", environments.say_on_stderr).python

    return ensure


@pytest.fixture
def made_environment():
    """The core environment is the one run.sh made; under pytest the same packages are in the
    development environment.
    """
    return environments.ensure(CACHE, "core", "cpu", environments.say_on_stderr)
