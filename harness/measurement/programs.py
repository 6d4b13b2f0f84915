"""Runs a program of `sut` in the environment of a SUT or of a reference."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.execution.environments import ROOT, Environment
from sut.devices import DEVICES, HOST

_LIMIT_S = 600


def run(
    module: str,
    environment: Environment,
    variables: Mapping[str, str],
    *arguments: str | Path,
) -> str:
    """Run `python -m module arguments` on the CPU. Return the last line of its errors, if it fails;
    else an empty text.

    Args:
        variables: environment variables in addition to the user's.
    """
    own = {**DEVICES[HOST].environment(os.environ), **variables, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [environment.python, "-P", "-m", module, *arguments],
            env=own,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {_LIMIT_S} s"
    if not done.returncode:
        return ""
    return (done.stderr.strip() or "it ended without a message").splitlines()[-1]
