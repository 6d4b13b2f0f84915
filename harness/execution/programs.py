"""Runs a program of `sut` in the environment of a SUT or of a reference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from formats.workload import Variables
from harness.execution.environments import ROOT, Environment
from scenarios.worker.child import Child, end_with_parent
from sut.devices import DEVICES, HOST

_LIMIT_S = 600


def run(
    module: str,
    environment: Environment,
    variables: Variables,
    arguments: Sequence[str | Path],
    folder: Path,
    *,
    device: str = HOST,
    cores: Sequence[int] = (),
    limit_s: float = _LIMIT_S,
    lines: int = 1,
) -> str:
    """Run `python -m module arguments`. Return the last lines of its output, if it fails; else an
    empty text.

    Args:
        variables: environment variables in addition to the user's.
        folder: it is run there, and its output stays there.
        cores: to which it is pinned; empty: it is not.
        lines: at most so many are returned.
    """
    own = {
        **DEVICES[device].environment(os.environ),
        **variables,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    command = [environment.python, "-P", "-m", module, *arguments]
    log = folder / "program.log"
    child = Child(command, folder, log, own, cores, preexec_fn=end_with_parent)
    try:
        how = child.how(limit_s)
    finally:
        child.end()
    if not how:
        return f"it takes more than {limit_s:g} s"
    if not child.returncode:
        return ""
    output = log.read_text(encoding="utf-8", errors="replace").strip()
    return " / ".join(output.splitlines()[-lines:]) or f"it {how}, without a message"
