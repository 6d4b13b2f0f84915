"""Files that a framework leaves behind in a process that does not end by Python's own way."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

# Of modules that TensorFlow writes to the folder of temporary files, one for each traced function.
_PREFIX = "__autograph_generated_file"


def remove() -> None:
    """Remove them. TensorFlow does so itself at Python's exit, and can then do without them."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PREFIX) and module.__file__:
            with suppress(OSError):
                Path(module.__file__).unlink()
