"""The content of one result folder, read once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from compliance import logs
from compliance.folders import ResultFolder, measurements_file
from compliance.loadgen.log import Log
from compliance.logs import files, user_conf
from compliance.logs import trace as traces
from compliance.logs.digits import DIGITS, close
from compliance.logs.strict_json import Document
from compliance.logs.user_conf import Conf, parse
from compliance.rules import Benchmark, Rules
from formats.evidence import Evidence
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.record import Record

T = TypeVar("T")

TESTS = ("performance", "accuracy")
NO_RECORD = "record.json, which it is compared with, cannot be read"


@dataclass(frozen=True, kw_only=True)
class LoadGenRun:
    """One LoadGen test: performance, accuracy or a compliance test.

    A part that could not be read is empty or None. Its `problems`, or `faults`, say why.

    Attributes:
        name: `performance`, `accuracy`, `TEST01`, ….
        folder: its folder in the submission tree.
        detail, summary: its logs in that folder.
        user_conf: the text of the user.conf it ran with. It is from raw/<test>/user.conf, else from
            the submission.
        outcome, job: raw/<test>/outcome.json and job.json; None without a run directory.
        faults: file name → why it could not be read.
        file: the path of its detail log, relative to the audited directory.
    """

    name: str
    folder: Path
    detail: logs.Detail
    summary: logs.Summary
    user_conf: str | None
    outcome: WorkerOutcome | None
    job: Job | None
    faults: dict[str, str]
    file: str = ""

    @property
    def slug(self) -> str:
        """The name as ids of checks spell it: `performance`, `test01`."""
        return self.name.lower()

    @property
    def stopped(self) -> str:
        """The sentence that says where its detail log stops; empty if it is whole."""
        return self.detail.stopped(self.name)

    @property
    def evidence(self) -> dict[str, Evidence] | None:
        """The worker's evidence from `before` and `after` the test; None if one of them is
        missing.
        """
        before = self.outcome.evidence_before if self.outcome else None
        return {"before": before, "after": self.after} if before and self.after else None

    @property
    def after(self) -> Evidence | None:
        """The worker's evidence from after the test; None: there is none."""
        return self.outcome.evidence_after if self.outcome else None

    @property
    def no_evidence(self) -> str:
        """The sentence that says why there is no evidence from both before and after the test."""
        if fault := self.faults.get("outcome.json"):
            return f"the worker's evidence cannot be read: {fault}"
        before = self.outcome.evidence_before if self.outcome else None
        evidence = {"before": before, "after": self.after}
        lacking = [when for when, each in evidence.items() if each is None]
        return f"the worker left no evidence from {' and '.join(lacking)} the test"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Everything that the checks of one result folder need. A part is None if it is not there, or
    if `faults` says why it could not be read.

    Attributes:
        rules: the round's rules for the benchmark the folder is named for.
        performance, accuracy: its two tests.
        record: record.json of the run directory.
        system, measurements, mapping: the submission's system description, measurements.json and
            model_mapping.json.
        system_file, measurements_file, mapping_file: their paths, relative to the audited
            directory.
        accuracy_text: accuracy.txt.
        trace: the trace of the performance test.
        trace_file: the path of the trace, even if there is none.
        compliance: the compliance tests in the submission or in raw/, by name.
        faults: file name → why it could not be read.
        only: the name of the only test, if the folder has the logs of one test and nothing else;
            else empty.
    """

    place: ResultFolder
    rules: Rules
    performance: LoadGenRun
    accuracy: LoadGenRun
    record: Record | None
    system: Document | None
    measurements: Document | None
    mapping: Document | None
    accuracy_text: str | None
    trace: traces.Trace | None
    trace_file: str
    compliance: dict[str, LoadGenRun]
    faults: dict[str, str]
    only: str = ""
    system_file: str = ""
    measurements_file: str = ""
    mapping_file: str = ""

    @property
    def tests(self) -> tuple[LoadGenRun, ...]:
        """The performance and the accuracy test, or the only one."""
        return (self.performance,) if self.only else (self.performance, self.accuracy)

    @property
    def official(self) -> str | None:
        """The official benchmark of this folder: its own name, or the one it is mapped to in the
        open division. A name that means no official benchmark is returned unchanged.
        """
        mapping = self.mapping if self.is_open and self.mapping else {}
        target = self.rules.official(self.place.benchmark, mapping)
        return target if isinstance(target, str) else None

    @property
    def is_open(self) -> bool:
        """Whether the result is in the open division, in which most rules do not apply."""
        return self.place.division == "open"

    @property
    def official_rules(self) -> Benchmark | None:
        """The rules of this folder's official benchmark in its scenario; None: it has none."""
        row = self.rules.benchmarks.get(self.official or "")
        return row.of(self.place.scenario) if row else None

    @property
    def accuracy_file(self) -> str:
        """The accuracy.txt of the accuracy test, relative to the audited directory."""
        return self.place.show(self.accuracy.folder / "accuracy.txt")

    def test_folder(self, name: str) -> str:
        """The folder of a compliance test, relative to the audited directory."""
        return self.place.show(self.place.compliance / name)

    @cached_property
    def conf_name(self) -> str:
        """The model's name that LoadGen looked for in user.conf. The submitter's harness gives it.

        It is the name, of those in user.conf, whose lines agree best with the performance test's
        log, and the folder's name if none agrees better. This harness gives no names but the
        folder's and that of LoadGen's own configuration.
        """
        conf = parse(self.performance.user_conf or "")
        place = self.place
        names = conf.models() - {place.benchmark}
        if place.run:
            row = self.rules.benchmarks.get(place.benchmark)
            names &= {row.of(place.scenario).loadgen_name} if row else set()
        return max([place.benchmark, *sorted(names)], key=lambda name: _agreeing(conf, name, self))

    @cached_property
    def log(self) -> Log:
        """The log of the performance test, as the rules of its scenario read it."""
        return self.log_of(self.performance)

    def log_of(self, test: LoadGenRun) -> Log:
        """The log of a test, as the rules of the scenario read it."""
        return Log.of(test.detail, self.scenario, self.rules)

    @property
    def own_conf_name(self) -> str:
        """The model's name that user.conf should have. The submitter of a bare submission may have
        given LoadGen another name than the folder's, and then it is not known.
        """
        return self.conf_name if self.place.run else self.place.benchmark

    @property
    def scenario(self) -> str:
        """The scenario by whose rules the logs are judged. It is one of LoadGen's four.

        Interactive is logged as Server. An edge system may infer a scenario from the logs of
        another (checks.settings).
        """
        folder = self.rules.scenarios[self.place.scenario]
        logged = self.performance.detail.get("effective_scenario")
        return logged if logged in folder.inferred_from and self.on_edge else folder.logged_as

    @property
    def on_edge(self) -> bool:
        """True if the system description says that this is an edge system."""
        return "edge" in str((self.system or {}).get("system_type")).lower()

    @property
    def no_reference(self) -> bool:
        """True if record.json names no reference and gives the reason."""
        return self.record is not None and self.record.no_reference

    @property
    def recorded(self) -> Record:
        """record.json, for checks that only a run directory with one has."""
        assert self.record is not None
        return self.record

    @property
    def no_trace(self) -> str:
        """The sentence that says why there is no trace to look at."""
        no_trace = "there is no trace, so the figures of the detail log cannot be computed again"
        return self.faults.get(self.trace_file) or no_trace


