"""Ours and the official checkers on the same tamperings: which see which. Run by hand; needs a
clone of mlcommons/inference.

    PYTHONPATH=. .cache/environments/dev/bin/python -m tests.oracle --inference CLONE RUN...

The runs are good run directories of mode `submission`, one for a scenario and task: with the mock
SUT, say, half an hour of sleep each. CLONE must be a folder named `inference`; --python names an
interpreter with its checkers' requirements (pyyaml, numpy) where this one has none. accuracy.txt
gets a line of the official metric first, without which the old checker takes no tree at all; a
checker that refuses the good tree even so is not asked about it. Prints a table of Markdown and the
totals. "Tree alone": ours with --strict on what lies below open/, as another submitter's, where
there is no raw/ and no record.json to compare with. "Not strict": the same without --strict.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from compliance import audit
from formats.checks import Verdict
from tests.compliance.audit_tests.test_compliance_tests import TESTS_MUTATED
from tests.compliance.test_mutations import HARMFUL, HARMLESS
from tests.support import tree
from tests.support.files import read_json
from tests.support.mutations import Mutation, accuracy_text, mutations

_METRIC = {
    "predict": '{"exact_match": 80.0, "f1": 90.5}\n',
    "generate": (
        "{'rouge1': 40.0, 'rouge2': 17.0, 'rougeL': 25.0, 'rougeLsum': 37.0, 'gen_len': 3000000}\n"
    ),
}
_NOT_THERE, _REFUSED = "not in the tree", "refuses the good tree"
_SAID = ("accepts", "crashes", _NOT_THERE, _REFUSED)
_CHECKERS = (
    ("-m", "inference.tools.submission.submission_checker.main"),
    ("inference/tools/submission/submission_checker_old.py",),
)
_COLUMNS = ("ours", "ours, tree alone", "ours, not strict", "official, new", "official, old")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inference", type=Path, required=True)
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the official checkers"
    )
    parser.add_argument("runs", type=Path, nargs="+")
    flags = parser.parse_args()
    runs = {_kind(run): run.absolute() for run in flags.runs}
    totals = defaultdict(Counter)
    print(f"| tampering | {' | '.join(_COLUMNS)} |\n|{'---|' * 6}")
    with tempfile.TemporaryDirectory() as scratch:
        oracle = Oracle(Path(scratch), flags.inference.absolute().parent, flags.python)
        for harm, mutation in _tamperings():
            if mutation.kind not in runs:
                continue
            try:
                row = oracle.row(mutation, runs[mutation.kind])
            # It looks for a value or a file that only the tests' own trees have.
            except (AssertionError, OSError) as e:
                print(f"{mutation.name}: left out, {e}", file=sys.stderr)
                continue
            print(f"| {mutation.name} ({harm}) | {' | '.join(row)} |", flush=True)
            for column, said in zip(_COLUMNS, row, strict=True):
                totals[f"{column}, {harm}"][said if said in _SAID else "rejects"] += 1
    for who, counts in totals.items():
        print(f"{who}: {', '.join(f'{what} {count}' for what, count in counts.most_common())}")
    return 0


def _tamperings():
    """("harmful" or "harmless", mutation) of each."""
    for table in (HARMFUL, TESTS_MUTATED):
        for mutation in mutations(table):
            yield "harmful", mutation._replace(level="submission")
    for name, do in HARMLESS.items():
        yield "harmless", Mutation(name, "", do)


def _kind(run):
    cell = read_json(run / "record.json")["cell"]
    return next(kind for kind, of in tree.KINDS.items() if of == (cell["scenario"], cell["task"]))


class Oracle:
    """around: the folder that holds the clone."""

    def __init__(self, scratch, around, python):
        self.scratch, self.around, self.python = scratch, around, python
        self.good = {}

    def row(self, mutation, run):
        """What each says. Raises AssertionError where the mutation changes nothing of this run."""
        copy = self._copy(run)
        whole, before = _content(copy), _content(copy / "open")
        if run not in self.good:
            self.good[run] = self._officials(copy)
        mutation.do(copy)
        assert _content(copy) != whole, "it changes nothing here"
        ours = _ours(copy, mutation.level)
        if _content(copy / "open") == before:
            return (ours, *[_NOT_THERE] * 4)
        pairs = zip(self.good[run], self._officials(copy), strict=True)
        officials = [_REFUSED if good != "accepts" else now for good, now in pairs]
        alone = self.scratch / "submission"
        lenient = _ours(alone, mutation.level, strict=False)
        return (ours, _ours(alone, mutation.level), lenient, *officials)

    def _copy(self, run):
        copy = self.scratch / "run"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy, symlinks=True)
        (system,) = copy.glob("open/*/results/*")
        tree.SUBMITTER, tree.SYSTEM = system.parts[-3], system.name
        metric = _METRIC[read_json(copy / "record.json")["cell"]["task"]]
        accuracy_text(lambda text: text.replace("\n", f"\n{metric}", 1))(copy)
        return copy

    def _officials(self, copy):
        """The word of each official checker on the tree, which is put aside alone."""
        submitted = self.scratch / "submission"
        shutil.rmtree(submitted, ignore_errors=True)
        shutil.copytree(copy / "open", submitted / "open", symlinks=True)
        return [self._official(checker, submitted) for checker in _CHECKERS]

    def _official(self, checker, submitted):
        flags = ["--input", submitted, "--version", "v6.1", "--csv", self.scratch / "x.csv"]
        done = subprocess.run(
            [self.python, *checker, *flags],
            cwd=self.around,
            env={**os.environ, "PYTHONPATH": str(self.around)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return "accepts"
        ended = "SUMMARY" in done.stderr + done.stdout
        return "crashes" if "Traceback" in done.stderr and not ended else "rejects"


def _ours(directory, level, strict=True):
    report = audit.audit(directory)
    failed = [c.key for c in report.checks_for(level) if c.verdict is Verdict.FAIL]
    return "accepts" if report.passes(level, strict) or not failed else ", ".join(failed)


def _content(folder):
    """Path below the folder → its bytes, or what else it is."""
    return {path.relative_to(folder).as_posix(): _bytes(path) for path in folder.rglob("*")}


def _bytes(path):
    if path.is_file():
        return path.read_bytes()
    return "link" if path.is_symlink() else "folder"


if __name__ == "__main__":
    sys.exit(main())
