"""The audit of a directory, from its files only. It finds the run directories, submissions and logs
in it, runs every check on each of them, and collects the findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from compliance import bare, derived, folders, rules, tree
from compliance.derived import Harness
from compliance.findings import registry
from compliance.findings.check import failed, judge, shorten
from compliance.findings.verdict import Audit
from compliance.folders import Kind, Unit
from compliance.logs import files
from compliance.training import checks as training
from compliance.training import run_directory
from formats.checks import Check, Checks, RequiredBy, ResultLine, Verdict, escape
from formats.record import SCHEMA

_GIVE = (
    "give a run directory, a folder that has open/, closed/ or network/, a submitter's folder, or a"
    " folder with LoadGen's logs"
)
_UNFINISHED = "the run did not finish: repeat its command, which continues where it stopped"
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
            number of them below it (`folders.find`).
        round: the round to judge by. None: the one that record.json names, else the one that is
            recognised by the logs.
        with_result: whether result.json is judged too. It is not while a new one is written,
            because that one contains the outcome of this audit.
        harness: derives result.json again; None: it is not judged.
    """
    directory = directory.absolute()
    with files.confined(directory):
        walk = files.walk(directory)
        unread = [
            f"{path.relative_to(directory).as_posix()} cannot be listed ({reason})"
            for path, reason in walk.unread
        ]
        if unread:
            return Audit(round or "", (), (judge("readable", unread, ""),))
        found = folders.find(directory, walk.entries)
        if not found:
            return Audit(round or "", (), (_no_tree(directory),))
        judged = harness if with_result else None
        audits = [_audit(unit, directory, round, judged) for unit in found[:_MOST_UNITS]]
    if found[0].folder == directory:
        return audits[0]
    problems = [walk.problem] if walk.problem else []
    if len(found) > len(audits):
        text = f"it has {len(found)} folders to audit; the first {len(audits)} were audited"
        problems.insert(0, text)
    places = [unit.folder.relative_to(directory).as_posix() for unit in found]
    joined = _joined(places, audits, problems)
    return replace(joined, checks=(*joined.checks, *_copies(directory, places)))


def _copies(directory: Path, places: Iterable[str]) -> Iterator[Check]:
    """Yield a failed check for each run directory with the trace of an earlier one."""
    first: dict[str, str] = {}
    for place in places:
        record = files.maybe(files.record, directory / place / "record.json")
        trace = record.digests.trace if record else None
        if trace and first.setdefault(trace, place) != place:
            text = f"its trace is that of {first[trace]}: one of them is a copy"
            check = failed("copied-run", text, f"{place}/record.json")
            yield replace(check, place=place)


def _joined(places: list[str], audits: list[Audit], problems: list[str]) -> Audit:
    """The audits of several units as one, with places and files relative to the directory.

    Args:
        places: the folder of each unit, relative to it.
        problems: why there may be more units than were audited.
    """
    results: list[ResultLine] = []
    checks: Checks = []
    for prefix, each in zip(places, audits, strict=False):
        results += [replace(line, place=_under(prefix, line.place)) for line in each.results]
        checks += [_moved(check, prefix) for check in each.checks]
    for problem in problems:
        checks.append(failed("submission-tree", problem, fix=_ONE_BY_ONE))
    rounds = list(dict.fromkeys(each.round for each in audits if each.round))
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
    faults = tuple(
        replace(fault, file=fault.file and _under(prefix, fault.file)) for fault in check.faults
    )
    file = check.file and _under(prefix, check.file)
    return replace(check, place=_under(prefix, check.place), file=file, faults=faults)


def _under(prefix: str, name: str) -> str:
    return prefix if name in ("", ".") else f"{prefix}/{name}"