def read(place: ResultFolder, rules: Rules) -> Subject:
    """Reads one result folder. Files that cannot be read are noted in `faults` and raise
    nothing.
    """
    faults: dict[str, str] = {}
    rules = rules.of(place.benchmark)

    def take(reader: Callable[[Path], T], path: Path) -> T | None:
        value, fault = files.attempt(reader, path)
        if fault:
            faults[place.show(path)] = fault
        return value

    layout = rules.layout
    base = place.submitter_folder
    system = base / layout.system.format(system=place.system)
    measurements = measurements_file(place, rules)
    mapping = base / layout.model_mapping
    trace = _trace_path(place, rules)
    performance = _test("performance", place.folder / layout.performance, place, rules)
    accuracy = _test("accuracy", place.folder / layout.accuracy, place, rules)
    return Subject(
        place=place,
        rules=rules,
        performance=performance,
        accuracy=replace(accuracy, detail=accuracy.detail.sharing(performance.detail)),
        record=take(files.record, place.run / "record.json") if place.run else None,
        system=take(files.json_object, system),
        measurements=take(files.json_object, measurements),
        mapping=take(files.json_object, mapping) if os.path.lexists(mapping) else None,
        system_file=place.show(system),
        measurements_file=place.show(measurements),
        mapping_file=place.show(mapping),
        accuracy_text=take(files.text, place.folder / layout.accuracy / "accuracy.txt"),
        trace=take(traces.read, trace) if files.size(trace) else None,
        trace_file=place.show(trace),
        compliance=dict(_compliance(place, rules)),
        faults=faults,
    )


def read_logs(place: ResultFolder, rules: Rules) -> Subject:
    """Reads a folder with the logs of one test and without a submission around it. The same test is
    the performance and the accuracy test of the subject, and `only` names it.
    """
    test = _test("performance", place.folder, place, rules)
    if test.detail.get("effective_test_mode") == "AccuracyOnly":
        test = replace(test, name="accuracy")
    trace = _plain_or_packed(place.folder / "mlperf_log_trace.json")
    read, fault = files.attempt(traces.read, trace) if files.size(trace) else (None, "")
    return Subject(
        place=place,
        rules=rules,
        performance=test,
        accuracy=test,
        record=None,
        system=None,
        measurements=None,
        mapping=None,
        accuracy_text=None,
        trace=read,
        trace_file=place.show(trace),
        compliance={},
        faults={place.show(trace): fault} if fault else {},
        only=test.name,
    )


def conf_entry(conf: Conf, key: str, subject: Subject) -> tuple[str, str] | None:
    """(the whole key, the text of its number) that LoadGen finds in user.conf for a setting; None
    if it finds none.

    The model's name may differ from the folder's: see `Subject.conf_name`.
    """
    return conf.look_up(subject.conf_name, subject.scenario, key)


