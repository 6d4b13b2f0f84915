"""A run directory with only the files of an official metric."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from compliance.scoring import official
from formats.record import Official


def run_directory(
    folder: Path, metric: str, contents: Mapping[str, bytes]
) -> tuple[Path, Official]:
    """Write the files (name → content). → the directory, and what its record says of the metric."""
    (folder / official.FOLDER).mkdir()
    digests = {}
    for name, content in contents.items():
        (folder / official.FOLDER / name).write_bytes(content)
        digests[name] = hashlib.md5(content).hexdigest()  # noqa: S324
    return folder, Official(metric=metric, suite="edge", files=digests)
