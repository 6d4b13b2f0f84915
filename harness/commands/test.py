"""`./run.sh test` runs the harness' tests in a separate environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.execution import environments
from harness.execution.environments import ROOT

_PROCESSES = 3
"""More than the cores of a small machine, because many tests wait. One of them starts frameworks:
two need too much memory.
"""

_SELECTS_NONE = ("--all", "--part=", "--durations=")
"""Beginnings of the arguments with which the processes share the tests."""


def main(arguments: list[str]) -> int:
    """Run the tests in an environment with core, LoadGen and the development tools. → the exit
    code. The arguments go to pytest.

    If the arguments select no tests, several processes share them. The output of all but the first
    one is printed last.
    """
    directory = ROOT / ".cache" / "environments" / "dev"
    environments.make(
        directory,
        environments.locks_of_tests(),
        environments.installer(),
        environments.say_on_stderr,
    )
    pytest = [str(directory / "bin" / "python"), "-P", "-m", "pytest", *arguments]
    if not all(argument.startswith(_SELECTS_NONE) for argument in arguments):
        return subprocess.run(pytest, cwd=ROOT, check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        return _share(pytest, Path(folder))


def _share(pytest: list[str], folder: Path) -> int:
    """Run the tests in several processes (`--share` of tests/conftest.py). → the exit code."""
    command = [*pytest, f"--share={folder}"]
    others = list[subprocess.Popen[bytes]]()
    outputs = [folder / str(number) / "output" for number in range(1, _PROCESSES)]
    try:
        for output in outputs:
            output.parent.mkdir()
            # The machine's lock file is in TMPDIR, so no process waits for another one's cells.
            environment = {**os.environ, "TMPDIR": str(output.parent)}
            with output.open("w") as file:
                others.append(
                    subprocess.Popen(
                        command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
                    )
                )
        codes = [subprocess.run(command, cwd=ROOT, check=False).returncode]
        codes += [each.wait() for each in others]
    except BaseException:  # SIGTERM reaches only this process
        for each in others:
            each.terminate()
            each.wait()
        raise
    for output in outputs:
        sys.stdout.write(output.read_text(encoding="utf-8", errors="replace"))
    return next(filter(None, codes), 0)
