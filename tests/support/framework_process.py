"""Runs in a SUT's environment: it imports the framework once, and runs each task in a fork of
itself. So no task sees what another one left.

`python -m tests.support.framework_process SUT` reads one task a line from stdin, as JSON:

    {"module": a module's name, "specification": its argument, "log": a file for its output}

After each task it writes the exit code of the fork as a line to stdout.
"""

import gc
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from scenarios.worker.child import end_with_parent
from sut.evidence import generated_files
from sut.registry import load_module


def main(sut):
    """Answer one task after the other until stdin ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # frameworks print
    load_module(sut, "bert")
    gc.freeze()  # a collection in a fork would copy all pages of the framework's objects
    for line in iter(sys.stdin.readline, ""):
        process = os.fork()
        if not process:
            _run(**json.loads(line))
        _, status = os.waitpid(process, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")


def _run(module, specification, log):
    """Run the module as `python -m module specification`, and end this process."""
    end_with_parent()
    with Path(log).open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    sys.argv = [module, specification]
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except Exception:  # noqa: BLE001, the log has its words
        traceback.print_exc()
    finally:
        # Python's own exit would free each object of the framework: a second in each fork.
        generated_files.remove()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
