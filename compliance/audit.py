"""The audit of a directory, from its files only. It finds the result folders, runs every check on
each of them, and collects the findings.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from compliance import checklist, rules
from compliance.checks import layout
from compliance.findings.check import judge, not_applicable, placed, shorten
from compliance.findings.verdict import Audit
from compliance.folders import ResultFolder, result_folders, subfolders
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import Subject, read
from compliance.training import checks as training
from compliance.training import run_directory
from formats.checks import Check, Fault, ResultLine, escape

# The official figure if token latencies are measured (constants.py,
# RESULT_FIELD_BENCHMARK_OVERWRITE).
_TOKEN_RATES = {
    "Offline": "result_tokens_per_second",
    "Server": "result_completed_tokens_per_second",
}

_COPY = "put the folder itself there: cp -rL copies what links lead to"
# Far more than any submission has.
_MOST_FOLDERS = 2000
# bert-99 and bert-99.9 are one model: a run that reaches the higher target is submitted for both.
_ACCURACY_TARGET = re.compile(r"-9\d(\.\d)?$")


def audit(directory: Path, round: str | None = None, *, with_result: bool = True) -> Audit:
    """Return the results and checks of a directory. No content of its files raises an error.

    Args:
        directory: a run directory; a root that contains open/, closed/ or network/; or such a
            division.
        round: the round to judge by. None: the one that record.json names, else the current one.
        with_result: whether result.json is judged too. It is not while a new one is written,
            because that one contains the outcome of this audit.
    """
    directory = directory.absolute()
    if unreadable := files.walk(directory).unread:
        why = [
            f"{path.relative_to(directory).as_posix()} cannot be listed ({reason})"
            for path, reason in unreadable
        ]
        return Audit(
            round or "",
            (),
            (
                judge(
                    "readable", why, "", fix="give yourself the right to read it, and audit again"
                ),
            ),
        )
    with files.confined(directory):
        try:
            round_rules = rules.load(round or recorded_round(directory) or rules.CURRENT)
        except ValueError as e:
            return Audit(
                round or "",
                (),
                (judge("round", [str(e)], "", fix="name a round there are rules for: --round"),),
            )
        places = [
            place if with_result else replace(place, result=None)
            for place in result_folders(directory, round_rules)
        ]
        if earlier := _earlier(directory):
            return Audit(round_rules.round, (), (earlier,))
    if not places and (directory / run_directory.FOLDER).is_dir():
        with files.confined(directory):
            return _of_training(directory, round_rules.round, with_result)
    if not places:
        return Audit(round_rules.round, (), (_no_tree(directory, round_rules),))
    results: list[ResultLine] = []
    with files.confined(places[0].root):
        checks = _tree_checks(places, round_rules, results)
    return Audit(round_rules.round, tuple(results), tuple(checks))


def _of_training(directory: Path, round: str, with_result: bool) -> Audit:
    """The audit of a training's run directory, which has no submission tree."""
    read = run_directory.read(directory, with_result)
    return Audit(
        round, (training.line(read),), tuple(_guarded("training", lambda: training.checks(read)))
    )


def _tree_checks(
    places: Sequence[ResultFolder], round_rules: rules.Rules, results: list[ResultLine]
) -> list[Check]:
    """Every check of a submission tree. Appends a line for each result folder to `results`."""
    several = len(places) > 1
    checks: list[Check] = []
    if len(places) > _MOST_FOLDERS:
        text = (
            f"{len(places)} folders are three below a results/; the first {_MOST_FOLDERS} were"
            " looked at"
        )
        checks.append(judge("submission-tree", [text], "", fix="audit the submitters one by one"))
    if links := _links(places[0].root, round_rules):
        checks.append(judge("submitters-folders", links, "", fix=_COPY))
    if strays := list(_strays(places, round_rules)):
        checks.append(
            judge(
                "folders-of-the-tree",
                strays,
                "",
                fix="remove it, or give it the name and place of the layout",
            )
        )
    for place in places[:_MOST_FOLDERS]:
        folder_checks = _folder_checks(place, round_rules, results)
        checks += placed(folder_checks, place.name) if several else folder_checks
    for place in {p.submitter_folder: p for p in places}.values():
        same_submitter = [
            each for each in places if each.submitter_folder == place.submitter_folder
        ]
        submitter_checks = _guarded(
            "names-and-sizes", partial(layout.submitter_checks, place, round_rules, same_submitter)
        )
        checks += (
            placed(submitter_checks, place.show(place.submitter_folder))
            if several
            else submitter_checks
        )
    if several:
        fix = "submit each run once, under the system and the scenario it was measured on"
        checks.append(
            judge(
                "logs-of-one-run",
                _repeated_runs(results, round_rules),
                "no two scenarios have the same",
                fix=fix,
            )
        )
    return checks


def _links(root: Path, round_rules: rules.Rules) -> list[str]:
    """One sentence for each division and submitter that is a link. Links are not read. Other checks
    find the links further down.
    """
    divisions = [root / name for name in round_rules.layout.divisions]
    inner = [
        path
        for division in divisions
        if not division.is_symlink()
        for path in files.listed(division)
    ]
    return [
        f"{path.relative_to(root).as_posix()} is a link: it is not read"
        for path in (*divisions, *inner)
        if path.is_symlink()
    ]


def _strays(places: Sequence[ResultFolder], round_rules: rules.Rules) -> Iterator[Fault | str]:
    """Yield a fault for each wrong folder of the submission that no other check finds.

    These folders are wrong: a division in other letter case, a submitter without results, several
    folders of one scenario, and a run directory with several result folders.
    """
    root = places[0].root
    for path in files.listed(root):
        if (
            path.name not in round_rules.layout.divisions
            and path.name.lower() in round_rules.layout.divisions
        ):
            yield Fault(
                f"{path.name}/ is no division by the letter: it is not read", file=path.name
            )
    submitter_folders = {place.submitter_folder for place in places}
    for path in sorted(
        {
            each
            for place in places
            for each in subfolders(place.submitter_folder.parent)
            if not each.is_symlink()
        }
        - submitter_folders
    ):
        name = places[0].show(path)
        yield Fault(
            f"{name} holds no results/<system>/<benchmark>/<scenario>: nothing of it is judged",
            file=name,
        )
    kinds = Counter((place.folder.parent, place.scenario) for place in places)
    for (folder, scenario), count in kinds.items():
        if count > 1:
            yield Fault(
                f"{places[0].show(folder)} holds {count} folders of {scenario}",
                file=places[0].show(folder),
            )
    if places[0].run is not None and len(places) > 1:
        yield (
            f"a run directory is of one scenario; this one holds {len(places)}, for which it has"
            " one raw/"
        )


def _repeated_runs(results: Sequence[ResultLine], round_rules: rules.Rules) -> Iterator[Fault]:
    """Yield a fault for the folders that contain the logs of the same run.

    An edge system may infer a scenario from the logs of another scenario of the same model. In all
    other cases each folder needs its own logs.
    """
    runs: dict[tuple[str, ...], list[ResultLine]] = {}
    for line in results:
        if line.tested and line.began:
            runs.setdefault((line.tested, line.began), []).append(line)
        if line.tested and line.figure:  # the same number to the last digit, on the same day
            runs.setdefault((line.tested[:10], line.figure, line.logged), []).append(line)
    pairs: set[str] = set()
    for same in runs.values():
        benchmarks = [
            c.benchmark
            for c in same
            if c.scenario in round_rules.scenarios
            and round_rules.scenarios[c.scenario].logged_as == c.logged
        ]
        models = {
            (c.division, c.submitter, c.system, _ACCURACY_TARGET.sub("", c.benchmark)) for c in same
        }
        if len(same) > 1 and (len(benchmarks) > len(set(benchmarks)) or len(models) > 1):
            places = " and ".join(c.place for c in same[:5])
            if places not in pairs:
                pairs.add(places)
                yield Fault(
                    f"{places} have the logs of one run, tested {same[0].tested}",
                    "a run each",
                    "one run",
                    file=same[0].place,
                )


def _folder_checks(
    place: ResultFolder, round_rules: rules.Rules, results: list[ResultLine]
) -> list[Check]:
    """Every check of one result folder. Appends its line to `results`."""
    line = ResultLine(
        place=place.name,
        division=place.division,
        submitter=place.submitter_folder.name,
        system=place.system,
        benchmark=place.benchmark,
        scenario=place.scenario,
    )
    if place.scenario not in round_rules.scenarios:
        results.append(line)
        text = (
            f"{place.folder.name} is none this audit has rules for:"
            f" {', '.join(round_rules.scenarios)}"
        )
        return [
            judge(
                "scenario",
                [text],
                "",
                file=place.name,
                fix="name the folder as the scenario of its logs",
            )
        ]
    return _guarded("reading", lambda: _subject_checks(read(place, round_rules), line, results))


