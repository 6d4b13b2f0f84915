"""What a checkout derives of the same run directories, submissions and flags."""

import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path

from formats.writing import write_json
from harness import cli, result
from harness.execution.environments import ROOT
from tests.golden.cases import flag_sets

_LEVELS = ("quick", "submission")
_NOWHERE = ("--out", "nothing", "--cache", "nothing")
"""A plan depends on earlier runs and on the contents of the cache, so there are none."""


def main(folder, out):
    """Write a document for each kind of output: name of a case → its outcome."""
    folder, out = folder.absolute(), out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # outputs name a path relative to the working directory
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for kind, calls in _cases(folder).items():
        _import_modules(next(iter(calls.values())))
        outcomes = {name: outcome(call, folder) for name, call in calls.items()}
        write_json(out / f"{kind}.json", outcomes)
        print(f"{len(outcomes)} of {kind}", flush=True)
    return 0


def _import_modules(call):
    """Import in this process what its children would import each time, by one of their calls."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        _code(call)


def _cases(folder):
    """Kind of output → name of a case → what prints it."""
    runs = [_below(folder, path.parent) for path in folder.glob("runs/**/record.json")]
    measured = [run for run in runs if not run.startswith("runs/synthetic/")]
    trees = [_below(folder, path) for path in folder.glob("trees/*")]
    roots = ["runs", *(_below(folder, path) for path in folder.glob("runs/*"))]
    plans = [[*words, "--dry-run", "--json", *_NOWHERE] for words in flag_sets()]
    reports = [["report", root, "--json"] for root in sorted(roots)]
    audits = [
        ["audit", audited, "--json", "--mode", level]
        for audited in sorted([*measured, *trees])
        for level in _LEVELS
    ]
    return {
        "reports": _commands(reports),
        "results": {run: partial(_print_result, run) for run in sorted(measured)},
        "audits": _commands(audits),
        "plans": _commands(plans),
    }


def _below(folder, path):
    return path.relative_to(folder).as_posix()


def _commands(commands):
    return {" ".join(words): partial(cli.main, words) for words in commands}


def _print_result(run):
    print(json.dumps(asdict(result.derive(Path(run))), default=str))
    return 0


def outcome(call, folder):
    """The exit code of a call in a child process, the document that it prints, and its errors, with
    words in place of the paths of this machine.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        sys.stdout.flush()
        sys.stderr.flush()
        if not (child := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8") for fd in (1, 2))
            os._exit(_code(call))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        error.seek(0)
        printed, said = (_without_paths(file.read(), folder) for file in (out, error))
    try:
        document = json.loads(printed)
    except ValueError:
        document = printed.splitlines()
    return {"code": code, "out": document, "error": said.splitlines()}


def _code(call):
    """Run the call in the child, which must never return."""
    try:
        code = call()
    except SystemExit as ended:  # by argparse
        code = int(ended.code or 0)
    except BaseException as fault:  # noqa: BLE001
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
        code = os.EX_SOFTWARE
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _without_paths(text, folder):
    return text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
