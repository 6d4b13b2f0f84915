"""The checks of a submission's files: the exact set of each scenario, whole logs, odd names. Only
this module walks the directory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from compliance.findings.check import judge, not_applicable, shorten
from compliance.folders import ResultFolder, measurements_file, subfolders
from compliance.logs import files
from compliance.rules import Layout, Rules
from compliance.subject import TESTS, LoadGenRun, Subject, released
from formats.checks import Checks, Fault, Faults

_NOT_COMPARED = "the detail log is not judged, so there is nothing to compare with"
_ERRORS = re.compile(r"\d+ errors? encountered", re.IGNORECASE)
_RESULTS = ("result_", "early_stopping")
_WARNING = "warning_generic_message"
_LABEL = re.compile(
    r"SUT name|Result is|Min (duration|queries) satisfied|(Min|Max|Mean) latency \(ns\)|\d\d\.\d\d"
    r" percentile latency \(ns\)"
)


def checks(subject: Subject) -> Checks:
    """The checks of one result folder's files, and that its logs are whole."""
    results = [
        judge(
            "files-complete",
            _missing(subject, _expected(subject)),
            "all files are there, and none is empty",
            subject.place.name,
        ),
        judge(
            "no-other-files",
            _extra(subject),
            "no file that does not belong there",
            subject.place.name,
        ),
    ]
    for test in subject.tests:
        results += of_test(test, subject)
    return results


def of_test(test: LoadGenRun, subject: Subject) -> Checks:
    """The checks that a test's detail log is whole and its summary agrees with it."""
    detail_file = test.file
    summary_file = subject.place.show(test.folder / "mlperf_log_summary.txt")
    detail = test.detail
    if detail.not_judged:
        return [
            not_applicable(f"{test.name}-detail-log", detail.not_judged, detail_file),
            not_applicable(f"{test.name}-summary", _NOT_COMPARED, summary_file),
        ]
    lines = sum(map(len, detail.occurrences.values()))
    return [
        judge(
            f"{test.name}-detail-log",
            _whole(test, subject),
            f"{lines} lines, one run",
            detail_file,
        ),
        judge(
            f"{test.name}-summary",
            [*test.summary.problems, *_contradictions(test, subject)],
            "the values of the detail log",
            summary_file,
        ),
    ]


def submitter_checks(place: ResultFolder, rules: Rules, every: Sequence[ResultFolder]) -> Checks:
    """The checks of a submitter's folder, once for each folder. `every`: its result folders."""
    return [
        judge(
            "nothing-beside-the-scenarios",
            _beside(place, rules, every),
            "every file belongs to a scenario, a system or the source, or is a document",
            place.show(place.submitter_folder),
        ),
        judge(
            "names-and-sizes",
            _odd(place, rules),
            "no link, hidden file, space, empty folder or file over 50 MB",
            place.show(place.submitter_folder),
        ),
    ]


def endpoints_documents(subject: Subject) -> Checks:
    """The check of the documents that a result of mlcommons/endpoints must have in a submission."""
    place = subject.place
    folder = place.measurements
    expected = [folder / name for name in subject.rules.endpoints.scenario_files]
    expected.append(measurements_file(place, subject.rules))
    faults = _missing(subject, expected)
    return [judge("files-complete", faults, "its documents are there", place.name)]


def _expected(subject: Subject) -> Iterator[Path]:
    layout = subject.rules.layout
    place = subject.place
    folder = place.folder
    yield from (place.measurements / name for name in layout.scenario_files)
    yield measurements_file(place, subject.rules)
    yield from (folder / layout.performance / name for name in layout.performance_files)
    yield from (folder / layout.accuracy / name for name in layout.accuracy_files)


def _missing(subject: Subject, expected: Iterable[Path]) -> Faults:
    """Yield a fault for each expected file that is missing, empty or no file."""
    for path in expected:
        size, fault = files.attempt(lambda p: p.stat().st_size, path)
        if fault or not path.is_file() or not size:
            state = "empty" if path.is_file() else "no file"
            instead = ""
            if files.link_to(path):
                state = "a link: it is not read"
            elif fault:
                state = "missing"
                instead = files.packed(path) or _elsewhere(path, subject)
            text = f"{_named(path, subject)} is {state}{instead}"
            yield Fault(text, "a file", state, subject.place.show(path))


def _elsewhere(path: Path, subject: Subject) -> str:
    """The end of a sentence about a missing file of a test, if a renamed folder has it."""
    place = subject.place.folder
    test = path.relative_to(place).parts[0] if path.is_relative_to(place) else ""
    if test not in TESTS:
        return ""
    for other in files.under(place):
        folder = other.relative_to(place).parts[0].lower()
        if other.name == path.name and folder.startswith(test[:3]):
            return f": {_named(other, subject)} is there, in a folder of another name"
    return ""


