"""The record and the raw logs of a run → its submission open/<submitter>/…, in the v6.1 layout."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from compliance import logs
from compliance.rules import Rules
from compliance.scoring import accuracy, of_run, official
from compliance.scoring.value import AnswerBytes
from formats.record import Record
from formats.writing import write_json
from harness.execution.environments import ROOT
from harness.execution.machine import SOURCES
from harness.submission import compliance_folders
from results import documents
from results.figure import with_facts
from sut.devices import DEVICES
from sut.registry import packages, recorded_names

_LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")


_SOURCE_README = """\
# Source of {benchmark}

The harness that measured it: `sut/` holds the System Under Test, `scenarios/` the LoadGen side,
`formats/` the files that both write, `environments/` the locked requirements
(sha256 of the files in `scenarios/`, `sut/` and `formats/`: {digest}).
The README.md of each result has its command and revision.
"""
Score = accuracy.Accuracy | str
"""The accuracy of the answers, or a sentence that says why it is not known (no reference, a damaged
log).
"""


def write(
    directory: Path, record: Record, rules: Rules, submitter: str, tests: Iterable[str]
) -> Score:
    """Write open/<submitter>/ again. raw/ must contain both tests. → the score. It is also in
    accuracy.txt, unless the run has an official metric, which is there then.

    Args:
        tests: those that ended well. Compliance tests among them get their folders.
    """
    cell = record.cell
    benchmark = record.benchmark
    root = directory / "open" / submitter
    whole = answers(directory)
    accuracy_score = score(directory, record, whole)
    metric = official_score(directory, record, whole)
    shutil.rmtree(directory / "open", ignore_errors=True)
    system = documents.system_id(record)
    scenario = root / "results" / system / benchmark.name / cell.scenario
    for test, target in (
        ("performance", scenario / "performance" / "run_1"),
        ("accuracy", scenario / "accuracy"),
    ):
        target.mkdir(parents=True)
        for name in _LOGS:
            shutil.copyfile(directory / "raw" / test / name, target / name)
    _write_accuracy(directory, accuracy_score, metric, rules, scenario / "accuracy")
    run = compliance_folders.Run(directory, record, rules, metric or accuracy_score, whole)
    for name in tests:
        if name in rules.compliance_tests:
            compliance_folders.write(run, name, scenario / name)
    shutil.copyfile(directory / "raw" / "performance" / "user.conf", scenario / "user.conf")
    write_json(scenario / "measurements.json", documents.measurements(record))
    (scenario / "README.md").write_text(
        _readme(record), encoding="utf-8", errors="backslashreplace"
    )
    write_json(root / "model_mapping.json", {benchmark.name: benchmark.official})
    (root / "systems").mkdir()
    write_json(root / "systems" / f"{system}.json", system_description(record, submitter))
    source = root / "src" / benchmark.name
    source.mkdir(parents=True)
    # The source that is needed to repeat the run, without the tests.
    without = shutil.ignore_patterns("__pycache__", ".*")
    for name in SOURCES if record.mode == "submission" else ():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=without)
        else:
            shutil.copy(ROOT / name, source / name)
    digest = record.git.worker_source_sha256
    text = _SOURCE_README.format(benchmark=benchmark.name, digest=digest)
    (source / "README.md").write_text(text, encoding="utf-8")
    return accuracy_score


def answers(directory: Path) -> AnswerBytes:
    """The answers of the accuracy test. Raises OSError if their log cannot be read."""
    return logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").payloads


def score(directory: Path, record: Record, whole: AnswerBytes) -> Score:
    """The accuracy of all answers compared with the reference, or a sentence that says why it is
    not known.
    """
    if not (directory / "reference.npz").exists():
        return record.accuracy.reason or "no reference"
    try:
        return of_run.score(directory, record.accuracy, whole)
    except ValueError as e:
        return f"not scored: {e}"


def official_score(
    directory: Path, record: Record, whole: AnswerBytes
) -> official.Scored | str | None:
    """The official metric of all answers, or a sentence that says why it is not known. None: the
    run is not of an official benchmark.
    """
    if record.official is None:
        return None
    try:
        return official.score(directory, record.official, whole)
    except (OSError, ValueError) as e:
        return f"not scored: {e}"


def _write_accuracy(
    directory: Path,
    accuracy_score: Score,
    metric: official.Scored | str | None,
    rules: Rules,
    target: Path,
) -> None:
    """Write accuracy.txt with the hash of the whole log, and the log truncated as by
    truncate_accuracy_log.py.

    If the run has an official metric, its line comes first, and the score is its `reference`.
    """
    whole = (directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").read_bytes()
    lines = [_line(accuracy_score)]
    if metric is not None:
        lines = [_line(metric), accuracy.beside_metric(lines[0])]
    lines.append(f"hash={hashlib.sha256(whole).hexdigest()}")
    (target / "accuracy.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (target / "mlperf_log_accuracy.json").write_bytes(rules.truncation.cut(whole))


def _line(score: Score | official.Scored) -> str:
    return json.dumps({"accuracy": score}) if isinstance(score, str) else score.line()


def system_description(record: Record, submitter: str) -> dict[str, str]:
    """The values of systems/<system>.json."""
    stack = recorded_names((*packages(), *documents.STACK), record.environment.versions).values()
    return documents.system_description(
        record, submitter, stack, DEVICES[record.cell.device].driver or ""
    )


def _readme(record: Record) -> str:
    cell = record.cell
    git = record.git
    digests = record.digests
    model = with_facts(f"{cell.model} {cell.size}", record.model_facts)
    return f"""# {record.benchmark.name} {cell.scenario} on {cell.sut}

{documents.LABEL}

Repeat it, at revision {git.revision} of the harness{" with local changes" if git.dirty else ""}:

    cd {record.working_directory}
    {record.command}

Model {model}, {cell.precision}, batch {cell.batch_size}, device {cell.device}.
Weights {digests.weights} ({digests.weights_source}),
the BLAKE3 of config.json and of the weights' files;
inputs sha256 {digests.inputs} ({record.qsl.samples} samples,
{record.qsl.dataset or record.cell.dataset}). LoadGen: {record.loadgen}.
{_relation(record)}
"""


def _relation(record: Record) -> str:
    """The relation of a run to the official benchmark."""
    name = record.benchmark.official
    if record.official is None:
        return (
            f"Mapped to the official benchmark {name} for the checkers' tables only: model and data"
            " are not its own."
        )
    lacks = "".join(f"\n- {each}" for each in record.official.lacks)
    return f"The official benchmark {name}. An eligible result lacks:{lacks or ' nothing known.'}"