def _agreeing(conf: Conf, model: str, subject: Subject) -> tuple[int, int]:
    """(minus the number of settings that differ from the log's, the number that agree) if LoadGen
    looked for `model`. LoadGen's defaults are such settings, too.
    """
    detail = subject.performance.detail
    same = others = 0
    scenario = subject.scenario
    for key, rule in subject.rules.user_conf.items():
        entry = conf.look_up(model, scenario, key)
        word = entry[1] if entry else rule.default_in(scenario)
        logged = detail.number(rule.logged_as(scenario) or "")
        if word is None or logged is None:
            continue
        if close(user_conf.read(scenario, key, word), logged, DIGITS):
            same += 1
        else:
            others += 1
    return -others, same


def released(detail: logs.Detail, rules: Rules) -> bool:
    """Whether the log is of a LoadGen that the round released, as far as that matters. Revisions
    before the releases, which checkouts of mlcommons/inference have, log less in some rounds.
    """
    version, _, commit = str(detail.get("loadgen_version")).partition(" @ ")
    return not rules.unlogged_before or rules.versions.get(version) == commit


def requested_value(subject: Subject, key: str) -> tuple[float, bool] | None:
    """(the requested value of a performance test's setting, whether all its digits are known); None
    if it is not logged.

    The log has six digits. user.conf has all digits, and its value is used if it agrees with the
    log.
    """
    rule = subject.rules.user_conf[key]
    logged = subject.performance.detail.number(rule.logged_as(subject.scenario) or "")
    if logged is None or not 0 < logged < 1e18:
        return None
    entry = conf_entry(parse(subject.performance.user_conf or ""), key, subject)
    if entry is not None:
        # A submitted user.conf for other models may be rounded, or of another run.
        own = entry[0].startswith(("*.", f"{subject.own_conf_name}."))
        value = user_conf.read(subject.scenario, key, entry[1])
        if own and close(value, logged, DIGITS):
            return value, True
    # A harness may set a number without user.conf, whose sixth digit may be 0 by chance.
    few_digits = float(f"{logged:.5g}") == logged
    return logged, few_digits and subject.place.run is not None


def _compliance(place: ResultFolder, rules: Rules) -> Iterator[tuple[str, LoadGenRun]]:
    """(name, test) of each compliance test in the submission or in raw/. The logs are read from the
    submission; a check compares them with raw/.
    """
    for name in rules.compliance_tests:
        folder = place.compliance / name
        raw = place.raw(name)
        if folder.exists() or (raw and raw.exists()):
            yield name, _test(name, folder / rules.layout.performance, place, rules)


def _trace_path(place: ResultFolder, rules: Rules) -> Path:
    """The path of the performance test's trace. LoadGen creates an empty file if tracing is off."""
    raw = place.raw("performance")
    if raw:
        return raw / "mlperf_log_trace.json.gz"
    return _plain_or_packed(place.folder / rules.layout.performance / "mlperf_log_trace.json")


def _plain_or_packed(trace: Path) -> Path:
    """The path of a trace that somebody may have compressed by gzip."""
    packed = trace.with_name(f"{trace.name}.gz")
    return trace if files.size(trace) or not packed.is_file() else packed


def _test(name: str, folder: Path, place: ResultFolder, rules: Rules) -> LoadGenRun:
    faults: dict[str, str] = {}
    detail, fault = files.attempt(logs.read_detail, folder / "mlperf_log_detail.txt")
    summary, summary_fault = files.attempt(logs.read_summary, folder / "mlperf_log_summary.txt")
    raw = place.raw(name)
    # LoadGen reads bytes, so a comment may be in any encoding.
    read_conf = partial(files.text, errors="backslashreplace")
    conf, faults["user.conf"] = files.attempt(read_conf, (raw or place.measurements) / "user.conf")
    outcome = None
    job = None
    if raw:
        outcome, faults["outcome.json"] = files.attempt(files.outcome, raw / "outcome.json")
        job, faults["job.json"] = files.attempt(files.job, raw / "job.json")
    return LoadGenRun(
        name=name,
        folder=folder,
        detail=_completed(detail, rules) if detail else logs.Detail({}, {}, (), (), (fault,)),
        summary=summary or logs.Summary({}, "", (summary_fault,)),
        user_conf=conf,
        outcome=outcome,
        job=job,
        faults={file: why for file, why in faults.items() if why},
        file=place.show(folder / "mlperf_log_detail.txt"),
    )


def _completed(detail: logs.Detail, rules: Rules) -> logs.Detail:
    """The detail log, completed with the keys that this round's LoadGen does not log, or that a
    revision before the round's releases does not log.
    """
    values = {}
    unlogged = rules.unlogged if released(detail, rules) else rules.unlogged_before
    for key, means in unlogged.items():
        values[key] = detail.get(means) if isinstance(means, str) else means
    return replace(detail, values={**values, **detail.values})
