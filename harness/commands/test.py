"""`./run.sh test`: the harness' own tests, in an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compliance.rules import CURRENT
from harness.execution import environments
from harness.execution.environments import LOCKS, ROOT
from sut.devices import HOST


def main(arguments: list[str]) -> int:
    """The tests, in an environment of their own: core, LoadGen and the development tools. Their arguments are pytest's.

    Without arguments two processes share the tests; tests/conftest.py says which gets what.
    """
    locks = [*environments.lock_files("core", HOST, CURRENT), LOCKS / "dev.txt"]
    directory = ROOT / ".cache" / "environments" / "dev"
    environments.make(directory, locks, [str(Path(sys.executable).with_name("uv"))], environments.say_on_stderr)
    arguments = arguments or ["-n", "2", "--dist", "loadgroup"]
    return subprocess.run([directory / "bin" / "python", "-P", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode
