"""SUTs that cheat, each a module with `load(workload)` as an honest one has; `tests.cheats.worker`
puts it in the mock's place.
"""

from __future__ import annotations

from pathlib import Path


def phase() -> str:
    """What any SUT could find out, though its Workload does not say it: the folder of the job that
    this process does.
    """
    return Path.cwd().name
