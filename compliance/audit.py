"""The audit of a directory, from its files only. It finds the run directories, submissions and logs
in it, runs every check on each of them, and collects the findings.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compliance import bare, derived, rules, tree, units
from compliance.derived import Harness
from compliance.findings import fixes, registry
from compliance.findings.check import judge, shorten
from compliance.findings.verdict import Audit
from compliance.folders import folder_of_logs, result_folders, submitter_result_folders
from compliance.logs import files
from compliance.training import checks as training
from compliance.training import run_directory
from compliance.units import Kind, Unit
from formats.checks import Check, RequiredBy, ResultLine, escape
from formats.record import SCHEMA

_GIVE = (
    "give a run directory, a folder that has open/, closed/ or network/, a submitter's folder, or a"
    " folder with LoadGen's logs"
)
_NOT_READABLE = "set the permissions so that you can read it, and audit again"
_ONE_BY_ONE = "audit its folders one by one"
# Far more than any sweep has.
_MOST_UNITS = 5000
_MOST_NAMES = 5


def audit(
    directory: Path,
    round: str | None = None,
    *,
    with_result: bool = True,
    harness: Harness | None = None,
) -> Audit:
    """Return the results and checks of a directory. No content of its files raises an error.

    Args:
        directory: a run directory, a submission or a folder of LoadGen's logs, or a folder with any
            number of them below it (`units`).
        round: the round to judge by. None: the one that record.json names, else the one that is
            recognised by the logs.
        with_result: whether result.json is judged too. It is not while a new one is written,
            because that one contains the outcome of this audit.
        harness: derives result.json again; None: it is not judged.
    """
    directory = directory.absolute()
    walk = files.walk(directory)
    unread = []
    for path, reason in walk.unread:
        unread.append(f"{path.relative_to(directory).as_posix()} cannot be listed ({reason})")
    if unread:
        check = judge("readable", unread, "", fix=_NOT_READABLE)
        return Audit(round or "", (), (check,))
    with files.confined(directory):
        found = units.find(directory, walk.entries)
    audits = []
    for unit in found[:_MOST_UNITS]:
        with files.confined(directory):
            audits.append(_audit(unit, directory, round, harness if with_result else None))
    if not found:
        check = _no_tree(directory)
        return Audit(round or "", (), (check,))
    if found[0].folder == directory:
        return audits[0]
    return _joined(directory, found, audits, walk.problem)


def _joined(directory: Path, found: Sequence[Unit], audits: Sequence[Audit], problem: str) -> Audit:
    """The audits of several units as one, with places and files relative to the directory.

    Args:
        problem: why there may be more units than were found; else empty.
    """
    results: list[ResultLine] = []
    checks: list[Check] = []
    for unit, each in zip(found, audits, strict=False):
        prefix = unit.folder.relative_to(directory).as_posix()
        results += [replace(line, place=_under(prefix, line.place)) for line in each.results]
        checks += [_moved(check, prefix) for check in each.checks]
    if len(found) > len(audits):
        text = f"it has {len(found)} folders to audit; the first {len(audits)} were audited"
        checks.append(judge("submission-tree", [text], "", fix=_ONE_BY_ONE))
    if problem:
        checks.append(judge("submission-tree", [problem], "", fix=_ONE_BY_ONE))
    rounds = list(dict.fromkeys(each.round for each in audits))
    chosen = []
    for round in rounds:
        hows = dict.fromkeys(each.round_chosen_by for each in audits if each.round == round)
        name = f"{round} " if len(rounds) > 1 else ""
        chosen.append(name + " or ".join(hows))
    return Audit(
        ", ".join(rounds),
        tuple(results),
        tuple(checks),
        round_chosen_by="; ".join(chosen),
        lenient=all(each.lenient for each in audits),
        checked=any(each.checked for each in audits),
    )


def _moved(check: Check, prefix: str) -> Check:
    """A check of a folder below the audited directory."""
    faults = []
    for fault in check.faults:
        place = _under(prefix, fault.file) if fault.file else ""
        faults.append(replace(fault, file=place))
    file = _under(prefix, check.file) if check.file else ""
    place = _under(prefix, check.place)
    return replace(check, place=place, file=file, faults=tuple(faults))


def _under(prefix: str, name: str) -> str:
    return prefix if name in ("", ".") else f"{prefix}/{name}"


def _audit(unit: Unit, directory: Path, round: str | None, harness: Harness | None) -> Audit:
    """The audit of one unit. `harness`: judges result.json, if there is one."""
    chosen, how = (round, "by --round") if round else units.recognised_round(unit)
    try:
        round_rules = rules.load(chosen)
    except ValueError as e:
        check = judge("round", [str(e)], "", fix="choose a round that has rules: --round")
        return Audit(chosen, (), (check,))
    results: list[ResultLine] = []
    checks = _checks(unit, directory, round_rules, results)
    own = unit.kind is Kind.RUN or (unit.folder.parent / "record.json").is_file()
    outcome = Audit(
        round_rules.round,
        tuple(results),
        tuple(_completed(check, round_rules.round, own) for check in checks),
        round_chosen_by=how,
        lenient=unit.kind in (Kind.SUBMISSION, Kind.SUBMITTER),
        checked=unit.kind in (Kind.SUBMISSION, Kind.SUBMITTER, Kind.ENDPOINTS),
    )
    if harness is None or not os.path.lexists(unit.folder / "result.json"):
        return outcome
    check = _completed(derived.check(unit.folder, outcome, harness), round_rules.round, own)
    return replace(outcome, checks=(*outcome.checks, check))


def _completed(check: Check, round: str, own: bool) -> Check:
    """The check with those who require it in the round, and with advice that fits. If each fault is
    `stricter`, only the rules' text requires it.

    Args:
        own: whether this harness wrote the directory.
    """
    required_by = registry.get(check.id).required_by(round)
    if check.faults and all(fault.stricter for fault in check.faults):
        required_by = RequiredBy.RULES
    fix = check.fix if own else fixes.for_others(check.fix)
    return replace(check, required_by=required_by, fix=fix)


def _checks(
    unit: Unit,
    directory: Path,
    round_rules: rules.Rules,
    results: list[ResultLine],
) -> list[Check]:
    """Every check of a unit. Appends a line for each result to `results`."""
    folder = unit.folder
    if earlier := _earlier(folder):
        return [earlier]
    if unit.kind is Kind.LOGS:
        line, checks = bare.audit(folder, directory, round_rules)
        results.append(line)
        return checks
    if unit.kind is Kind.ENDPOINTS:
        return _of_endpoints(folder, round_rules, results)
    find = submitter_result_folders if unit.kind is Kind.SUBMITTER else result_folders
    places = find(folder, round_rules)
    if places:
        return tree.checks(places, round_rules, results)
    if run_directory.is_training(folder):
        return _of_training(folder, results)
    return [_no_results(folder, round_rules)]


def _of_endpoints(folder: Path, round_rules: rules.Rules, results: list[ResultLine]) -> list[Check]:
    """The checks of a result of mlcommons/endpoints without a submission around it. It claims to be
    one of the closed division, and nothing less, so every check is of the lowest level.
    """
    place = replace(folder_of_logs(folder, folder, folder.name), division="closed")
    line = ResultLine(
        place=".", division="", submitter="", system="", benchmark="", scenario=folder.name
    )
    checks = tree.endpoints_checks(place, line, round_rules, results)
    return [replace(check, level="quick") for check in checks]


def _of_training(directory: Path, results: list[ResultLine]) -> list[Check]:
    """The checks of a training's run directory, which has no submission tree. Appends its line."""
    read = run_directory.read(directory)
    results.append(training.line(read))
    return tree.guarded("training", lambda: training.checks(read))


