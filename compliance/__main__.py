"""`python -m compliance DIR` is the audit without the harness: this folder, `formats/` and
`results/`, and the packages that they import. It prints one line for each finding.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from compliance import audit
from compliance.findings.verdict import LEVELS
from compliance.rules import rounds
from formats.checks import Verdict, escape

_LEFT_OUT = (
    "left out: result.json is not derived again, and seeded weights are not compared with the"
    " harness' models; ./run.sh audit does both"
)


def main() -> int:
    """Audit a directory. → 0 if it passes the level, 1 if not; argparse ends with 2."""
    parser = argparse.ArgumentParser(prog="python -m compliance", description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path)
    parser.add_argument("--mode", choices=LEVELS, default=LEVELS[0])
    parser.add_argument("--round", choices=rounds())
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    if not flags.directory.is_dir():
        parser.error(f"{flags.directory}: there is no such directory")
    report = audit.audit(flags.directory, flags.round)
    document = report.document(str(flags.directory), flags.mode, flags.strict)
    if flags.json:
        print(json.dumps(asdict(document), ensure_ascii=False))
        return int(not document.holds)
    for check in document.checks:
        print(check.line())
        if check.verdict is Verdict.FAIL and check.fix:
            print(f"       {check.fix}")
    for result in document.results:
        print(escape(result.sentence))
    if any(flags.directory.rglob("result.json")):
        print(_LEFT_OUT)
    print(report.sentence(flags.mode, flags.strict))
    return int(not document.holds)


if __name__ == "__main__":
    raise SystemExit(main())
