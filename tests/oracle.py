"""Ours and the official checkers on the same tamperings: which see which. Run by hand; needs a clone of mlcommons/inference.

    PYTHONPATH=. .cache/environments/dev/bin/python -m tests.oracle --inference CLONE OFFLINE_RUN SINGLE_STREAM_RUN

The runs are good run directories of mode `submission` (of the mock SUT and bert, say: ten minutes of sleep each). CLONE must be a folder
named `inference`; --python names an interpreter with its checkers' requirements (pyyaml, numpy) where this one has none. accuracy.txt gets
a line of the official metric first, without which the old checker takes no tree at all. Prints a table of Markdown and the totals.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from compliance import audit, rules
from compliance.check import Outcome
from tests.compliance import tree
from tests.compliance.mutations import Mutation
from tests.compliance.test_mutations import HARMFUL, HARMLESS

_F1 = '{"exact_match": 80.0, "f1": 88.0}\n'
_NOT_THERE = "not in the tree"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inference", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the official checkers")
    parser.add_argument("runs", type=Path, nargs="+")
    flags = parser.parse_args()
    runs = {found.scenario: run for run in flags.runs for found in audit.tree.places(run.absolute(), rules.load())}
    told: dict[str, Counter[str]] = {}
    print("| tampering | ours | official, new | official, old |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for harmful, mutations in ((True, HARMFUL), (False, HARMLESS)):
            for mutation in mutations:
                if mutation.kind not in runs:
                    continue
                try:
                    row = _row(mutation, harmful, runs[mutation.kind], Path(scratch), flags)
                except AssertionError as e:  # it looks for a value that only the tests' own trees have
                    print(f"{mutation.name}: left out, {e}", file=sys.stderr)
                else:
                    print(f"| {mutation.name}{'' if harmful else ' (harmless)'} | {' | '.join(row)} |", flush=True)
                    for who, said in zip(("ours", "new", "old"), row, strict=True):
                        verdict = said if said in ("accepts", "crashes", _NOT_THERE) else "rejects"
                        told.setdefault(f"{who}, {'harmful' if harmful else 'harmless'}", Counter())[verdict] += 1
    for who, counts in told.items():
        print(f"{who}: {', '.join(f'{what} {count}' for what, count in counts.most_common())}")
    return 0


def _row(mutation: Mutation, harmful: bool, run: Path, scratch: Path, flags: argparse.Namespace) -> tuple[str, str, str]:
    copy = scratch / "run"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy, symlinks=True)
    (submitter,) = (copy / "open").iterdir()
    (system,) = (submitter / "results").iterdir()
    tree.SUBMITTER, tree.SYSTEM = submitter.name, system.name
    (text,) = copy.rglob("accuracy.txt")
    score, rest = text.read_text().split("\n", 1)
    text.write_text(f"{score}\n{_F1}{rest}")
    whole, before = _content(copy), _content(copy / "open")
    mutation.do(copy)
    assert _content(copy) != whole, "it changes nothing here"
    ours = [c.name for c in audit.audit(copy, "submission" if harmful else mutation.level) if c.outcome is Outcome.FAIL]
    if _content(copy / "open") == before:
        return ", ".join(ours) or "accepts", _NOT_THERE, _NOT_THERE
    submitted = scratch / "submission"
    shutil.rmtree(submitted, ignore_errors=True)
    submitted.mkdir()
    shutil.copytree(copy / "open", submitted / "open", symlinks=True)
    return ", ".join(ours) or "accepts", _official(NEW, submitted, flags), _official(OLD, submitted, flags)


NEW = ("-m", "inference.tools.submission.submission_checker.main")
OLD = ("inference/tools/submission/submission_checker_old.py",)


def _official(checker: tuple[str, ...], submitted: Path, flags: argparse.Namespace) -> str:
    around = flags.inference.absolute().parent
    command = [flags.python, *checker, "--input", submitted, "--version", "v6.1", "--csv", submitted.parent / "x.csv"]
    done = subprocess.run(command, cwd=around, env={**os.environ, "PYTHONPATH": str(around)}, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "accepts"
    return "crashes" if "Traceback" in done.stderr and "SUMMARY" not in done.stderr + done.stdout else "rejects"


def _content(folder: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else ("link" if path.is_symlink() else "folder")
        for path in folder.rglob("*")
    }


if __name__ == "__main__":
    sys.exit(main())
