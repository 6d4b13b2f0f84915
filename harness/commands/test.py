"""`./run.sh test` runs the harness' tests in a separate environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

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

_AUDITS = ("tests/compliance", "tests/broken/test_on_mock.py")
"""Tests of the audit. Most of their time they wait for LoadGen, as the tests of the harness do."""

_SELECTS_NONE = ("--all", "--durations=")
"""Beginnings of the arguments that all groups of tests get."""


def main(arguments: list[str]) -> int:
    """Run the tests in an environment with core, LoadGen and the development tools. → the exit
    code. The arguments go to pytest.

    If the arguments select no tests, three groups run in parallel: those that start a framework,
    those of the audit, and all others. The output of the last two is printed at the end.
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
    others = [f"--ignore={path}" for path in (*_FRAMEWORKS, *_AUDITS)]
    with _beside([*pytest, *_AUDITS]) as audits, _beside([*pytest, *others]) as rest:
        code = subprocess.run([*pytest, *_FRAMEWORKS], cwd=ROOT, check=False).returncode
    return code or audits.returncode or rest.returncode


@contextmanager
def _beside(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run the command meanwhile. Then wait for its end, and print its output."""
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryFile("w+") as output:
        # The machine's lock file is in TMPDIR, so no process waits for another one's cells.
        environment = {**os.environ, "TMPDIR": own}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                yield process
            except BaseException:  # SIGTERM reaches only this process
                process.terminate()
                raise
        output.seek(0)
        sys.stdout.write(output.read())
