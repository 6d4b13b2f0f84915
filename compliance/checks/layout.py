"""The checks of a submission's files: the exact set of each scenario, whole logs, odd names. Only
this module walks the directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from compliance.findings.check import judge, shorten
from compliance.folders import ResultFolder, measurements_file, subfolders
from compliance.loadgen import counts
from compliance.logs import files
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault

_ADD = (
    "add what is missing: a run directory has the logs and user.conf in raw/; the rest is written"
    " when it is measured again"
)
_RESTORE = "put the log there as LoadGen wrote it, or measure again"
_ERRORS = re.compile(r"\d+ errors? encountered", re.IGNORECASE)
_LABEL = re.compile(
    r"SUT name|Result is|Min (duration|queries) satisfied|(Min|Max|Mean) latency \(ns\)|\d\d\.\d\d"
    r" percentile latency \(ns\)"
)


def checks(subject: Subject) -> list[Check]:
    """The checks of one result folder's files, and that its logs are whole."""
    results = [
        judge(
            "files-complete",
            _missing(subject),
            "all there, none empty",
            file=subject.place.name,
            fix=_ADD,
        ),
        judge(
            "no-other-files",
            _extra(subject),
            "nothing that does not belong",
            file=subject.place.name,
            fix="remove them: a submission holds nothing else",
        ),
    ]
    return [*results, *(check for test in subject.tests for check in of_test(test, subject))]


def of_test(test: LoadGenRun, subject: Subject) -> list[Check]:
    """The checks that a test's detail log is whole and its summary agrees with it."""
    detail, summary = (
        subject.place.show(test.folder / name)
        for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt")
    )
    return [
        judge(
            f"{test.name}-detail-log",
            _whole(test, subject),
            f"{sum(map(len, test.detail.occurrences.values()))} lines, one run",
            file=detail,
            fix=_RESTORE,
        ),
        judge(
            f"{test.name}-summary",
            [*test.summary.problems, *_contradictions(test, subject)],
            "as the detail log has it",
            file=summary,
            fix=_RESTORE,
        ),
    ]


def submitter_checks(
    place: ResultFolder, rules: Rules, every: Sequence[ResultFolder]
) -> list[Check]:
    """The checks of a submitter's folder, once for each folder. `every`: its result folders."""
    return [
        judge(
            "nothing-beside-the-scenarios",
            _beside(place, rules, every),
            "every file is of a scenario, a system, the source or a document",
            file=place.show(place.submitter_folder),
            fix="remove it, or put it into the folder it belongs to",
        ),
        judge(
            "names-and-sizes",
            _odd(place, rules),
            "no link, hidden file, space, empty folder or file over 50 MB",
            file=place.show(place.submitter_folder),
            fix="rename, remove or shrink them, and put files where links are",
        ),
    ]


def _expected(subject: Subject) -> Iterator[Path]:
    layout, folder = subject.rules.layout, subject.place.folder
    yield from (subject.place.measurements / name for name in layout.scenario_files)
    yield measurements_file(subject.place, subject.rules)
    yield from (folder / layout.performance / name for name in layout.performance_files)
    yield from (folder / layout.accuracy / name for name in layout.accuracy_files)


def _missing(subject: Subject) -> Iterator[Fault | str]:
    for path in _expected(subject):
        size, fault = files.attempt(lambda p: p.stat().st_size, path)
        if fault or not path.is_file() or not size:
            state = "missing" if fault else "empty" if path.is_file() else "no file"
            state = "a link: it is not read" if files.link_to(path) else state
            yield Fault(
                f"{_named(path, subject)} is {state}", "a file", state, subject.place.show(path)
            )


