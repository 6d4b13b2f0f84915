"""Makes run directories and submissions, whose bytes differ each time."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from functools import partial

from harness.execution.environments import ROOT
from sut.registry import SUTS
from tests.broken.test_on_mock import HONEST, JUDGED
from tests.golden.cases import RUNS
from tests.support import article_files, keras_files, other_scenarios, squad_files, tree
from tests.support.synthetic_runs import cell, write

_PROMPTS = ("What is the capital of France?", "Name three primary colours.", "Count to ten.")


def main(folder):
    """Make the folder, or what it lacks after an interruption. Runs of real SUTs come last."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "files").exists():
        _write_files(folder / "files")
        _write_synthetic(folder / "runs" / "synthetic")
        shutil.copytree(ROOT / "tests" / "compliance" / "field", folder / "trees" / "field")
    for name, scenario, task, *_ in (*HONEST, *JUDGED):
        run = folder / "runs" / "broken" / name / "quick-1"
        tests = ("tests.broken.on_mock", name)
        _once(run, partial(tree.build, run, scenario, task, tests, milliseconds=1000))
    for name, kind in other_scenarios.KINDS.items():
        root = folder / "trees" / re.sub(r"\W+", "-", name)
        _once(root, partial(other_scenarios.build, root, kind))
    made = folder / "made.txt"
    made.touch()
    for group, commands in sorted(RUNS.items()):
        for command in commands:
            if command not in made.read_text().splitlines():
                _measure(folder, group, command)
                with made.open("a") as file:
                    file.write(f"{command}\n")
    return 0


def _once(path, build):
    """Build what is at the path, unless it is there. A half-built one is removed."""
    if path.exists():
        return
    try:
        build()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    print(path, flush=True)


def _write_files(folder):
    folder.mkdir()
    squad_files.write(folder)
    article_files.write(folder)
    keras_files.dense(folder / "dense.keras")
    (folder / "prompts.txt").write_text("\n".join(_PROMPTS) + "\n")
    rows = [json.dumps({"text": text, "max_new_tokens": 4}) + "\n" for text in _PROMPTS]
    (folder / "rows.jsonl").write_text("".join(rows))


def _write_synthetic(folder):
    """Runs of each SUT that were never measured, so that a report has much to compare."""
    for place, sut in enumerate(SUTS):
        if sut == "endpoint":
            continue
        rate = 100.0 + 10 * place
        for batch in (1, 8, 32):
            figures = [rate * batch, rate * batch * 1.02, rate * batch * 0.99]
            write(folder, cell(sut, batch_size=batch), figures, sweep="s-1")
        one = cell(sut, batch_size=1, scenario="SingleStream")
        write(folder, one, [1e3 / rate, 1.01e3 / rate, None], sweep="s-1")


def _measure(folder, group, command):
    """Run a command of the harness, and print its exit code and its seconds."""
    words = [*shlex.split(command), "--out", f"runs/{group}", "--cache", ROOT / ".cache", "--quiet"]
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    print(f"{time.monotonic() - start:.0f} s, exit code {done.returncode}: {command}", flush=True)
