"""`./run.sh test` runs the harness' tests in a separate environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from compliance.rules import CURRENT
from harness.execution import environments
from harness.execution.environments import ROOT

_FRAMEWORKS = (
    "tests/broken/test_broken.py",
    "tests/sut",
    "tests/harness/inputs/test_drawn.py",
    "tests/studies/test_fit_overhead.py",
    "tests/test_worked_example.py",
)
"""Tests that start a framework. They run one at a time, because two need too much memory."""

_WITH_THEM = ("tests/harness/measurement/test_engines.py",)
"""Tests of the same group that start none, so that both groups take as long."""

_SELECTS_NONE = ("--all", "--part=", "--durations=")
"""Beginnings of the arguments that both groups of tests get."""


def main(arguments: list[str]) -> int:
    """Run the tests in an environment with core, LoadGen and the development tools. → the exit
    code. The arguments go to pytest.

    If the arguments select no tests, those that start a framework run in parallel with all others,
    whose output is printed last.
    """
    directory = ROOT / ".cache" / "environments" / "dev"
    environments.make(
        directory,
        environments.locks_of_tests(CURRENT),
        environments.installer(),
        environments.say_on_stderr,
    )
    pytest = [str(directory / "bin" / "python"), "-P", "-m", "pytest", *arguments]
    if not all(argument.startswith(_SELECTS_NONE) for argument in arguments):
        return subprocess.run(pytest, cwd=ROOT, check=False).returncode
    group = (*_FRAMEWORKS, *_WITH_THEM)
    others = [*pytest, *(f"--ignore={path}" for path in group)]
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryFile("w+") as output:
        # The machine's lock file is in TMPDIR, so neither process waits for the other's cells.
        environment = {**os.environ, "TMPDIR": own}
        with subprocess.Popen(
            others, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as beside:
            try:
                code = subprocess.run([*pytest, *group], cwd=ROOT, check=False).returncode
            except BaseException:  # SIGTERM reaches only this process
                beside.terminate()
                raise
        output.seek(0)
        sys.stdout.write(output.read())
    return code or beside.returncode
