"""Searches in releases of a toy package that are made here, and that a SUT on the mock imports.

In a copy of the source: PYTHONPATH=. .cache/environments/dev/bin/python -m tests.scale.toy_releases
FOLDER [--tries N] [--equal]

Each try searches in three wheels of which the last is 20 % slower, or with --equal in three wheels
that do the same. Prints what each try found, and how many runs it took.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

from harness.execution.environments import LOCKS
from tests.documents import copy_of_the_source, insert
from tests.support.wheels import digest, wheel

_SUT = '''\
"""The mock, whose batches also take the time of a package."""

import toy

from sut import mock


class ToyMock(mock.Mock):
    def predict(self, batch):
        toy.work()
        return super().predict(batch)


def load(workload):
    return ToyMock(workload)
'''
_ENTRY = """\
    "toy-mock": SutSpec(
        module="sut.toy_mock",
        environment="toy",
        execution="eager",
        summary="the mock with a toy package",
        architectures=("bert",),
        reference="mock",
        devices=("cpu",),
        precisions=("float32",),
        packages=("toy",),
        reads_weights=False,
        options={"latency-ms": (float, "time of one batch")},
    ),
"""
_WORK = """
def work():
    return sum(number * number for number in range({numbers}))
"""
_NUMBERS, _SLOWER = 300_000, 360_000
"""About 20 ms of work, and 20 % more."""
_VERSIONS = ("1.0", "1.1", "1.2")


def made(folder: Path, equal: bool) -> Path:
    """A copy of the source with the SUT, its environment, and the wheels of the toy package."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = folder / "source"
    if tree.exists():
        return tree
    tree.mkdir()
    copy_of_the_source(tree)
    (tree / ".cache/environments").unlink()
    (tree / ".cache/environments").mkdir()
    (tree / ".cache/environments/core").symlink_to(LOCKS.parent / ".cache/environments/core")
    insert(tree / "sut/registry.py", "SUTS: dict[str, SutSpec] = {", _ENTRY)
    (tree / "sut/toy_mock.py").write_text(_SUT, encoding="utf-8")
    for version in _VERSIONS:
        numbers = _SLOWER if version == _VERSIONS[-1] and not equal else _NUMBERS
        wheel(folder / "wheels", "toy", version=version, body=_WORK.format(numbers=numbers))
    first = folder / "wheels" / "toy-1.0-py3-none-any.whl"
    core = (tree / "environments/core.txt").read_text(encoding="utf-8")
    lock = f"{core}toy==1.0 \\\n    --hash=sha256:{digest(first)}\n"
    (tree / "environments/toy-cpu.txt").write_text(lock, encoding="utf-8")
    required = (tree / "environments/core.in").read_text(encoding="utf-8")
    (tree / "environments/toy-cpu.in").write_text(f"{required}toy==1.0\n", encoding="utf-8")
    return tree


def main() -> None:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--equal", action="store_true")
    flags = parser.parse_args()
    folder = flags.folder.absolute() / ("equal" if flags.equal else "step")
    tree = made(folder, flags.equal)
    words = "bisect --sut toy-mock --model bert --scenario Offline --package toy --from 1.0"
    words += " --to 1.2 --sut-option latency-ms=0.01 --duration 2 --json --quiet --yes"
    env = {**os.environ, "PIP_FIND_LINKS": str(folder / "wheels")}
    for number in range(1, flags.tries + 1):
        out = folder / f"runs-{number}"
        done = subprocess.run(
            [str(tree / "run.sh"), *words.split(), "--out", str(out)],
            cwd=tree,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        runs = len(list(out.glob("bert-*/*/*/quick-*")))
        last = re.sub(r"\s+", " ", done.stderr[-300:])
        found = json.loads(done.stdout) if done.stdout else {"sentence": last}
        print(f"{number}: {runs} runs: {found['sentence']}", flush=True)


if __name__ == "__main__":
    main()