def _extra(subject: Subject) -> Faults:
    """Yield a fault for each file that does not belong to a scenario. Compliance tests have their
    own check, and LoadGen's other logs are allowed.
    """
    layout = subject.rules.layout
    place = subject.place
    folder = place.folder
    expected = set(_expected(subject))
    for name in layout.tolerated_performance_files:
        expected.add(folder / layout.performance / name)
    expected |= {parent for path in expected for parent in path.parents}
    for root in dict.fromkeys((folder, place.measurements, place.compliance)):
        for path in files.under(root):
            if path not in expected and not _tolerated(path, root, layout):
                text = f"{_named(path, subject)} does not belong there"
                yield Fault(text, file=place.show(path))


def _tolerated(path: Path, root: Path, layout: Layout) -> bool:
    """Return whether a path below `root` may be there: a document directly in `root`, an entry that
    the layout tolerates, or a path below one.

    An entry with a dot in its name is a file, any other is a folder.
    """
    name = path.relative_to(root).as_posix()
    if path.parent == root and path.is_file() and _fits(layout.documents, name):
        return True
    for entry in layout.tolerated_scenario_entries:
        if "." not in entry:
            if f"{name}/".startswith(f"{entry}/"):
                return True
        elif name == entry and path.is_file():
            return True
    return False


def _named(path: Path, subject: Subject) -> str:
    """A path as a finding names it: relative to the scenario's folder, else to the submitter's."""
    around = subject.place.folder
    if not path.is_relative_to(around):
        around = subject.place.submitter_folder
    return path.relative_to(around).as_posix()


def _whole(test: LoadGenRun, subject: Subject) -> Faults:
    detail = test.detail
    yield from detail.problems
    if stopped := test.stopped:
        yield stopped
        return
    expected = _expected_keys(test, subject)
    if missing := missing_keys(test, subject):
        yield f"{len(missing)} of {len(expected)} keys are missing: {', '.join(missing[:5])}"
    if test.name == "accuracy":
        results = [key for key in detail.values if key.startswith(_RESULTS)]
        if results:
            yield (
                f"it reports {len(results)} results, such as {shorten(results[0])}; the log of an"
                " accuracy run has none"
            )
        return
    others = {other.metric.key for other in subject.rules.scenarios.values()} - set(expected)
    if strange := sorted(others & set(detail.values)):
        yield f"{strange[0]} is a figure of another scenario than {subject.scenario}"
    # The last line of a log. A warning about a buffer that grew may follow it (logging.cc,
    # CollectTlsLoggerStats).
    lines = [lines for key, lines in detail.occurrences.items() if key != _WARNING]
    last = max(chain.from_iterable(lines), key=lambda line: line.number, default=None)
    ends = "num_errors" in detail.occurrences or released(detail, subject.rules)
    if last and last.key != "num_errors" and ends:
        name = shorten(last.key)
        text = f"it ends with {name}; LoadGen ends with num_errors"
        yield Fault(text, "num_errors", name, line=last.number)


def missing_keys(test: LoadGenRun, subject: Subject) -> list[str]:
    """The keys that the round's LoadGen logs in such a test and that its log lacks."""
    return [key for key in _expected_keys(test, subject) if key not in test.detail.values]


def _expected_keys(test: LoadGenRun, subject: Subject) -> list[str]:
    keys = subject.rules.detail_keys
    kind = "tokens" if test.detail.has_tokens else "plain"
    parts = (
        "common",
        test.name,
        subject.scenario,
        f"{test.name}-{subject.scenario}",
        f"{test.name}-{subject.scenario}-{kind}",
    )
    return [key for part in parts for key in keys.get(part, ())]


def _contradictions(test: LoadGenRun, subject: Subject) -> Faults:
    """Yield the contradictions between summary and detail log. An accuracy test's summary says only
    whether there were errors.
    """
    summary = test.summary
    errors = [line for line in summary.text.splitlines() if _ERRORS.match(line)]
    if errors:
        yield f"it says {shorten(errors[0])!r}"
    if test.name == "accuracy":
        if "Result is" in summary.values:
            yield "it reports a result; the summary of an accuracy run does not"
        return
    detail = test.detail
    if not summary.text or not detail.values or test.stopped:
        return  # another check, or the first fault, reports it
    values = summary.values
    own_labels = subject.rules.scenario_labels.get(subject.scenario, {})
    labels = {**subject.rules.summary_labels, **own_labels}
    for label, key in labels.items():
        # Some labels belong to single scenarios, and limits on tokens replace a latency limit.
        is_setting = key.startswith("effective_") and label != "target_latency (ns)"
        in_all = is_setting or _LABEL.fullmatch(label)
        if label not in values and key in detail.occurrences and in_all:
            yield f"{label!r} is missing"
        elif label in values and not _same(values[label], detail.get(key)):
            value = shorten(values[label])
            logged = shorten(detail.get(key))
            text = f"{label!r} is {value}; the detail log's {key} is {logged}"
            yield Fault(text, logged, value, line=summary.lines.get(label))


