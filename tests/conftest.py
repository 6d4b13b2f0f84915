from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.execution import environments

CACHE = environments.ROOT / ".cache"
# No speed is measured in a test, and OpenMP threads that spin while they wait make torch 60 times slower beside any other busy process.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_FRAMEWORKS = ("tests/broken/", "tests/sut/", "tests/harness/inputs/test_drawn.py", "tests/test_readme.py")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # the lock of this machine lies in the temporary folder
    own = Path(tempfile.gettempdir(), f"keras-mlperf-tests-{os.getuid()}-{worker}")
    own.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(own)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of two processes that share the tests one gets all that start a framework, so that one of these runs at a time."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group("frameworks" if file.startswith(_FRAMEWORKS) else file))


@pytest.fixture(scope="session")
def interpreter() -> Callable[[str], Path]:
    """name of an environment → its interpreter, made from its lock on first use; `core` is the one that runs the tests."""

    def ensure(name: str) -> Path:
        if name == "core":
            return Path(sys.executable)
        return environments.ensure(CACHE, name, "cpu", "v6.1", environments.say_on_stderr).python

    return ensure


@pytest.fixture
def made_environment() -> environments.Environment:
    """The core environment is the one run.sh made; under pytest the same packages are in the development environment."""
    return environments.ensure(CACHE, "core", "cpu", "v6.1", environments.say_on_stderr)