def _earlier(directory: Path) -> Check | None:
    """A check that fails if an earlier release wrote the run directory. It names the revision that
    can read it. None: this release wrote it.
    """
    path = directory / "record.json"
    record, _ = files.attempt(files.json_object, path)
    if not record or record.get("schema") in (None, SCHEMA):
        return None
    _, text = files.attempt(files.record, path)
    git = record.get("git")
    revision = shorten(git.get("revision")) if isinstance(git, dict) else "it does not name"
    fix = f"audit it with that release, at revision {revision}"
    return judge("version-of-the-record", [text], "", file="record.json", fix=fix)


def _no_results(directory: Path, round_rules: rules.Rules) -> Check:
    """The only check of a run directory or submission without result folders."""
    if links := tree.links(directory, round_rules):
        return judge("submission-tree", links, "", fix=tree.COPY)
    fix = _GIVE
    if any(os.path.lexists(directory / name) for name in ("raw", "record.json")):
        fix = "the run did not finish: repeat its command, which continues where it stopped"
    return judge("submission-tree", [_nothing(directory, round_rules)], "", fix=fix)


def _no_tree(directory: Path) -> Check:
    """The only check of a directory with nothing to audit. It says what was looked for."""
    if not directory.is_dir():
        state = "is no folder" if directory.exists() else "is not there"
        text = f"{escape(directory.name)} {state}; an audit looks for open/, closed/ or network/"
        return judge("submission-tree", [text], "", fix=_GIVE)
    return judge("submission-tree", [_nothing(directory, rules.load(rules.CURRENT))], "", fix=_GIVE)


def _nothing(directory: Path, round_rules: rules.Rules) -> str:
    divisions = " or ".join(f"{name}/" for name in round_rules.layout.divisions)
    template = round_rules.layout.scenario.format(
        system="<system>", benchmark="<benchmark>", scenario="<scenario>"
    )
    names = [path.name for path in files.listed(directory)][:_MOST_NAMES]
    content = f"it has only {', '.join(names)}" if names else "it is empty"
    return (
        f"none in {escape(directory.name)}: it has no <division>/<submitter>/{template} below"
        f" {divisions}, no record.json and no mlperf_log_detail.txt ({escape(content)})"
    )
