"""Runs a program of this package: `python -m sut.conformance PROGRAM JOB`.

JOB is a JSON file. Its `out` is the folder for the files of the program.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main(program: str, path: str) -> None:
    """Run the program of this name."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    importlib.import_module(f"sut.conformance.{program}").main(job, Path(job["out"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
