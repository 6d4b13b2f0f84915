"""The worked examples of docs/: their blocks of code, and a copy of the source to put them into."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harness.execution.environments import ROOT


def blocks(document: str) -> dict[str, str]:
    """What stands behind the language of a block, a path or a word → the block's text."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```", text, re.M | re.S))


def copy_of_the_source(directory: Path) -> Path:
    """What a run needs; environments are the real ones, everything else that a run keeps is the
    copy's own.
    """
    for name in ("harness", "results", "scenarios", "sut", "compliance", "formats", "environments"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "run.sh", directory / "run.sh")
    (directory / ".cache").mkdir()
    (directory / ".cache" / "environments").symlink_to(ROOT / ".cache" / "environments")
    return directory


def insert(path: Path, behind: str, lines: str) -> None:
    """Put lines behind the one line of a file that is `behind`."""
    before, line, after = path.read_text(encoding="utf-8").partition(behind + "\n")
    assert line, f"{path} has no line {behind!r}"
    path.write_text(before + line + lines + after, encoding="utf-8")


def run(tree: Path, command: str, *flags: str) -> Any:
    """The one cell that a command of the copy prints."""
    done = subprocess.run(
        [*shlex.split(command), *flags, "--json"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["cells"][0]