def _same(text: str, value: object) -> bool:
    """Return whether a text of the summary means the same as a value of the detail log.

    The summary has rates with two decimals, and Yes and NO. The detail log has six digits, so a
    rate of 1971.00 is 1971 there.
    """
    if isinstance(value, bool):
        return text in (("Yes", "1") if value else ("NO", "0"))
    if isinstance(value, int) and "." not in text:
        return text == str(value)
    if isinstance(value, int | float):
        number, _ = files.reckon(lambda: float(text))
        if number is None or not text.isascii():
            return False
        if not math.isfinite(value):
            return str(number) == str(value)
        return abs(number - value) <= max(0.0051, 1.1e-5 * abs(value))
    return text == value


def _odd(place: ResultFolder, rules: Rules) -> Faults:
    base = place.submitter_folder
    above = [base, base.parent, *([place.run / "raw"] if place.run else [])]
    for path in above:
        if path != place.root and path.is_relative_to(place.root) and path.is_symlink():
            yield Fault(f"{place.show(path)} is a link", file=place.show(path))
    allowed = rules.layout.submitter_folders
    walk = files.walk(base)
    if walk.problem:
        yield walk.problem
    for entry in walk.found:
        path = entry.path
        oddity, fault = _oddity(entry, rules.layout.largest_file_bytes)
        if not oddity and path.parent == base and entry.is_folder and path.name not in allowed:
            oddity = f"is not one of {', '.join(allowed)}"
        if oddity or fault:
            text = f"{path.relative_to(base).as_posix()} {oddity}" if oddity else fault
            yield Fault(text, file=place.show(path))
    results = {system.name for system in subfolders(base / "results")}
    for description in base.glob("systems/*.json"):
        if description.stem not in results:
            text = f"systems/{description.name} describes a system without results"
            yield Fault(text, file=place.show(description))


def _beside(place: ResultFolder, rules: Rules, every: Sequence[ResultFolder]) -> Faults:
    """Yield a fault for each file in a submitter's folder that no part of the audit looks at."""
    layout = rules.layout
    base = place.submitter_folder
    result_folders = set()
    for each in every:
        result_folders |= {each.folder, each.measurements, each.compliance}
    around = {parent for folder in result_folders for parent in folder.parents}
    documents = layout.documents
    for path in files.listed(base):
        if not path.is_dir() and not _fits((*layout.submitter_files, *documents), path.name):
            text = f"{path.name} does not belong into a submitter's folder"
            yield Fault(text, file=place.show(path))
    for path in files.listed(base / "systems"):
        if not _fits((*layout.system_files, *documents), path.name) or not path.is_file():
            yield Fault(f"systems/{path.name} is not a system description", file=place.show(path))
    for tree in sorted({folder.relative_to(base).parts[0] for folder in result_folders}):
        inside = set(result_folders)
        for path in files.under(base / tree):
            if path in inside or path.parent in inside:
                inside.add(path)
            elif path not in around and not _fits(documents, path.name):
                text = f"{path.relative_to(base).as_posix()} belongs to no scenario"
                yield Fault(text, file=place.show(path))


def _fits(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _oddity(entry: files.Entry, largest_bytes: int) -> tuple[str, str]:
    """(what is odd about an entry, why it cannot be read); empty if neither."""
    name = entry.path.name
    if entry.is_link:
        return "is a link", ""
    hidden = name.startswith(".") or name == "__pycache__"
    if hidden or not name.isprintable() or set(name) & set(' <>:"|?*\\'):
        text = (
            "has a name that is not allowed: hidden, __pycache__, or with a space, a control"
            ' character or one of <>:"|?*\\'
        )
        return text, ""
    if entry.is_folder:
        return "" if files.listed(entry.path) else "is an empty folder", ""
    if entry.size is None:
        return "", f"{name} is neither a file nor a folder"
    if entry.size > largest_bytes:
        return f"has {entry.size >> 20} MB; at most {largest_bytes >> 20} are allowed", ""
    return "", ""
