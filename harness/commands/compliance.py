"""`./run.sh compliance RUN_DIR` runs MLPerf's compliance tests on a finished run directory.

The recorded command is planned again. The job is read from raw/performance/job.json, so only
audit.config differs. If anything else has changed since the run, the command refuses.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from compliance import audit as audits
from compliance import rules
from compliance.audit_tests import compliance_tests
from compliance.findings.check import not_applicable
from compliance.folders import subfolders
from compliance.logs import files
from formats.checks import Check
from formats.job import PERFORMANCE, TESTS, Job
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.writing import write_json
from harness import locks, result, terminal
from harness.commands import checks
from harness.errors import EnvironmentFailure, Refused, UsageError, about
from harness.execution import loadgen_run, pins, rundir
from harness.execution.loadgen_run import Reporter
from harness.execution.process import read_outcome
from harness.measurement import preparation
from harness.measurement import tests as measurement
from harness.measurement.attempt import Attempt
from harness.request import options, plan
from harness.request.flags import Parser, add_common, known_name
from harness.submission import inference
from harness.terminal import duration, near

# Ids of further checks that concern compliance tests, or say why they cannot be judged.
_OTHER_IDS = (
    "output-length",
    "submission-tree",
    "logs-say-nothing",
    "audit",
)
_MADE_WITH = {
    "environment": "the packages of its environment",
    "source": "sut/, scenarios/ or formats/",
    "variables": "environment variables",
    "switches": "variables of switches",
    "inputs": "the inputs",
    "synthetic": "the synthetic inputs",
    "fresh": "the fresh inputs",
}
"""Name of a digest of `Attempt.made_with` → its meaning."""
_QUICK = "this shows that the compliance tests run and what they find, and nothing about validity"


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    parser = Parser(
        "compliance",
        description=(
            "Run MLPerf's compliance tests on a finished run directory, with what measured it, and"
            " judge them."
        ),
        gone=dict.fromkeys(("--force", "--again"), "a test that --test names runs again"),
    )
    parser.add_argument(
        "directory", metavar="RUN_DIR", type=Path, help="a run directory, such as runs/…/valid-1"
    )
    parser.add_argument(
        "--test",
        nargs="+",
        action="extend",
        default=[],
        metavar="TEST",
        help=(
            "TEST01, TEST04, TEST06: run these, and set earlier logs aside; default: all that apply"
            " and did not run well before"
        ),
    )
    add_common(parser)
    flags = parser.parse_args(arguments)
    names = [known_name(name, rules.load().compliance_tests, "--test") for name in flags.test]
    reporter = terminal.Terminal(flags.quiet)
    with reporter.progress:
        results = comply(
            flags.directory.absolute(), names, flags.cache.absolute(), bool(names), reporter
        )
    return checks.show(results, flags)


def comply(
    directory: Path, names: Sequence[str], cache: Path, again: bool, reporter: Reporter
) -> list[Check]:
    """Run the missing tests of `names` (none: all that apply), write open/ and result.json again,
    and return the checks.

    Raises UsageError or EnvironmentFailure with one sentence if the directory, the environment, the
    source, the inputs or the weights have changed.
    """
    with about(f"compliance {near(str(directory))}"):
        record, job, performance = _finished(directory)
    of = rules.load(record.round)
    prepared = _prepared(directory, record, cache, reporter)
    if changed := _changed(record, job, prepared):
        raise EnvironmentFailure(
            f"compliance {near(str(directory))}: {', '.join(changed)} changed since it was"
            f" measured: put them back as they were, or {_anew(record)}"
        )
    applicable = compliance_tests.applicable(job, of)
    tests = [name for name in names or applicable if name in applicable]
    if record.mode == "quick":
        reporter.say(_QUICK)
    command = f"./run.sh compliance {directory}"
    with locks.machine(reporter.warn, command), rundir.reopened(directory):
        good = _ended_well(directory, tests)
        missing = [name for name in tests if again or name not in good]
        if missing:
            seconds = loadgen_run.expected_seconds(missing, performance)
            reporter.say(f"{', '.join(missing)}: about {duration(seconds)}")
        for log_dir in (directory / "raw" / name for name in tests):
            if again and log_dir.exists():
                rundir.set_aside(log_dir)
        timed = replace(job, calibration=performance.calibration)
        official = record.benchmark.official
        with preparation.worker(prepared) as worker:
            for name in tests:  # each of them, whatever became of those before it
                _, record = measurement.run(
                    (name,),
                    job_of=lambda test, _: loadgen_run.compliance_job(test, timed, of, official),
                    directory=directory,
                    record=record,
                    worker=worker,
                    reporter=reporter,
                )
        submitters = [path.name for path in subfolders(directory / "open")]
        submitter = record.submitter or next(iter(submitters), "unofficial")
        done = _ended_well(directory, of.compliance_tests)
        score = inference.write(directory, record, of, submitter, done)
        audit = audits.audit(directory, of.round, with_result=False)
        derived = result.derive(directory, record, score, audit)
        write_json(directory / "result.json", asdict(derived))
    ids = (*(name.lower() for name in of.compliance_tests), *_OTHER_IDS)
    quick = [not_applicable("quick-run", _QUICK)] if record.mode == "quick" else []
    return [*quick, *(check for check in audit.checks if check.id.startswith(ids))]


def _ended_well(directory: Path, tests: Iterable[str]) -> list[str]:
    """Those of the compliance tests that ended with `ok`."""
    outcomes = {name: read_outcome(directory / "raw" / name) for name in tests}
    return [name for name, outcome in outcomes.items() if outcome and outcome.status == "ok"]


def _finished(directory: Path) -> tuple[Record, Job, WorkerOutcome]:
    """Return (record, job and outcome of the performance test). Raises Refused if the directory is
    no finished run.
    """
    record, fault = files.attempt(files.record, directory / "record.json")
    if record is None:
        raise Refused(f"{fault}: give a run directory, such as runs/…/valid-1")
    outcomes = []
    for test in TESTS:
        outcome = read_outcome(directory / "raw" / test)
        if outcome is None or outcome.status != "ok":
            how = "not finished" if outcome is None else outcome.status
            raise Refused(f"its {test} test is {how}: go on with {record.command} first")
        outcomes.append(outcome)
    job, fault = files.attempt(files.job, directory / "raw" / PERFORMANCE / "job.json")
    if job is None:
        raise Refused(f"{fault}: {_anew(record)}")
    if job.procedure != "loadgen":
        raise Refused(
            "is a training, and these tests are LoadGen's: give a run of another scenario"
        )
    measured_in = job.log_dir.parent.parent
    if measured_in.resolve() != directory.resolve():
        raise Refused(f"was measured in {measured_in}: put it back there, or {_anew(record)}")
    return record, job, outcomes[0]


def _anew(record: Record) -> str:
    return f"measure it again: {record.command}"


def _prepared(directory: Path, record: Record, cache: Path, reporter: Reporter) -> Attempt:
    """Plan the recorded command again, and make what its worker needs. Raises EnvironmentFailure if
    something of it is gone.
    """
    _, *words = shlex.split(record.command)
    if words[:1] == ["run"]:
        del words[0]
    try:
        asked = replace(options.parse(words), command=record.command, cache=cache)
        request = plan.resolve(asked)
    except UsageError as e:
        where = ""
        if record.working_directory != str(Path.cwd()):
            where = f" (it was typed in {record.working_directory})"
        raise EnvironmentFailure(
            f"compliance {near(str(directory))}: {e}{where}; {_anew(record)}"
        ) from None
    name = request.spec.environment
    if not asked.python and not pins.is_made(cache, name, request.device, request.pins):
        raise EnvironmentFailure(
            f"compliance {near(str(directory))}: the environment {name} is not in {cache}, or its"
            f" lock has changed: give its --cache, or {_anew(record)}"
        )
    return preparation.prepare(request, reporter, {})


def _changed(record: Record, job: Job, prepared: Attempt) -> list[str]:
    """Name what is not as it was when the run was measured."""
    before = job.made_with
    now = prepared.made_with
    names = [words for key, words in _MADE_WITH.items() if before.get(key) != now[key]]
    if prepared.checkpoint.digest != record.digests.weights:
        names.append("the weights")
    return names