def _extra(subject: Subject) -> Iterator[Fault | str]:
    """Yield a fault for each file that does not belong to a scenario. Compliance tests have their
    own check, and LoadGen's other logs are allowed.
    """
    layout, folder = subject.rules.layout, subject.place.folder
    expected = {
        *_expected(subject),
        *(folder / layout.performance / name for name in layout.tolerated_performance_files),
    }
    expected |= {parent for path in expected for parent in path.parents}
    for root in dict.fromkeys((folder, subject.place.measurements, subject.place.compliance)):
        for path in files.under(root):
            if path not in expected and not _tolerated(
                path, root, layout.tolerated_scenario_entries, layout.documents
            ):
                yield Fault(
                    f"{_named(path, subject)} does not belong there", file=subject.place.show(path)
                )


def _tolerated(path: Path, root: Path, entries: Sequence[str], documents: Sequence[str]) -> bool:
    """Return whether a path below `root` may be there: a document directly in `root`, one of
    `entries`, or a path below one.

    An entry with a dot in its name is a file, any other is a folder.
    """
    name = path.relative_to(root).as_posix()
    if path.parent == root and path.is_file() and _fits(documents, name):
        return True
    return any(
        (name == entry and path.is_file()) if "." in entry else f"{name}/".startswith(f"{entry}/")
        for entry in entries
    )


def _named(path: Path, subject: Subject) -> str:
    """A path as a finding names it: relative to the scenario's folder, else to the submitter's."""
    around = (
        subject.place.folder
        if path.is_relative_to(subject.place.folder)
        else subject.place.submitter_folder
    )
    return path.relative_to(around).as_posix()


def _whole(test: LoadGenRun, subject: Subject) -> Iterator[Fault | str]:
    yield from test.detail.problems
    keys = subject.rules.detail_keys
    kind = "tokens" if counts.has_token_latencies(test.detail) else "plain"
    parts = (
        "common",
        test.name,
        subject.scenario,
        f"{test.name}-{subject.scenario}",
        f"{test.name}-{subject.scenario}-{kind}",
    )
    expected = [key for part in parts for key in keys.get(part, ())]
    if missing_keys := [key for key in expected if key not in test.detail.values]:
        yield (
            f"{len(missing_keys)} of {len(expected)} keys are missing:"
            f" {', '.join(missing_keys[:5])}"
        )
    # At the very end of a log there may be a warning about a buffer that grew (logging.cc,
    # CollectTlsLoggerStats).
    entries = (
        lines for key, lines in test.detail.occurrences.items() if key != "warning_generic_message"
    )
    last = max(
        (line for lines in entries for line in lines), key=lambda line: line.number, default=None
    )
    others = {other.metric.key for other in subject.rules.scenarios.values()} - set(expected)
    if test.name == "performance" and (strange := sorted(others & set(test.detail.values))):
        yield f"{strange[0]} is a figure of another scenario than {subject.scenario}"
    if test.name == "accuracy" and (
        result_keys := [
            key for key in test.detail.values if key.startswith(("result_", "early_stopping"))
        ]
    ):
        yield (
            f"it reports {len(result_keys)} results, {shorten(result_keys[0])} among them; the log"
            " of an accuracy run holds none"
        )
    if test.name == "performance" and last and last.key != "num_errors":
        yield Fault(
            f"it ends with {shorten(last.key)}; LoadGen ends with num_errors",
            "num_errors",
            shorten(last.key),
            line=last.number,
        )


def _contradictions(test: LoadGenRun, subject: Subject) -> Iterator[Fault | str]:
    """Yield the contradictions between summary and detail log. An accuracy test's summary says only
    whether there were errors.
    """
    if error_line := next(
        (line for line in test.summary.text.splitlines() if _ERRORS.match(line)), ""
    ):
        yield f"it says {shorten(error_line)!r}"
    if test.name == "accuracy":
        if "Result is" in test.summary.values:
            yield "it reports a result; the summary of an accuracy run does not"
        return
    values = test.summary.values
    for label, key in {
        **subject.rules.summary_labels,
        **subject.rules.scenario_labels.get(subject.scenario, {}),
    }.items():
        if label not in values and key in test.detail.occurrences and _always(label, key):
            yield f"{label!r} is missing"
        elif label in values and not _same(values[label], test.detail.get(key)):
            summary_value, logged = shorten(values[label]), shorten(test.detail.get(key))
            yield Fault(
                f"{label!r} is {summary_value}; the detail log's {key} is {logged}",
                logged,
                summary_value,
                line=test.summary.lines.get(label),
            )


