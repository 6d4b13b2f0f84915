"""`./run.sh compliance RUN_DIR` runs MLPerf's compliance tests on a finished run directory, each in
a fresh worker of the same environment.

The job is read from raw/performance/job.json, so only audit.config differs. If anything else has
changed since the run, the command refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from compliance import audit as audits
from compliance import rules
from compliance.findings.check import not_applicable
from compliance.folders import subfolders
from compliance.logs import files
from formats.checks import Check
from formats.job import TESTS, Job
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.writing import write_json
from harness import locks, result, terminal
from harness.commands import checks
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, kernels, loadgen_run, machine, rundir
from harness.execution.loadgen_run import Reporter
from harness.execution.process import Worker, read_outcome
from harness.inputs.checkpoint import digest_of, source_files
from harness.measurement import tests as measurement
from harness.request.flags import Parser, add_common, known_name
from harness.submission import inference
from harness.terminal import duration, near
from sut import variables as environment_variables
from sut.registry import SUTS

_ADOPTED = " (--python)"
# Ids of further checks that concern compliance tests, or say why they cannot be judged.
_OTHER_IDS = (
    "output-length",
    "repeated-samples",
    "submission-tree",
    "logs-say-nothing",
    "audit",
)
_QUICK = "this shows that the compliance tests run and what they find, and nothing about validity"


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    parser = Parser(
        prog="./run.sh compliance",
        description=(
            "Run MLPerf's compliance tests on a finished run directory, with what measured it, and"
            " judge them."
        ),
        allow_abbrev=False,
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
    record, job, performance = _finished(directory)
    of = rules.load(record.round)
    environment = _same(directory, record, job, cache, reporter)
    tests = [
        name
        for name in names or loadgen_run.applicable(job, of)
        if not loadgen_run.inapplicable(name, job)
    ]
    if record.mode == "quick":
        reporter.say(_QUICK)
    command = f"./run.sh compliance {directory}"
    with locks.machine(reporter.warn, command), rundir.reopened(directory):
        missing = [name for name in tests if again or not _done(directory, name)]
        if missing:
            reporter.say(
                f"{', '.join(missing)}: about"
                f" {duration(loadgen_run.expected_seconds(missing, performance))}"
            )
        for log_dir in (directory / "raw" / name for name in tests):
            if again and log_dir.exists():
                rundir.set_aside(log_dir)
        timed = replace(job, calibration=performance.calibration)
        official = record.benchmark.official
        device = job.workload.device
        folder = kernels.folder(cache, environment, record.machine, device, job.places)
        own = SUTS[job.sut].process_env
        process_env = {**kernels.variables(folder), **job.variables, **own}
        with Worker(environment.python, process_env) as worker:
            for name in tests:  # each of them, whatever became of those before it
                _, record = measurement.run(
                    (name,),
                    job_of=lambda test, _: loadgen_run.compliance_job(test, timed, of, official),
                    directory=directory,
                    record=record,
                    worker=worker,
                    reporter=reporter,
                )
        score = inference.write(directory, of, record.submitter or _submitter(directory))
        audit = audits.audit(directory, of.round, with_result=False)
        write_json(directory / "result.json", asdict(result.derive(directory, score, audit)))
    ids = (*(name.lower() for name in of.compliance_tests), *_OTHER_IDS)
    quick = [not_applicable("quick-run", _QUICK)] if record.mode == "quick" else []
    return [*quick, *(check for check in audit.checks if check.id.startswith(ids))]


def _done(directory: Path, name: str) -> bool:
    outcome = read_outcome(directory / "raw" / name)
    return outcome is not None and outcome.status == "ok"


def _finished(directory: Path) -> tuple[Record, Job, WorkerOutcome]:
    """Return (record, job and outcome of the performance test). Raises UsageError if the directory
    is no finished run.
    """
    record, fault = files.attempt(files.record, directory / "record.json")
    if record is None:
        raise UsageError(
            f"compliance {near(str(directory))}: {fault}: give a run directory, such as"
            " runs/…/valid-1"
        )
    for test in TESTS:
        outcome = read_outcome(directory / "raw" / test)
        if outcome is None or outcome.status != "ok":
            how = "not finished" if outcome is None else outcome.status
            raise UsageError(
                f"compliance {near(str(directory))}: its {test} test is {how}: go on with"
                f" {record.command} first"
            )
    job, fault = files.attempt(files.job, directory / "raw" / "performance" / "job.json")
    performance = read_outcome(directory / "raw" / "performance")
    if job is None or performance is None:
        raise UsageError(f"compliance {near(str(directory))}: {fault}: {_anew(record)}")
    if job.procedure != "loadgen":
        raise UsageError(
            f"compliance {near(str(directory))}: is a training, and these tests are LoadGen's: give"
            " a run of another scenario"
        )
    if job.log_dir.parent.parent.resolve() != directory.resolve():
        raise UsageError(
            f"compliance {near(str(directory))}: was measured in {job.log_dir.parent.parent}: put"
            f" it back there, or {_anew(record)}"
        )
    return record, job, performance


def _anew(record: Record) -> str:
    return f"measure it again: {record.command}"


def _same(
    directory: Path, record: Record, job: Job, cache: Path, reporter: Reporter
) -> environments.Environment:
    """Return the environment that measured it. Raises EnvironmentFailure with the first change
    since then.
    """
    environment = _environment(directory, record, job, cache)
    for fault in _changes(record, job, reporter):
        raise EnvironmentFailure(f"compliance {near(str(directory))}: {fault}")
    return environment


def _changes(record: Record, job: Job, reporter: Reporter) -> Iterator[str]:
    if machine.git().worker_source_sha256 != job.made_with.get("source"):
        revision = record.git.revision
        how = f"check out {revision[:12]} again, or {_anew(record)}" if revision else _anew(record)
        yield f"sut/, scenarios/ or formats/ have changed since it was measured: {how}"
    if changed := sorted(_other_variables(job)):
        yield (
            "environment variables that change figures are not as they were"
            f" ({', '.join(changed)}): set them again, or {_anew(record)}"
        )
    for name, path in (("inputs", job.inputs), ("synthetic", job.synthetic)):
        digest, fault = files.attempt(files.sha256, path)
        if digest is None:
            yield (
                f"of its inputs {path} is gone ({fault}): put the cache back where it was, or"
                f" {_anew(record)}"
            )
        elif digest != job.made_with.get(name):
            yield f"{path} is not the file it was measured with: {_anew(record)}"
    if SUTS[job.sut].reads_weights:
        reporter.say("the weights are compared with their digest")
        digest, fault = files.attempt(
            lambda path: _weights_digest(path, record), job.workload.checkpoint
        )
        if digest != record.digests.weights:
            why = f"are gone ({fault})" if digest is None else "have changed since it was measured"
            yield (
                f"the weights in {job.workload.checkpoint} {why}: put them back, or {_anew(record)}"
            )


def _other_variables(job: Job) -> set[str]:
    before, now = (
        json.loads(job.made_with.get("variables", "{}")),
        environment_variables.read_by_any(os.environ),
    )
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _weights_digest(checkpoint: Path, record: Record) -> str:
    """The digest of the weights, computed as in harness.inputs.checkpoint: config.json, then the
    weights by name. For a user's weights the files of the user's folder are read.
    """
    folder = Path(record.digests.weights_folder or checkpoint)
    # A user's folder of some models has no config.json. Its values are derived from the tensors.
    return digest_of(
        folder / name
        for name in source_files(checkpoint)
        if name != "config.json" or (folder / name).exists()
    )


def _environment(
    directory: Path, record: Record, job: Job, cache: Path
) -> environments.Environment:
    """Return the environment that measured it. Raises EnvironmentFailure if it is gone or its
    packages have changed.
    """
    recorded_environment, device = record.environment, record.cell.device
    name, about = (
        recorded_environment.name,
        f"compliance {near(str(directory))}: the environment {recorded_environment.name}",
    )
    if name.endswith(_ADOPTED):
        if not recorded_environment.python:
            raise EnvironmentFailure(
                f"{about} is not recorded with its interpreter: {_anew(record)}"
            )
        environment = environments.adopt(
            recorded_environment.python, name.removesuffix(_ADOPTED), record.round, device
        )
    else:
        if not environments.is_made(cache, name, device, record.round):
            raise EnvironmentFailure(
                f"{about} is not in {cache}, or its lock has changed: give its --cache, or"
                f" {_anew(record)}"
            )
        environment = environments.ensure(
            cache, name, device, record.round, environments.say_on_stderr
        )
    if environment.lock_sha256 != job.made_with.get("environment"):
        raise EnvironmentFailure(
            f"{about} holds other packages than it was measured with: {_anew(record)}"
        )
    return environment


def _submitter(directory: Path) -> str:
    return next((path.name for path in subfolders(directory / "open")), "unofficial")
