"""`python -m tests.cheats.worker CHEAT PARENT REPLIES`: the real worker, with a cheat where the
registry has the mock.
"""

from __future__ import annotations

import dataclasses
import sys

from scenarios.worker import __main__ as worker
from sut import registry

if __name__ == "__main__":
    registry.SUTS["mock"] = dataclasses.replace(
        registry.SUTS["mock"], module=f"tests.cheats.{sys.argv[1]}"
    )
    worker.main([sys.argv[0], *sys.argv[2:]])
