"""A process for `studies.turns.Peer`: one of its threads never rests, and each answer is its
OMP_WAIT_POLICY, or null.

It ends with exit code 3 when it reads a command that begins with "layers".
"""

import json
import os
import sys
import threading


def _spin() -> None:
    while True:
        pass


def main() -> None:
    """Answer once at the start, and then each line of the input."""
    threading.Thread(target=_spin, daemon=True).start()
    print("0", flush=True)
    for line in sys.stdin:
        if line.startswith("layers"):
            os._exit(3)
        print(json.dumps(os.environ.get("OMP_WAIT_POLICY", line.split()[1])), flush=True)


if __name__ == "__main__":
    main()
