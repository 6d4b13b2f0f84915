"""Which files stand where: the exact set of a scenario, whole logs, odd names. The directory is walked here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compliance import files
from compliance.check import Check, Fault, judge, shown
from compliance.rules import Rules
from compliance.tree import Place, Subject, Test, folders, measurements_file

_ADD = "add what is missing; a run's own command, given again, makes its tree anew from raw/"
_RESTORE = "put the log there as LoadGen wrote it, or measure again"


def checks(s: Subject) -> list[Check]:
    found = [
        judge("files complete", _missing(s), "all there, none empty", source="A1 F3", file=s.place.name, fix=_ADD),
        judge(
            "no other files",
            _extra(s),
            "nothing that does not belong",
            source="A1",
            file=s.place.name,
            fix="remove them: a submission holds nothing else",
        ),
    ]
    for test in s.tests:
        detail, summary = (s.place.show(test.folder / name) for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"))
        found.append(
            judge(
                f"{test.name} detail log",
                _whole(test, s),
                f"{sum(map(len, test.detail.occurrences.values()))} lines, one run",
                source="A3",
                file=detail,
                fix=_RESTORE,
            )
        )
        found.append(
            judge(
                f"{test.name} summary",
                [*test.summary.problems, *_contradictions(test, s.rules)],
                "as the detail log has it",
                source="C5",
                file=summary,
                fix=_RESTORE,
            )
        )
    return found


def submitter_checks(place: Place, rules: Rules) -> list[Check]:
    """Once for each submitter's folder."""
    return [
        judge(
            "names and sizes",
            _odd(place, rules),
            "no link, hidden file, space, empty folder or file over 50 MB",
            source="A1",
            file=place.show(place.submitter_folder),
            fix="rename, remove or shrink them, and put files where links are",
        )
    ]


def _expected(s: Subject) -> Iterator[Path]:
    layout, folder = s.rules.layout, s.place.folder
    yield from (s.place.measurements / name for name in layout.scenario_files)
    yield measurements_file(s.place, s.rules)
    yield from (folder / layout.performance / name for name in layout.performance_files)
    yield from (folder / layout.accuracy / name for name in layout.accuracy_files)


def _missing(s: Subject) -> Iterator[Fault | str]:
    for path in _expected(s):
        size, fault = files.attempt(lambda p: p.stat().st_size, path)
        if fault or not path.is_file() or not size:
            state = "missing" if fault else "empty" if path.is_file() else "no file"
            state = "a link: it is not read" if files.link_to(path) else state
            yield Fault(f"{_named(path, s)} is {state}", "a file", state, s.place.show(path))


def _extra(s: Subject) -> Iterator[Fault | str]:
    """Compliance tests are other people's business; the performance folder may hold LoadGen's other logs."""
    layout, folder = s.rules.layout, s.place.folder
    wanted = {*_expected(s), *(folder / layout.performance / name for name in layout.tolerated_performance_files)}
    wanted |= {parent for path in wanted for parent in path.parents}
    for root in dict.fromkeys((folder, s.place.measurements)):
        for path in files.under(root):
            if path not in wanted and path.relative_to(root).parts[0] not in layout.tolerated_scenario_entries:
                yield Fault(f"{_named(path, s)} does not belong there", file=s.place.show(path))


def _named(path: Path, s: Subject) -> str:
    """Below the scenario's folder, or where the layout has it."""
    around = s.place.folder if path.is_relative_to(s.place.folder) else s.place.submitter_folder
    return path.relative_to(around).as_posix()


def _whole(test: Test, s: Subject) -> Iterator[Fault | str]:
    yield from test.detail.problems
    keys = s.rules.detail_keys
    wanted = [key for part in ("common", test.name, s.place.scenario, f"{test.name}-{s.place.scenario}") for key in keys.get(part, ())]
    if lacking := [key for key in wanted if key not in test.detail.values]:
        yield f"{len(lacking)} of {len(wanted)} keys are missing: {', '.join(lacking[:5])}"
    last = max((line for lines in test.detail.occurrences.values() for line in lines), key=lambda line: line.number, default=None)
    if test.name == "performance" and last and last.key != "num_errors":
        yield Fault(f"it ends with {shown(last.key)}; LoadGen ends with num_errors", "num_errors", shown(last.key), line=last.number)


def _contradictions(test: Test, rules: Rules) -> Iterator[Fault | str]:
    """The summary of an accuracy run says only whether there were errors."""
    if test.name == "accuracy":
        if "Result is" in test.summary.values:
            yield "it reports a result; the summary of an accuracy run does not"
        return
    found = test.summary.values
    for label in ("Result is", "Scenario", "Mode", "Min latency (ns)", "samples_per_query", "qsl_rng_seed"):
        if label not in found:
            yield f"{label!r} is missing"
    for label, key in rules.summary_labels.items():
        if label in found and not _same(found[label], test.detail.get(key)):
            stated, logged = shown(found[label]), shown(test.detail.get(key))
            yield Fault(f"{label!r} is {stated}; the detail log's {key} is {logged}", logged, stated, line=test.summary.lines.get(label))


def _same(text: str, value: object) -> bool:
    """The summary writes rates with two decimals, Yes and NO; the detail log six digits, so that a rate of 1971.00 is 1971 there."""
    if isinstance(value, bool):
        return text in (("Yes", "1") if value else ("NO", "0"))
    if isinstance(value, int) and "." not in text:
        return text == str(value)
    if isinstance(value, int | float):
        number, _ = files.attempt(lambda _: float(text), Path())
        return number is not None and abs(number - value) <= max(0.0051, 1.1e-5 * abs(value))
    return text == value


def _odd(place: Place, rules: Rules) -> Iterator[Fault | str]:
    base = place.submitter_folder
    above = [base, base.parent, *([place.run / "raw"] if place.run else [])]
    yield from (Fault(f"{place.show(path)} is a link", file=place.show(path)) for path in above if path.is_symlink())
    walk = files.walk(base)
    if walk.problem:
        yield walk.problem
    for path in walk.entries:
        named, file = path.relative_to(base).as_posix(), place.show(path)
        if path.is_symlink():
            yield Fault(f"{named} is a link", file=file)
            continue
        oddity, fault = files.attempt(lambda p: _oddity(p, rules.layout.largest_file_bytes), path)
        if oddity or fault:
            yield Fault(f"{named} {oddity}" if oddity else fault, file=file)
        elif path.parent == base and path.is_dir() and path.name not in rules.layout.submitter_folders:
            yield Fault(f"{named} is none of {', '.join(rules.layout.submitter_folders)}", file=file)
    results = {system.name for system in folders(base / "results")}
    for description in base.glob("systems/*.json"):
        if description.stem not in results:
            yield Fault(f"systems/{description.name} is of a system without results", file=place.show(description))


def _oddity(path: Path, largest_bytes: int) -> str:
    if path.name.startswith(".") or not path.name.isprintable() or " " in path.name or path.name == "__pycache__":
        return "has a name that is not allowed: no hidden files, spaces, control characters, __pycache__"
    if path.is_dir():
        return "" if any(path.iterdir()) else "is an empty folder"
    size = path.stat().st_size
    return f"has {size >> 20} MB; at most {largest_bytes >> 20} are allowed" if size > largest_bytes else ""
