"""The command line: flags in, exit code out. 0 good, 1 a cell or an audit failed, 2 usage, 3 environment, 4 internal, 130 interrupted."""

from __future__ import annotations

import errno
import io
import shlex
import signal
import subprocess
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from compliance.rules import CURRENT, rounds
from harness.cell import END_TOKENS, MODES, PRECISIONS, SCENARIOS, SIZES
from harness.environments import LOCKS, ROOT
from harness.errors import HarnessError, UsageError
from harness.flags import Parser, add_common, did_you_mean, known_name, model_names, run_parser, submitter_name, sut_name, sut_options

COMMANDS = ("run", "list", "audit", "comply", "pack", "doctor", "test")


def main(arguments: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # explicitly: a shell ignores SIGINT for what it starts with &
        signal.signal(number, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that is not UTF-8 gets escapes, not a fault
            stream.reconfigure(errors="backslashreplace")
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] in COMMANDS else arguments
    try:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            raise UsageError(f"there is no command {arguments[0]!r}{did_you_mean(arguments[0], COMMANDS)}: {', '.join(COMMANDS)}")
        return {"run": _run, "list": _list, "audit": _audit, "comply": _comply, "pack": _pack, "doctor": _doctor, "test": _test}[command](
            rest
        )
    except KeyboardInterrupt:
        again = shlex.join(["./run.sh", *arguments])
        _error(f"interrupted: what was measured stays; the same command goes on from there: {again}")
        return 130
    except HarnessError as e:
        _error(str(e))
        return e.exit_code
    except OSError as e:
        full = e.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space, or choose another --out or --cache" if full else "see --out and --cache"
        _error(f"{'the disk is full' if full else e.strerror} ({e.filename or 'while writing'}): {advice}")
        return 3
    except Exception:  # noqa: BLE001  the last resort: whole traceback, exit code 4
        return _fault()


def _fault() -> int:
    traceback.print_exc()
    _error("this is a fault of the harness: please report the traceback above with the command")
    return 4


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _error(text: str) -> None:
    from harness import output

    output.error(text)


def _run(arguments: list[str]) -> int:
    flags = run_parser().parse_args(arguments)
    from harness import machine, output, plan, run

    request = plan.resolve(
        sut=sut_name(flags.sut),
        model=known_name(flags.model, model_names(), "--model"),
        scenario=known_name(flags.scenario, SCENARIOS, "--scenario"),
        mode=known_name(flags.mode, MODES, "--mode"),
        size=flags.size and known_name(flags.size, SIZES, "--size"),
        precision=flags.precision and known_name(flags.precision, PRECISIONS, "--precision"),
        batch_size=flags.batch_size,
        seq_len=flags.seq_len,
        eos=flags.eos and known_name(flags.eos, END_TOKENS, "--eos"),
        dataset_file=flags.dataset and flags.dataset.absolute(),
        device=flags.device,
        out=flags.out.absolute(),
        cache=flags.cache.absolute(),
        python=flags.python and flags.python.absolute(),
        weights_folder=flags.weights and flags.weights.absolute(),
        load_seconds=flags.load_seconds,
        submitter=submitter_name(flags.submitter),
        options=sut_options(flags.sut, flags.sut_option),
        command=shlex.join(["./run.sh", *arguments]),
    )
    if flags.dry_run:
        return _dry_run(request, flags.json)
    terminal = output.Terminal(flags.quiet or flags.json)
    for reason in request.reasons:
        terminal.say(reason)
    with terminal.progress:
        found = run.run(request, terminal, machine.command_started_monotonic_ns())
    if flags.json:
        output.document({"cells": [output.result_as_json(found)]})
    else:
        output.result(found, _next(found, request))
    return 0 if found.status == "ok" else 1


def _next(found: Any, request: Any) -> str:
    """The command a user would want now."""
    from harness import output
    from harness.plan import LONGEST_TIMES

    if found.status == "skipped":
        return "the same command, changed as the status line says"
    if found.status in ("error", "oom"):
        log = f"; the worker's own words: {output.near(found.directory)}/raw/*/worker.log" if found.directory else ""
        return f"the same command goes on from here: {request.command}{log}"
    if found.status == "unsupported":
        return "./run.sh list  (what there is), or another --precision or --device"
    if found.status == "invalid":
        return f"./run.sh audit {shlex.quote(output.near(found.directory))} --level {found.mode}"
    if request.mode == "quick" and "early stopping" in (found.loadgen or ""):
        longer = 80e-3 * found.metrics["ms_per_step"] / LONGEST_TIMES  # room for 80 queries, where 64 are needed
        enough = f"--load-seconds {float(f'{longer:.2g}'):g}"
        return f"{_without(request.command, '--load-seconds')} {enough}  (LoadGen had too few queries to call it VALID)"
    if request.mode == "quick":
        return f"{_without(request.command, '--load-seconds')} --mode valid  (10 minutes and more, by the round's settings)"
    if request.mode == "submission":
        return f"./run.sh pack {shlex.quote(output.near(found.directory))} --out submission  (and other cells' directories)"
    return f"./run.sh audit {shlex.quote(output.near(found.directory))} --level valid"


def _without(command: str, flag: str) -> str:
    """The command less a flag and its value."""
    words = shlex.split(command)
    kept = [w for n, w in enumerate(words) if w != flag and (n == 0 or words[n - 1] != flag) and not w.startswith(f"{flag}=")]
    return shlex.join(kept)


def _dry_run(request: Any, as_json: bool) -> int:
    from harness import dataset, environments, listing, output, plan, reference

    prompts = len(dataset.read(request.dataset)[0]) if request.dataset else None
    refused = plan.unsupported(request)
    if request.python:
        environments.adopt(request.python, request.spec.environment, request.rules.round, request.device)
    planned = listing.planned(request, prompts, refused or plan.memory_shortage(request, request.precision), reference.shortage(request))
    if as_json:
        output.document(planned)
    else:
        output.table("Plan (nothing was made)", ("what", "value"), ([k.replace("_", " "), str(v)] for k, v in planned.items()))
    return 0


def _list(arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` may have read enough
    parser = Parser(prog="./run.sh list", description="The SUTs, models, sizes and scenarios there are.", allow_abbrev=False)
    add_common(parser)
    flags = parser.parse_args(arguments)
    from harness import listing, output

    found = listing.gather(flags.cache.absolute(), CURRENT)
    output.document(found) if flags.json else listing.show(found)
    return 0


def _audit(arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = Parser(
        prog="./run.sh audit", description="Judge a run directory or a submission tree from its files alone.", allow_abbrev=False
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="a run directory, or a tree that holds open/, closed/ or network/")
    parser.add_argument("--level", default="quick", help="quick (default), valid or submission: what the directory must live up to")
    parser.add_argument("--round", metavar="ROUND", help=f"{', '.join(rounds())}; default: the one record.json names, else {CURRENT}")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the findings as one HTML page too, for a reviewer")
    add_common(parser)
    flags = parser.parse_args(arguments)
    from compliance import audit
    from harness import output

    level = known_name(flags.level, MODES, "--level")
    _check_audited(flags)
    found = audit.audit(flags.directory, flags.round and known_name(flags.round, rounds(), "--round"))
    directory = output.near(str(flags.directory.absolute()))
    if flags.html:
        _write_page(flags, directory, level, found)
    if flags.json:
        output.document(found.as_json(directory, level))
    else:
        output.audited(found, level, flags.quiet)
    return 0 if found.passes(level) else 1


def _check_audited(flags: Any) -> None:
    from compliance import audit

    directory, page = flags.directory, flags.html
    if not directory.is_dir():
        what = "it is a file; an audit takes a directory" if directory.exists() else "there is no such directory"
        raise UsageError(f"audit {directory}: {what}")
    recorded = audit.recorded_round(directory)
    if flags.round and recorded not in (flags.round, None):
        raise UsageError(f"--round {flags.round}: record.json says that the run is of {recorded}; leave the flag out")
    if page and page.resolve().is_relative_to(directory.resolve()):
        raise UsageError(f"--html {page}: it lies in the audited directory, which an audit leaves as it is; name a file elsewhere")


def _write_page(flags: Any, directory: str, level: str, found: Any) -> None:
    from compliance.findings import page
    from harness import output

    content = page.render(directory, level, found, datetime.now().astimezone())
    try:
        if flags.html.exists() and not flags.html.read_bytes().startswith(page.BEGINNING.encode()):
            raise UsageError(f"--html {flags.html}: it is there and no page of an audit; name another file, or remove it")
        flags.html.write_bytes(content.encode(errors="backslashreplace"))
    except OSError as e:
        raise UsageError(f"--html {flags.html}: it cannot be written ({e.strerror}); name a file in a folder that is there") from None
    output.Terminal(flags.quiet or flags.json).say(f"the page: {flags.html}")


def _comply(arguments: list[str]) -> int:
    parser = Parser(
        prog="./run.sh comply",
        description="Run MLPerf's compliance tests on a finished run directory, with what measured it, and judge them.",
        allow_abbrev=False,
    )
    parser.add_argument("directory", metavar="RUN_DIR", type=Path, help="a run directory, such as runs/…/valid-1")
    parser.add_argument(
        "--test", nargs="+", action="extend", default=[], metavar="TEST", help="TEST01, TEST04, TEST06; default: all that apply"
    )
    parser.add_argument("--again", action="store_true", help="run anew what ran well before; the earlier logs are set aside")
    add_common(parser)
    flags = parser.parse_args(arguments)
    from compliance import rules
    from harness import comply, output

    names = [known_name(name, rules.load().compliance_tests, "--test") for name in flags.test]
    terminal = output.Terminal(flags.quiet or flags.json)
    with terminal.progress:
        found = comply.comply(flags.directory.absolute(), names, flags.cache.absolute(), flags.again, terminal)
    return _show_checks(found, flags)


def _pack(arguments: list[str]) -> int:
    parser = Parser(
        prog="./run.sh pack",
        description="One submission tree of the cells measured with --mode submission. The same cells give the same bytes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "directories", metavar="DIR", type=Path, nargs="+", help="run directories, or a folder above them (its newest good ones)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the tree: a folder that is new or empty")
    add_common(parser)
    flags = parser.parse_args(arguments)
    from harness import pack

    return _show_checks(pack.pack([d.absolute() for d in flags.directories], flags.out.absolute()), flags)


def _show_checks(found: list[Any], flags: Any) -> int:
    from compliance.findings import verdict
    from harness import output

    if flags.json:
        output.document({"checks": [c.as_json() for c in found]})
    else:
        output.checks(found, flags.quiet)
    return 0 if verdict.passes(found) else 1


def _doctor(arguments: list[str]) -> int:
    parser = Parser(prog="./run.sh doctor", description="Is this machine fit to measure on?", allow_abbrev=False)
    add_common(parser)
    flags = parser.parse_args(arguments)
    from compliance.findings.check import Verdict
    from harness import doctor, output

    found = doctor.examine(flags.cache.absolute(), CURRENT)
    code = _show_checks(found, flags)
    for c in found:
        if c.verdict is Verdict.MANUAL and not flags.json:
            output.advice(c)
    return code


def _test(arguments: list[str]) -> int:
    """The tests, in an environment of their own: core, LoadGen and the development tools. Their arguments are pytest's."""
    from harness import environments

    locks = [*environments.lock_files("core", "cpu", CURRENT), LOCKS / "dev.txt"]
    directory = ROOT / ".cache" / "environments" / "dev"
    environments.make(directory, locks, [str(Path(sys.executable).with_name("uv"))], environments.say_on_stderr)
    return subprocess.run([directory / "bin" / "python", "-P", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode
