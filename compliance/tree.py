"""The checks of a submission tree: of all its result folders, of each submitter, and of the folders
around them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from compliance import checklist, endpoints, figures, rules
from compliance.checks.submission import layout
from compliance.findings.check import failed, judge, not_applicable, placed, shorten
from compliance.folders import ResultFolder, subfolders
from compliance.logs import files
from compliance.subject import Subject, read
from formats.checks import Checks, Fault, Faults, ResultLine

COPY = "replace the link by its folder: cp -rL copies the files behind links"
"""How to correct a link."""

# Far more than any submission has.
_MOST_FOLDERS = 2000
_ENDPOINTS = "a result of mlcommons/endpoints without LoadGen's verdict"
# bert-99 and bert-99.9 are one model: a run that reaches the higher target is submitted for both.
_ACCURACY_TARGET = re.compile(r"-9\d(\.\d)?$")


def checks(
    places: Sequence[ResultFolder], round_rules: rules.Rules, results: list[ResultLine]
) -> Checks:
    """Every check of a submission tree. Appends a line for each result folder to `results`."""
    several = len(places) > 1
    checks: Checks = []
    if len(places) > _MOST_FOLDERS:
        text = f"it has {len(places)} result folders; the first {_MOST_FOLDERS} were audited"
        checks.append(failed("submission-tree", text, fix="audit the submitters one by one"))
    if linked := links(places[0].root, round_rules):
        checks.append(judge("submitters-folders", linked, ""))
    if strays := list(_strays(places, round_rules)):
        checks.append(judge("folders-of-the-tree", strays, ""))
    submitters: dict[Path, list[ResultFolder]] = {}
    for number, place in enumerate(places):
        submitters.setdefault(place.submitter_folder, []).append(place)
        if number < _MOST_FOLDERS:
            found = _folder_checks(place, round_rules, results)
            checks += placed(found, place.name) if several else found
    for folder, own in submitters.items():
        find = partial(layout.submitter_checks, own[-1], round_rules, own)
        found = guarded([("names and sizes", find)])
        checks += placed(found, own[-1].show(folder)) if several else found
    if several:
        faults = _repeated_runs(results, round_rules)
        checks.append(judge("logs-of-one-run", faults, "each scenario has its own logs"))
    return checks


def links(root: Path, round_rules: rules.Rules) -> list[str]:
    """One sentence for each division and submitter that is a link. Links are not read. Other checks
    find the links further down.
    """
    divisions = [root / name for name in round_rules.layout.divisions]
    paths = list(divisions)
    for division in divisions:
        if not division.is_symlink():
            paths += files.listed(division)
    links = [path.relative_to(root).as_posix() for path in paths if path.is_symlink()]
    return [f"{name} is a link: it is not read" for name in links]


def _strays(places: Sequence[ResultFolder], round_rules: rules.Rules) -> Faults:
    """Yield a fault for each wrong folder of the submission that no other check finds.

    These folders are wrong: a division in other letter case, a submitter without results, several
    folders of one scenario, and a run directory with several result folders.
    """
    divisions = round_rules.layout.divisions
    for path in files.listed(places[0].root):
        if path.name not in divisions and path.name.lower() in divisions:
            text = f"{path.name}/ is not read: the name of a division has lower-case letters"
            yield Fault(text, file=path.name)
    submitters = {place.submitter_folder for place in places}
    others: set[Path] = set()
    for division in {folder.parent for folder in submitters}:
        if division.is_relative_to(places[0].root):
            others.update(subfolders(division))
    for path in sorted(others - submitters):
        if not path.is_symlink():
            name = places[0].show(path)
            text = f"{name} has no results/<system>/<benchmark>/<scenario>, so it is not judged"
            yield Fault(text, file=name)
    kinds = Counter((place.folder.parent, place.scenario) for place in places)
    for (folder, scenario), count in kinds.items():
        if count > 1:
            name = places[0].show(folder)
            yield Fault(f"{name} has {count} folders of {scenario}", file=name)
    if places[0].run is not None and len(places) > 1:
        yield f"a run directory has one scenario and one raw/; this one has {len(places)} scenarios"


def _repeated_runs(results: Sequence[ResultLine], round_rules: rules.Rules) -> Faults:
    """Yield a fault for the folders that contain the logs of the same run.

    An edge system may infer a scenario from the logs of another scenario of the same model. In all
    other cases each folder needs its own logs.
    """
    runs: dict[tuple[str, ...], list[ResultLine]] = {}
    for line in results:
        tested = line.tested
        if tested and line.began:
            runs.setdefault((tested, line.began), []).append(line)
        if tested and line.figure:  # the same number to the last digit, on the same day
            runs.setdefault((tested[:10], line.figure, line.logged), []).append(line)
    pairs: set[str] = set()
    for same in runs.values():
        if not _is_repeated(same, round_rules):
            continue
        names = " and ".join(line.place for line in same[:5])
        if names not in pairs:
            pairs.add(names)
            text = f"{names} have the logs of one run, tested {same[0].tested}"
            yield Fault(text, "a run each", "one run", file=same[0].place)


def _is_repeated(same: Sequence[ResultLine], round_rules: rules.Rules) -> bool:
    """Whether folders with the same logs need their own: two have the logs of their own scenario
    and benchmark, or they are of several models.
    """
    benchmarks = []
    models = set()
    for line in same:
        model = _ACCURACY_TARGET.sub("", line.benchmark)
        models.add((line.division, line.submitter, line.system, model))
        scenario = round_rules.scenarios.get(line.scenario)
        if scenario and scenario.logged_as == line.logged:
            benchmarks.append(line.benchmark)
    return len(benchmarks) > len(set(benchmarks)) or len(models) > 1


def line_of(place: ResultFolder) -> ResultLine:
    """The line of a result folder, without what its logs say."""
    system = place.system
    submitter = place.submitter_folder.name if system else ""
    return ResultLine(
        place=place.name,
        division=place.division if system else "",
        submitter=submitter,
        system=system,
        benchmark=place.benchmark,
        scenario=place.scenario,
    )


def _folder_checks(
    place: ResultFolder, round_rules: rules.Rules, results: list[ResultLine]
) -> Checks:
    """Every check of one result folder. Appends its line to `results`."""
    line = line_of(place)
    if endpoints.is_result(place, round_rules):
        return endpoints_checks(place, line, round_rules, results)
    if place.scenario not in round_rules.scenarios:
        results.append(line)
        scenarios = ", ".join(round_rules.scenarios)
        text = f"{place.folder.name} is not a scenario of this audit: {scenarios}"
        fix = "name the folder as the scenario of its logs"
        return [failed("scenario", text, place.name, fix=fix)]
    find = partial(_subject_checks, place, line, round_rules, results)
    return guarded([("reading", find)])


def endpoints_checks(
    place: ResultFolder, line: ResultLine, round_rules: rules.Rules, results: list[ResultLine]
) -> Checks:
    """Every check of a result of mlcommons/endpoints. In a submission also those of its documents
    and scenarios, which say nothing about its figures: only the level `submission` requires them.
    Appends its line, which is completed from `line`, to `results`.
    """
    result = endpoints.read(place, round_rules)
    results.append(replace(result.line(line), verdict=_ENDPOINTS))
    if not place.benchmark:
        return guarded([("reading", partial(endpoints.checks, result))])
    subject = read(place, round_rules)
    groups = [("reading", partial(endpoints.checks, result))]
    groups += [(group.name, partial(group.checks, subject)) for group in checklist.OF_ENDPOINTS]
    measured, *documents = [guarded([group]) for group in groups]
    for group in documents:
        measured += [replace(check, level="submission") for check in group]
    return measured


def _subject_checks(
    place: ResultFolder, line: ResultLine, round_rules: rules.Rules, results: list[ResultLine]
) -> Checks:
    subject = read(place, round_rules)
    results.append(completed(line, subject))
    unread = [test.name for test in subject.tests if test.stopped or not test.detail.values]
    lacks_run = place.run is None
    lacks_record = subject.record is None
    groups = []
    for group in checklist.GROUPS:
        lacks = (unread and group.of_logs) or (lacks_run and group.of_run)
        if not lacks and not (lacks_record and group.of_record):
            groups.append((group.name, partial(group.checks, subject)))
    checks = guarded(groups)
    if unread:
        names = " and the ".join(unread)
        why = f"not judged: the {names} detail log has no entry or no end, as another check says"
        checks.append(not_applicable("logs-say-nothing", why))
    return checks


def completed(line: ResultLine, subject: Subject) -> ResultLine:
    """The line, completed with values from the performance test's log."""
    detail = subject.performance.detail
    figure, _ = files.reckon(partial(figures.of, subject))
    if figure:
        line = replace(line, figure=figure.text, words=figure.words, recomputed=figure.recomputed)
    return replace(
        line,
        official=shorten(subject.official or ""),
        verdict=shorten(detail.get("result_validity", "")),
        tested=shorten(detail.get("test_datetime", "")),
        began=shorten(detail.get("power_begin", "")),
        logged=shorten(detail.get("effective_scenario", "")),
    )


def guarded(groups: Iterable[tuple[str, Callable[[], Checks]]]) -> Checks:
    """The checks of every group, and one failed check if the audit's own code raised an error. So
    one file cannot stop the other checks.

    Args:
        groups: the name of each group for the reader, and the function that returns its checks.
    """
    checks: Checks = []
    faults = []
    for name, find in groups:
        try:
            checks += find()
        except files.DAMAGE as e:
            error = f"{type(e).__name__}: {shorten(e)}"
            faults.append(f"the audit of {name} failed on the content of the files: {error}")
    if faults:
        checks.append(judge("audit", faults, ""))
    return checks
