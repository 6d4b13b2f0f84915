"""`./run.sh test`: the harness' own tests, in an environment of their own."""

from __future__ import annotations

import subprocess

from compliance.rules import CURRENT
from harness.execution import environments
from harness.execution.environments import ROOT


def main(arguments: list[str]) -> int:
    """The tests, in an environment of their own: core, LoadGen and the development tools. Their arguments are pytest's."""

    directory = ROOT / ".cache" / "environments" / "dev"
    environments.make(directory, environments.test_locks(CURRENT), environments.installer(), environments.say_on_stderr)
    return subprocess.run([directory / "bin" / "python", "-P", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode
