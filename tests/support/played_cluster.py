"""`python -m tests.support.played_cluster KIND COUNT COMMAND…` plays the program that lets a
cluster start replicas, on this machine. The last replica is of a KIND in `tests.support.faulty_replicas`.
"""

import os
import signal
import subprocess
import sys
import time

from scenarios.worker.replicas.placement import NODE


def main(argv):
    """Run the replicas, which have a node each. → the exit code."""
    _, kind, count, python, *words = argv
    faulty = [python, "-P", "-m", "tests.support.faulty_replicas", kind, *words[-3:]]
    children = []
    for number in range(int(count)):
        is_last = number == int(count) - 1
        command = faulty if is_last and kind != "Replica" else [python, *words]
        place = [str(number), "0", "1"]
        node = {NODE: f"n{number + 1}"}
        children.append(subprocess.Popen([*command, *place], env={**os.environ, **node}))
    while not any(child.poll() for child in children):
        if all(child.poll() == 0 for child in children):
            return 0
        time.sleep(0.05)
    for number, child in enumerate(children):
        if code := child.poll():
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            print(f"node n{number + 1}: task {number}: {how}", flush=True)
        child.kill()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
