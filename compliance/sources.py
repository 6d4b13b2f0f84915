"""What a result follows from: the files of a run directory, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compliance import logs, rules
from compliance.audit_tests import compliance_tests
from compliance.logs import files
from compliance.scoring.value import Accuracy
from compliance.training import steps as step_files
from compliance.training.steps import Steps
from formats.job import PERFORMANCE, TESTS, Job
from formats.outcome import WorkerOutcome
from formats.record import Record

_EARLIER = "performance.attempt-"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The files of a run directory from which its result follows.

    Attributes:
        directory: the path of the run directory.
        job: that of the performance test; None: it cannot be read.
        outcomes: test → the report of its worker; None: there is none that can be read. A run of
            mode `submission` also has the compliance tests that apply.
        log: LoadGen's detail log of the performance test; None: there is none.
        steps: of a training, the times of its steps; None: there are none.
        score: the accuracy, or why it is not known.
        accuracy_text: the content of accuracy.txt; empty: there is none.
        earlier_tests: the folders of performance tests that were measured again.
    """

    directory: str
    record: Record
    job: Job | None
    outcomes: Mapping[str, WorkerOutcome | None]
    log: logs.Detail | None
    steps: Steps | None
    score: Accuracy | str
    accuracy_text: str
    earlier_tests: tuple[str, ...]

    @property
    def trains(self) -> bool:
        """Whether it is a training, which has no logs of LoadGen."""
        return self.record.cell.task == "fit"

    @property
    def finished(self) -> bool:
        """Whether all tests ended well."""
        return all(outcome and outcome.status == "ok" for outcome in self.outcomes.values())

    @property
    def performance(self) -> WorkerOutcome | None:
        """The report of a performance test that ended well; None: it did not."""
        outcome = self.outcomes[PERFORMANCE]
        return outcome if outcome and outcome.status == "ok" else None


def read(directory: Path, record: Record, score: Accuracy | str) -> Sources:
    """Read a run directory. A file that cannot be read is None or empty."""
    raw = directory / "raw"
    job = files.maybe(files.job, raw / PERFORMANCE / "job.json")
    tests: tuple[str, ...] = TESTS
    if record.mode == "submission" and job:
        tests += compliance_tests.applicable(job, rules.load(record.round))
    outcomes = {test: files.maybe(files.outcome, raw / test / "outcome.json") for test in tests}
    log = files.maybe(logs.read_detail, raw / PERFORMANCE / "mlperf_log_detail.txt")
    steps = files.maybe(step_files.read, raw / PERFORMANCE / "steps.json")
    earlier = [path.name for path in files.listed(raw) if path.name.startswith(_EARLIER)]
    return Sources(
        directory=str(directory),
        record=record,
        job=job,
        outcomes=outcomes,
        log=log,
        steps=steps,
        score=score,
        accuracy_text=accuracy_text(directory, record),
        earlier_tests=tuple(earlier),
    )


def accuracy_text(directory: Path, record: Record) -> str:
    """The content of accuracy.txt in the submission. Empty if there is none."""
    pattern = f"open/*/results/*/{record.benchmark.name}/*/accuracy/accuracy.txt"
    paths = sorted(directory.glob(pattern))
    text = files.maybe(partial(files.text, errors="replace"), paths[0]) if paths else None
    return text or ""