def _audit(unit: Unit, directory: Path, round: str | None, harness: Harness | None) -> Audit:
    """The audit of one unit. `harness`: judges result.json, if there is one."""
    chosen, how = (round, "by --round") if round else folders.recognised_round(unit.folder)
    try:
        round_rules = rules.load(chosen)
    except ValueError as e:
        return Audit(chosen, (), (failed("round", str(e)),))
    results: list[ResultLine] = []
    checks = _checks(unit, directory, round_rules, results)
    kind = unit.kind
    if kind is Kind.LOGS and all(check.verdict is Verdict.NA for check in checks):
        return Audit("", tuple(results), tuple(checks))
    own = kind is Kind.RUN or (unit.folder.parent / "record.json").is_file()
    submitted = kind in (Kind.SUBMISSION, Kind.SUBMITTER)
    outcome = Audit(
        round_rules.round,
        tuple(results),
        tuple(_completed(check, round_rules, own) for check in checks),
        round_chosen_by=how,
        lenient=submitted,
        checked=submitted or kind is Kind.ENDPOINTS,
    )
    if harness is None or not os.path.lexists(unit.folder / "result.json"):
        return outcome
    check = _completed(derived.check(unit.folder, outcome, harness), round_rules, own)
    return replace(outcome, checks=(*outcome.checks, check))


def _completed(check: Check, round_rules: rules.Rules, own: bool) -> Check:
    """The check with those who require it in the round, and with advice that fits. If each fault is
    `stricter`, only the rules' text requires it.

    Args:
        own: whether this harness wrote the directory.
    """
    entry = registry.get(check.id)
    required_by = entry.required_by(round_rules.round)
    if check.faults and all(fault.stricter for fault in check.faults):
        required_by = RequiredBy.RULES
    fix = check.fix
    if not own and fix == entry.fix:
        fix = entry.others or fix
    fix = fix.replace("{wheel}", round_rules.wheel)
    return replace(check, required_by=required_by, fix=fix)


def _checks(
    unit: Unit,
    directory: Path,
    round_rules: rules.Rules,
    results: list[ResultLine],
) -> Checks:
    """Every check of a unit. Appends a line for each result to `results`."""
    folder = unit.folder
    if earlier := _earlier(folder):
        return [earlier]
    kind = unit.kind
    if kind is Kind.LOGS:
        return bare.checks(folder, directory, round_rules, results)
    if kind is Kind.ENDPOINTS:
        # Without a submission around it, it claims to be one of the closed division, and nothing
        # less, so every check is of the lowest level.
        place = replace(folders.folder_of_logs(folder, folder, folder.name), division="closed")
        checks = tree.endpoints_checks(place, tree.line_of(place), round_rules, results)
        return [replace(check, level="quick") for check in checks]
    if kind is Kind.SUBMITTER:
        places = folders.submitter_result_folders(folder, round_rules)
    else:
        places = folders.result_folders(folder, round_rules)
    if places:
        return tree.checks(places, round_rules, results)
    if run_directory.is_training(folder):
        read = run_directory.read(folder)
        results.append(training.line(read))
        return tree.guarded([("training", lambda: training.checks(read))])
    if links := tree.links(folder, round_rules):
        return [judge("submission-tree", links, "", fix=tree.COPY)]
    unfinished = any(os.path.lexists(folder / name) for name in ("raw", "record.json"))
    text = _nothing(folder, round_rules)
    return [failed("submission-tree", text, fix=_UNFINISHED if unfinished else _GIVE)]


def _earlier(directory: Path) -> Check | None:
    """A check that fails if an earlier release wrote the run directory. It names the revision that
    can read it. None: this release wrote it.
    """
    path = directory / "record.json"
    record = files.maybe(files.parsed, path)
    if not record or record.get("schema") in (None, SCHEMA):
        return None
    _, text = files.attempt(files.record, path)
    git = record.get("git")
    revision = shorten(git.get("revision")) if isinstance(git, dict) else "it does not name"
    fix = f"audit it with that release, at revision {revision}"
    return failed("version-of-the-record", text, "record.json", fix=fix)


def _no_tree(directory: Path) -> Check:
    """The only check of a directory with nothing to audit. It says what was looked for."""
    text = _nothing(directory, rules.load(rules.CURRENT))
    if not directory.is_dir():
        state = "is no folder" if directory.exists() else "is not there"
        text = f"{escape(directory.name)} {state}; an audit looks for open/, closed/ or network/"
    return failed("submission-tree", text, fix=_GIVE)


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
