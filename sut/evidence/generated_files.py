"""Removes files that a framework leaves behind if its process does not end by Python's own exit."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

# TensorFlow writes such a module to the folder of temporary files for each traced function.
_PREFIX = "__autograph_generated_file"


def remove() -> None:
    """Remove the files. TensorFlow removes them itself at Python's exit, and works without them."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PREFIX) and module.__file__:
            with suppress(OSError):
                Path(module.__file__).unlink()