def _always(label: str, key: str) -> bool:
    """Whether every summary has a label. Some labels belong to single scenarios, and limits on
    tokens replace a latency limit.
    """
    return bool(_LABEL.fullmatch(label)) or (
        key.startswith("effective_") and label != "target_latency (ns)"
    )


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
        number, _ = files.attempt(lambda _: float(text), Path())
        return (
            number is not None
            and text.isascii()
            and abs(number - value) <= max(0.0051, 1.1e-5 * abs(value))
        )
    return text == value


def _odd(place: ResultFolder, rules: Rules) -> Iterator[Fault | str]:
    base = place.submitter_folder
    above = [base, base.parent, *([place.run / "raw"] if place.run else [])]
    yield from (
        Fault(f"{place.show(path)} is a link", file=place.show(path))
        for path in above
        if path.is_symlink()
    )
    walk = files.walk(base)
    if walk.problem:
        yield walk.problem
    for path in walk.entries:
        relative, file = path.relative_to(base).as_posix(), place.show(path)
        if path.is_symlink():
            yield Fault(f"{relative} is a link", file=file)
            continue
        oddity, fault = files.attempt(lambda p: _oddity(p, rules.layout.largest_file_bytes), path)
        if oddity or fault:
            yield Fault(f"{relative} {oddity}" if oddity else fault, file=file)
        elif (
            path.parent == base
            and path.is_dir()
            and path.name not in rules.layout.submitter_folders
        ):
            yield Fault(
                f"{relative} is none of {', '.join(rules.layout.submitter_folders)}", file=file
            )
    results = {system.name for system in subfolders(base / "results")}
    for description in base.glob("systems/*.json"):
        if description.stem not in results:
            yield Fault(
                f"systems/{description.name} is of a system without results",
                file=place.show(description),
            )


def _beside(
    place: ResultFolder, rules: Rules, every: Sequence[ResultFolder]
) -> Iterator[Fault | str]:
    """Yield a fault for each file in a submitter's folder that no part of the audit looks at."""
    layout, base = rules.layout, place.submitter_folder
    result_folders = {
        folder for each in every for folder in (each.folder, each.measurements, each.compliance)
    }
    around = {parent for folder in result_folders for parent in folder.parents}
    for path in files.listed(base):
        if not path.is_dir() and not _fits((*layout.submitter_files, *layout.documents), path.name):
            yield Fault(
                f"{path.name} does not belong into a submitter's folder", file=place.show(path)
            )
    for path in files.listed(base / "systems"):
        if not _fits((*layout.system_files, *layout.documents), path.name) or not path.is_file():
            yield Fault(f"systems/{path.name} is no system description", file=place.show(path))
    for tree in sorted({folder.relative_to(base).parts[0] for folder in result_folders}):
        for path in files.under(base / tree):
            if (
                not result_folders & {path, *path.parents}
                and path not in around
                and not _fits(layout.documents, path.name)
            ):
                yield Fault(
                    f"{path.relative_to(base).as_posix()} is of no scenario", file=place.show(path)
                )


def _fits(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _oddity(path: Path, largest_bytes: int) -> str:
    if (
        path.name.startswith(".")
        or not path.name.isprintable()
        or set(path.name) & set(' <>:"|?*\\')
        or path.name == "__pycache__"
    ):
        return (
            "has a name that is not allowed: no hidden files, spaces, control characters, none of"
            ' <>:"|?*\\, no __pycache__'
        )
    if path.is_dir():
        return "" if any(path.iterdir()) else "is an empty folder"
    size = path.stat().st_size
    return (
        f"has {size >> 20} MB; at most {largest_bytes >> 20} are allowed"
        if size > largest_bytes
        else ""
    )
