"""A task for tests.support.framework_process: it does what its specification says, and reports on
what earlier tasks left.
"""

import os
import sys
from pathlib import Path

import sut
from formats.writing import write_json
from tests.support.files import read_json


def main(specification):
    """Write this process, its parent and the mark of an earlier task into the specification."""
    action = read_json(specification)
    if action == "raise":
        raise ValueError("words of the error")
    if action == "end":
        os.abort()
    if action == "end the parent":
        os.kill(os.getppid(), 9)
    left = {"process": os.getpid(), "parent": os.getppid(), "mark": hasattr(sut, "mark")}
    sut.mark = True
    write_json(specification, left)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