def _subject_checks(subject: Subject, line: ResultLine, results: list[ResultLine]) -> list[Check]:
    results.append(_completed(line, subject))
    empty = [test.name for test in subject.tests if not test.detail.values]
    families = [group for group in checklist.ARCHITECTURES if not (empty and group.of_logs)]
    checks = [
        check for group in families for check in _guarded(group.name, partial(group.find, subject))
    ]
    if empty:
        why = (
            f"not judged: the {' and the '.join(empty)} detail log says nothing, which is a finding"
            " of its own"
        )
        checks.append(not_applicable("logs-say-nothing", why))
    return checks


def _completed(line: ResultLine, subject: Subject) -> ResultLine:
    """The line, completed with values from the performance test's log."""
    detail, metric = (
        subject.performance.detail,
        subject.rules.scenarios[subject.place.scenario].metric,
    )
    key = (
        _TOKEN_RATES.get(subject.scenario, metric.key)
        if counts.has_token_latencies(detail)
        else metric.key
    )
    figure = (
        f"{shorten(detail.get(key))} {metric.unit if key == metric.key else 'tokens/s'}"
        if key in detail.values
        else ""
    )
    keys = {
        "verdict": "result_validity",
        "tested": "test_datetime",
        "began": "power_begin",
        "logged": "effective_scenario",
    }
    texts = {name: shorten(detail.get(key, "")) for name, key in keys.items()}
    return replace(line, official=shorten(subject.official or ""), figure=figure, **texts)


def _guarded(name: str, find: Callable[[], list[Check]]) -> list[Check]:
    """The checks of `find`, or one failed check if the audit's own code raised an error. So one
    file cannot stop the other checks.

    Args:
        name: the failed check's id is `audit-of-<name>`.
    """
    try:
        return find()
    except files.DAMAGE as e:
        why = (
            f"the audit's own code broke off over what the files hold: {type(e).__name__}:"
            f" {shorten(e)}"
        )
        return [judge(f"audit-of-{name}", [why], "", fix="please report it, with the directory")]


def recorded_round(directory: Path) -> str | None:
    """The round that a run directory's record.json names; None if it names none."""
    record, _ = files.attempt(files.json_object, directory / "record.json")
    round = (record or {}).get("round")
    return round if round is None or isinstance(round, str) else repr(round)


def _earlier(directory: Path) -> Check | None:
    """A check that fails if an earlier version of the harness wrote the run directory. It says
    which version can read it. None: this version wrote it.
    """
    record, _ = files.attempt(files.json_object, directory / "record.json")
    if (record or {}).get("schema") != "record-1":
        return None
    git = (record or {}).get("git")
    revision = shorten(git.get("revision")) if isinstance(git, dict) else "it does not name"
    text = "record.json is of the schema record-1, which an earlier version of the harness wrote"
    return judge(
        "version-of-the-record",
        [text],
        "",
        file="record.json",
        fix=f"audit it with that version, at revision {revision}",
    )


def _no_tree(directory: Path, round_rules: rules.Rules) -> Check:
    """The only check of a directory without result folders. It says which folders it looked for."""
    divisions = " or ".join(f"{name}/" for name in round_rules.layout.divisions)
    template = round_rules.layout.scenario.format(
        system="<system>", benchmark="<benchmark>", scenario="<scenario>"
    )
    unfinished = any(os.path.lexists(directory / name) for name in ("raw", "record.json"))
    if (directory / "results").is_dir():
        above = (
            "it holds results/, as a submitter's folder does: give the folder that holds"
            f" {divisions}"
        )
        return judge("submission-tree", [f"none in {escape(directory.name)}"], "", fix=above)
    if links := _links(directory, round_rules):
        return judge("submission-tree", links, "", fix=_COPY)
    return judge(
        "submission-tree",
        [
            f"none in {escape(directory.name)}: looked for <division>/<submitter>/{template} below"
            f" {divisions}"
        ],
        "",
        fix=(
            "the run did not finish: repeat its command, which goes on where it stopped"
            if unfinished
            else "give a run directory, or a folder that holds open/, closed/ or network/"
        ),
    )
