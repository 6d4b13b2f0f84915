from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from harness.execution import environments, wheels

CACHE = environments.ROOT / ".cache"
# No speed is measured in a test. OpenMP threads that spin while they wait make torch 60 times
# slower beside any other busy process, and at size tiny a second thread costs more than it brings.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What the tests say of the defaults is of a machine without a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


def pytest_runtest_teardown() -> None:
    """Ignore SIGPIPE again. Commands that print set it to end their process, which is pytest here."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@pytest.fixture(scope="session")
def interpreter() -> Callable[[str], Path]:
    """name of an environment → its interpreter, made from its lock on first use; `core` is the one
    that runs the tests.

    In a bundle that does not hold the environment the test is skipped: no network could bring it.
    """

    def ensure(name: str) -> Path:
        if name == "core":
            return Path(sys.executable)
        if (bundle := wheels.bundle(environments.ROOT)) and f"{name}-cpu" not in wheels.manifest(
            bundle
        )["environments"]:
            pytest.skip(f"the bundle {bundle} holds no {name}")
        return environments.ensure(CACHE, name, "cpu", "v6.1", environments.say_on_stderr).python

    return ensure


@pytest.fixture
def made_environment() -> environments.Environment:
    """The core environment is the one run.sh made; under pytest the same packages are in the
    development environment.
    """
    return environments.ensure(CACHE, "core", "cpu", "v6.1", environments.say_on_stderr)
