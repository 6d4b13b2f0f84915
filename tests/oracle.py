"""Ours and the official checkers on the same tamperings: which see which. Run by hand; needs a
clone of mlcommons/inference.

    PYTHONPATH=. .cache/environments/dev/bin/python -m tests.oracle --inference CLONE RUN...

The runs are good run directories of mode `submission`, one for a scenario and task: with the mock
SUT, say, half an hour of sleep each. CLONE must be a folder named `inference`; --python names an
interpreter with its checkers' requirements (pyyaml, numpy) where this one has none. accuracy.txt
gets a line of the official metric first, without which the old checker takes no tree at all; a
checker that refuses the good tree even so is not asked about it. Prints a table of Markdown and the
totals. "Tree alone": ours with --strict on
what lies below open/, as another submitter's, where there is no raw/ and no record.json to compare
with. "Not strict": the same without --strict.
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

from compliance import audit
from formats.checks import Verdict
from tests.compliance.audit_tests.test_compliance_tests import TESTS_MUTATED
from tests.compliance.test_mutations import HARMFUL, HARMLESS
from tests.support import tree
from tests.support.mutations import Mutation

_METRIC = {
    "predict": '{"exact_match": 80.0, "f1": 90.5}\n',
    "generate": (
        "{'rouge1': 40.0, 'rouge2': 17.0, 'rougeL': 25.0, 'rougeLsum': 37.0, 'gen_len': 3000000}\n"
    ),
}
_NOT_THERE, _REFUSED = "not in the tree", "refuses the good tree"
_NEW = ("-m", "inference.tools.submission.submission_checker.main")
_OLD = ("inference/tools/submission/submission_checker_old.py",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inference", type=Path, required=True)
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the official checkers"
    )
    parser.add_argument("runs", type=Path, nargs="+")
    flags = parser.parse_args()
    runs = {_kind(run): run.absolute() for run in flags.runs}
    told: dict[str, Counter[str]] = {}
    print(
        "| tampering | ours | ours, tree alone | ours, tree alone, not strict | official, new |"
        " official, old |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as scratch:
        oracle = Oracle(Path(scratch), flags.inference.absolute().parent, flags.python)
        for harmful, mutations in ((True, [*HARMFUL, *TESTS_MUTATED]), (False, HARMLESS)):
            for mutation in mutations:
                if mutation.kind not in runs:
                    continue
                try:
                    row = oracle.row(mutation, harmful, runs[mutation.kind])
                # It looks for a value or a file that only the tests' own trees have.
                except (AssertionError, OSError) as e:
                    print(f"{mutation.name}: left out, {e}", file=sys.stderr)
                else:
                    print(
                        f"| {mutation.name}{'' if harmful else ' (harmless)'} |"
                        f" {' | '.join(row)} |",
                        flush=True,
                    )
                    for who, said in zip(
                        ("ours", "ours, tree alone", "ours, not strict", "new", "old"),
                        row,
                        strict=True,
                    ):
                        verdict = (
                            said
                            if said in ("accepts", "crashes", _NOT_THERE, _REFUSED)
                            else "rejects"
                        )
                        told.setdefault(
                            f"{who}, {'harmful' if harmful else 'harmless'}", Counter()
                        )[verdict] += 1
    for who, counts in told.items():
        print(f"{who}: {', '.join(f'{what} {count}' for what, count in counts.most_common())}")
    return 0


def _kind(run: Path) -> str:
    cell = tree.read_json(run / "record.json")["cell"]
    return next(kind for kind, of in tree.KINDS.items() if of == (cell["scenario"], cell["task"]))


class Oracle:
    """around: the folder that holds the clone."""

    def __init__(self, scratch: Path, around: Path, python: str):
        self.scratch, self.around, self.python = scratch, around, python
        self.good: dict[Path, tuple[str, str]] = {}

    def row(self, mutation: Mutation, harmful: bool, run: Path) -> tuple[str, str, str, str, str]:
        """What each says. Raises AssertionError where the mutation changes nothing of this run."""
        copy, level = self._copy(run), "submission" if harmful else mutation.level
        whole, before = _content(copy), _content(copy / "open")
        if run not in self.good:
            self.good[run] = self._officials(copy)
        mutation.do(copy)
        assert _content(copy) != whole, "it changes nothing here"
        ours = _ours(copy, level)
        if _content(copy / "open") == before:
            return ours, _NOT_THERE, _NOT_THERE, _NOT_THERE, _NOT_THERE
        said = tuple(
            _REFUSED if good != "accepts" else now
            for good, now in zip(self.good[run], self._officials(copy), strict=True)
        )
        alone = self.scratch / "submission"
        lenient = _ours(alone, level, strict=False)
        return ours, _ours(alone, level), lenient, said[0], said[1]

    def _copy(self, run: Path) -> Path:
        copy = self.scratch / "run"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy, symlinks=True)
        (submitter,) = (copy / "open").iterdir()
        (system,) = (submitter / "results").iterdir()
        tree.SUBMITTER, tree.SYSTEM = submitter.name, system.name
        text = tree.scenario_folder(copy) / "accuracy" / "accuracy.txt"
        score, rest = text.read_text().split("\n", 1)
        text.write_text(
            f"{score}\n{_METRIC[tree.read_json(copy / 'record.json')['cell']['task']]}{rest}"
        )
        return copy

    def _officials(self, copy: Path) -> tuple[str, str]:
        """The new checker's and the old one's word on the tree, which is put aside alone."""
        submitted = self.scratch / "submission"
        shutil.rmtree(submitted, ignore_errors=True)
        shutil.copytree(copy / "open", submitted / "open", symlinks=True)
        return self._official(_NEW, submitted), self._official(_OLD, submitted)

    def _official(self, checker: tuple[str, ...], submitted: Path) -> str:
        command = [
            self.python,
            *checker,
            "--input",
            submitted,
            "--version",
            "v6.1",
            "--csv",
            self.scratch / "x.csv",
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.around)}
        done = subprocess.run(
            command, cwd=self.around, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return "accepts"
        return (
            "crashes"
            if "Traceback" in done.stderr and "SUMMARY" not in done.stderr + done.stdout
            else "rejects"
        )


def _ours(directory: Path, level: str, *, strict: bool = True) -> str:
    report = audit.audit(directory)
    failed = [c.key for c in report.checks_for(level) if c.verdict is Verdict.FAIL]
    return "accepts" if report.passes(level, strict) or not failed else ", ".join(failed)


def _content(folder: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() else ("link" if path.is_symlink() else "folder")
        )
        for path in folder.rglob("*")
    }


if __name__ == "__main__":
    sys.exit(main())
