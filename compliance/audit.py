"""The verdict on a directory from its files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compliance import evidence, files, layout, metadata, provenance, recomputed, rules, scores, settings, tree, validity
from compliance.check import Check, Outcome, judge, prefixed

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
)


def audit(directory: Path, level: str = "quick", round: str | None = None) -> list[Check]:
    """Every finding of `level` and those below it. Whatever the files hold, the answer is findings, never an error.

    Args:
        directory: a run directory; a root that holds open/, closed/ or network/; or such a division.
        round: None: the one record.json names, else the current one.

    Raises ValueError for a level there is not.
    """
    if level not in LEVELS:
        raise ValueError(f"--level {level}: there are {', '.join(LEVELS)}")
    asked = LEVELS[: LEVELS.index(level) + 1]
    return [check for check in _all(directory, round) if check.level in asked]


def holds(checks: Sequence[Check]) -> bool:
    """No check fails, and there is one that passes."""
    return all(c.outcome is not Outcome.FAIL for c in checks) and any(c.outcome is Outcome.PASS for c in checks)


def granted(directory: Path) -> tuple[str, ...]:
    """The levels that hold, the lowest first."""
    found = _all(directory, None)
    return tuple(level for i, level in enumerate(LEVELS) if holds([c for c in found if c.level in LEVELS[: i + 1]]))


def _all(directory: Path, round: str | None) -> list[Check]:
    directory = directory.absolute()
    try:
        chosen = rules.load(round or _recorded_round(directory))
    except ValueError as e:
        return [Check("round", Outcome.FAIL, str(e), fix="name a round there are rules for")]
    found = tree.places(directory, chosen)
    if not found:
        return [_nothing(directory, chosen)]
    several = len(found) > 1
    checks: list[Check] = []
    for place in found:
        of_place = _of_place(place, chosen)
        checks += prefixed(of_place, place.name) if several else of_place
    for place in {p.submitter_folder: p for p in found}.values():
        once = layout.submitter_checks(place, chosen)
        checks += prefixed(once, place.show(place.submitter_folder)) if several else once
    return checks


def _of_place(place: tree.Place, chosen: rules.Rules) -> list[Check]:
    if place.scenario not in chosen.scenarios:
        return [
            judge(
                "scenario",
                [f"{place.folder.name} is none this audit has rules for: {', '.join(chosen.scenarios)}"],
                "",
                source="B4",
                file=place.name,
            )
        ]
    subject = tree.read(place, chosen)
    return [check for part in PARTS for check in part(subject)]


def _recorded_round(directory: Path) -> str:
    record, _ = files.attempt(files.json_object, directory / "record.json")
    found = (record or {}).get("round", rules.CURRENT)
    return found if isinstance(found, str) else repr(found)


def _nothing(directory: Path, chosen: rules.Rules) -> Check:
    divisions = "/, ".join(chosen.layout.divisions)
    template = chosen.layout.scenario.format(system="<system>", benchmark="<benchmark>", scenario="<scenario>")
    unfinished = (directory / "raw").exists() or (directory / "record.json").exists()
    return Check(
        "submission tree",
        Outcome.FAIL,
        f"none in {directory.name}: looked for <division>/<submitter>/{template} with a division of {divisions}/",
        source="A1",
        fix="the run did not finish: repeat its command, which goes on where it stopped"
        if unfinished
        else "give a run directory, or a folder that holds open/, closed/ or network/",
    )
