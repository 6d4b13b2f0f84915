"""The audit of a directory, from its files only. It finds the result folders, runs every check on
each of them, and collects the findings.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from compliance import rules, tree
from compliance.findings.check import judge, shorten
from compliance.findings.verdict import Audit
from compliance.folders import result_folders
from compliance.logs import files
from compliance.training import checks as training
from compliance.training import run_directory
from formats.checks import Check, ResultLine, escape

_NOT_READABLE = "set the permissions so that you can read it, and audit again"


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
    unread = []
    for path, reason in files.walk(directory).unread:
        unread.append(f"{path.relative_to(directory).as_posix()} cannot be listed ({reason})")
    if unread:
        check = judge("readable", unread, "", fix=_NOT_READABLE)
        return Audit(round or "", (), (check,))
    with files.confined(directory):
        try:
            round_rules = rules.load(round or recorded_round(directory) or rules.CURRENT)
        except ValueError as e:
            check = judge("round", [str(e)], "", fix="choose a round that has rules: --round")
            return Audit(round or "", (), (check,))
        places = result_folders(directory, round_rules)
        if not with_result:
            places = [replace(place, result=None) for place in places]
        if earlier := _earlier(directory):
            return Audit(round_rules.round, (), (earlier,))
    if not places and (directory / run_directory.FOLDER).is_dir():
        with files.confined(directory):
            return _of_training(directory, round_rules.round, with_result)
    if not places:
        return Audit(round_rules.round, (), (_no_tree(directory, round_rules),))
    results: list[ResultLine] = []
    with files.confined(places[0].root):
        checks = tree.checks(places, round_rules, results)
    return Audit(round_rules.round, tuple(results), tuple(checks))


def _of_training(directory: Path, round: str, with_result: bool) -> Audit:
    """The audit of a training's run directory, which has no submission tree."""
    read = run_directory.read(directory, with_result)
    checks = tree.guarded("training", lambda: training.checks(read))
    return Audit(round, (training.line(read),), tuple(checks))


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
    text = "record.json has the schema record-1, which an earlier version of the harness wrote"
    fix = f"audit it with that version, at revision {revision}"
    return judge("version-of-the-record", [text], "", file="record.json", fix=fix)


def _no_tree(directory: Path, round_rules: rules.Rules) -> Check:
    """The only check of a directory without result folders. It says which folders it looked for."""
    divisions = " or ".join(f"{name}/" for name in round_rules.layout.divisions)
    name = escape(directory.name)
    if (directory / "results").is_dir():
        fix = f"this is a submitter's folder, with results/: give the folder that has {divisions}"
        return judge("submission-tree", [f"none in {name}"], "", fix=fix)
    if links := tree.links(directory, round_rules):
        return judge("submission-tree", links, "", fix=tree.COPY)
    template = round_rules.layout.scenario.format(
        system="<system>", benchmark="<benchmark>", scenario="<scenario>"
    )
    text = f"none in {name}: it has no <division>/<submitter>/{template} below {divisions}"
    fix = "give a run directory, or a folder that has open/, closed/ or network/"
    if any(os.path.lexists(directory / name) for name in ("raw", "record.json")):
        fix = "the run did not finish: repeat its command, which continues where it stopped"
    return judge("submission-tree", [text], "", fix=fix)
