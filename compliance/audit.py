"""The verdict on a directory from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from compliance import (
    compliance_tests,
    evidence,
    files,
    layout,
    metadata,
    official,
    provenance,
    recomputed,
    rules,
    scores,
    settings,
    tree,
    validity,
)
from compliance.check import Check, Outcome, judge, plain, prefixed, shown

LEVELS = ("quick", "valid", "submission")
"""What a directory can live up to, the lowest first; a level asks for what those before it ask."""

PARTS = (
    layout.checks,
    settings.checks,
    validity.checks,
    recomputed.checks,
    provenance.checks,
    scores.checks,
    evidence.checks,
    metadata.checks,
    official.checks,
    compliance_tests.checks,
)


_COPY = "put the folder itself there: cp -rL copies what links lead to"
# Far more than anybody submits.
_MOST_PLACES = 2000


def audit(directory: Path, level: str = "quick", round: str | None = None) -> list[Check]:
    """Every finding of `level` and those below it. Whatever the files hold, the answer is findings, never an error.

    Args:
        directory: a run directory; a root that holds open/, closed/ or network/; or such a division.
        round: None: the one record.json names, else the current one.

    Raises ValueError for a level there is not.
    """
    return of_level(every(directory, round), level)


def of_level(checks: Sequence[Check], level: str) -> list[Check]:
    """Those of `level` and of the levels below it. Raises ValueError for a level there is not."""
    if level not in LEVELS:
        raise ValueError(f"--level {level}: there are {', '.join(LEVELS)}")
    asked = LEVELS[: LEVELS.index(level) + 1]
    return [check for check in checks if check.level in asked]


def holds(checks: Sequence[Check]) -> bool:
    """No check fails, and there is one that passes."""
    return all(c.outcome is not Outcome.FAIL for c in checks) and any(c.outcome is Outcome.PASS for c in checks)


def granted(directory: Path) -> tuple[str, ...]:
    """The levels that hold, the lowest first."""
    return levels_held(every(directory))


def levels_held(checks: Sequence[Check]) -> tuple[str, ...]:
    """Of the findings of all levels (see `every`): the levels that hold, the lowest first."""
    return tuple(level for level in LEVELS if holds(of_level(checks, level)))


def every(directory: Path, round: str | None = None) -> list[Check]:
    """The findings of all levels; see `audit`."""
    directory = directory.absolute()
    with files.confined(directory):
        try:
            chosen = rules.load(round or _recorded_round(directory))
        except ValueError as e:
            return [Check("round", Outcome.FAIL, shown(e), fix="name a round there are rules for")]
        found = tree.places(directory, chosen)
    if not found:
        return [_nothing(directory, chosen)]
    with files.confined(found[0].root):
        return _of_places(found, chosen)


def _of_places(found: Sequence[tree.Place], chosen: rules.Rules) -> list[Check]:
    several = len(found) > 1
    checks: list[Check] = []
    if len(found) > _MOST_PLACES:
        text = f"{len(found)} folders are three below a results/; the first {_MOST_PLACES} were looked at"
        checks.append(judge("submission tree", [text], "", source="A1", fix="audit the submitters one by one"))
    if links := _links(found[0].root, chosen):
        checks.append(judge("submitters' folders", links, "", source="A1", fix=_COPY))
    for place in found[:_MOST_PLACES]:
        of_place = _of_place(place, chosen)
        checks += prefixed(of_place, place.name) if several else of_place
    for place in {p.submitter_folder: p for p in found}.values():
        once = _guarded("names and sizes", partial(layout.submitter_checks, place, chosen))
        checks += prefixed(once, place.show(place.submitter_folder)) if several else once
    return checks


def _links(root: Path, chosen: rules.Rules) -> list[str]:
    """Divisions and submitters that lie elsewhere: nothing of them is seen. Links further down are findings of their submitter."""
    divisions = [root / name for name in chosen.layout.divisions]
    inner = [path for division in divisions if not division.is_symlink() for path in files.listed(division)]
    return [f"{path.relative_to(root).as_posix()} is a link: it is not read" for path in (*divisions, *inner) if path.is_symlink()]


def _of_place(place: tree.Place, chosen: rules.Rules) -> list[Check]:
    if place.scenario not in chosen.scenarios:
        return [
            judge(
                "scenario",
                [f"{place.folder.name} is none this audit has rules for: {', '.join(chosen.scenarios)}"],
                "",
                source="B4",
                file=place.name,
                fix="name the folder as the scenario of its logs",
            )
        ]
    return _guarded("reading", lambda: _judged(tree.read(place, chosen)))


def _judged(subject: tree.Subject) -> list[Check]:
    return [check for part in PARTS for check in _guarded(part.__module__.rpartition(".")[2], partial(part, subject))]


def _guarded(name: str, find: Callable[[], list[Check]]) -> list[Check]:
    """The last resort: what a file holds must not stop the other findings. It is a fault of the audit, and it fails."""
    try:
        return find()
    except files.DAMAGE as e:
        why = f"the audit's own code broke off over what the files hold: {type(e).__name__}: {shown(e)}"
        return [Check(f"audit of {name}", Outcome.FAIL, why, fix="please report it, with the directory")]


def _recorded_round(directory: Path) -> str:
    record, _ = files.attempt(files.json_object, directory / "record.json")
    found = (record or {}).get("round", rules.CURRENT)
    return found if isinstance(found, str) else repr(found)


def _nothing(directory: Path, chosen: rules.Rules) -> Check:
    divisions = "/, ".join(chosen.layout.divisions)
    template = chosen.layout.scenario.format(system="<system>", benchmark="<benchmark>", scenario="<scenario>")
    unfinished = (directory / "raw").exists() or (directory / "record.json").exists()
    if links := _links(directory, chosen):
        return judge("submission tree", links, "", source="A1", fix=_COPY)
    return Check(
        "submission tree",
        Outcome.FAIL,
        f"none in {plain(directory.name)}: looked for <division>/<submitter>/{template} with a division of {divisions}/",
        rule_ids=("A1",),
        fix="the run did not finish: repeat its command, which goes on where it stopped"
        if unfinished
        else "give a run directory, or a folder that holds open/, closed/ or network/",
    )
