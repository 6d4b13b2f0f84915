"""Ours and MLCommons' checker on the same tamperings of a training's run directory: which see
which. Run by hand.

    PYTHONPATH=. .cache/environments/dev/bin/python -m tests.oracle_training

Trains the mock once, and prints a table of Markdown and the totals. Their checker reads the log
alone, so what is changed in other files is nothing that it could see.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.harness.measurement.test_fit import TAMPERED, failed, official, trained


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        good = trained(Path(name) / "runs")
        if failed(Path(good.directory)) or official(good, "--ruleset", "5.0.0")[0]:
            sys.exit("one of the two refuses the good directory")
        ours = theirs = 0
        print("| tampering | ours | the official checker |\n|---|---|---|")
        for number, (what, (tamper, _)) in enumerate(TAMPERED.items()):
            copy = shutil.copytree(good.directory, Path(name) / str(number) / "quick-1")
            tamper(copy)
            found, code = (
                failed(copy),
                official(replace(good, directory=str(copy)), "--ruleset", "5.0.0")[0],
            )
            ours, theirs = ours + bool(found), theirs + bool(code)
            print(
                f"| {what} | {', '.join(sorted(found)) or 'not seen'} |"
                f" {'refused' if code else 'not seen'} |"
            )
    print(f"\n{len(TAMPERED)} tamperings: ours sees {ours}, the official checker {theirs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
