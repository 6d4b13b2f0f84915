"""The verdict on a directory from its files alone."""

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
from compliance.findings.check import Check, Fault, judge, not_applicable, placed, plain, shown
from compliance.findings.verdict import Audit, Claim, of_level
from compliance.loadgen import counts
from compliance.logs import files
from compliance.subject import Place, Subject, folders, places, read

# The official figure where token latencies are measured (constants.py, RESULT_FIELD_BENCHMARK_OVERWRITE).
_OF_TOKENS = {"Offline": "result_tokens_per_second", "Server": "result_completed_tokens_per_second"}

_COPY = "put the folder itself there: cp -rL copies what links lead to"
# Far more than anybody submits.
_MOST_PLACES = 2000
# bert-99 and bert-99.9 are one model: a run that reaches the higher target is submitted for both.
_ACCURACY = re.compile(r"-9\d(\.\d)?$")


def audit(directory: Path, level: str = "quick", round: str | None = None) -> list[Check]:
    """Every finding of `level` and those below it. Whatever the files hold, the answer is findings, never an error.

    Args:
        directory: a run directory; a root that holds open/, closed/ or network/; or such a division.
        round: None: the one record.json names, else the current one.

    Raises ValueError for a level there is not.
    """
    return of_level(every(directory, round), level)


def every(directory: Path, round: str | None = None) -> list[Check]:
    """The findings of all levels; see `audit`."""
    return list(examine(directory, round).checks)


def examine(directory: Path, round: str | None = None) -> Audit:
    """Claims and findings; see `audit`."""
    directory = directory.absolute()
    if unread := files.walk(directory).unread:
        why = [f"{path.relative_to(directory).as_posix()} cannot be listed ({reason})" for path, reason in unread]
        return Audit(round or "", (), (judge("readable", why, "", fix="give yourself the right to read it, and audit again"),))
    with files.confined(directory):
        try:
            chosen = rules.load(round or recorded_round(directory) or rules.CURRENT)
        except ValueError as e:
            return Audit(round or "", (), (judge("round", [str(e)], "", fix="name a round there are rules for: --round"),))
        found = places(directory, chosen)
    if not found:
        return Audit(chosen.round, (), (_nothing(directory, chosen),))
    claims: list[Claim] = []
    with files.confined(found[0].root):
        checks = _of_places(found, chosen, claims)
    return Audit(chosen.round, tuple(claims), tuple(checks))


def _of_places(found: Sequence[Place], chosen: rules.Rules, claims: list[Claim]) -> list[Check]:
    several = len(found) > 1
    checks: list[Check] = []
    if len(found) > _MOST_PLACES:
        text = f"{len(found)} folders are three below a results/; the first {_MOST_PLACES} were looked at"
        checks.append(judge("submission-tree", [text], "", fix="audit the submitters one by one"))
    if links := _links(found[0].root, chosen):
        checks.append(judge("submitters-folders", links, "", fix=_COPY))
    if strays := list(_strays(found, chosen)):
        checks.append(judge("folders-of-the-tree", strays, "", fix="remove it, or give it the name and place of the layout"))
    for place in found[:_MOST_PLACES]:
        of_place = _of_place(place, chosen, claims)
        checks += placed(of_place, place.name) if several else of_place
    for place in {p.submitter_folder: p for p in found}.values():
        own = [each for each in found if each.submitter_folder == place.submitter_folder]
        once = _guarded("names-and-sizes", partial(layout.submitter_checks, place, chosen, own))
        checks += placed(once, place.show(place.submitter_folder)) if several else once
    if several:
        fix = "submit each run once, under the system and the scenario it was measured on"
        checks.append(judge("logs-of-one-run", _twice(claims, chosen), "no two scenarios have the same", fix=fix))
    return checks


def _links(root: Path, chosen: rules.Rules) -> list[str]:
    """Divisions and submitters that lie elsewhere: nothing of them is seen. Links further down are findings of their submitter."""
    divisions = [root / name for name in chosen.layout.divisions]
    inner = [path for division in divisions if not division.is_symlink() for path in files.listed(division)]
    return [f"{path.relative_to(root).as_posix()} is a link: it is not read" for path in (*divisions, *inner) if path.is_symlink()]


def _strays(found: Sequence[Place], chosen: rules.Rules) -> Iterator[Fault | str]:
    """What would go unseen: divisions and submitters that are none by the letter, two folders of one scenario."""
    root = found[0].root
    for path in files.listed(root):
        if path.name not in chosen.layout.divisions and path.name.lower() in chosen.layout.divisions:
            yield Fault(f"{path.name}/ is no division by the letter: it is not read", file=path.name)
    judged = {place.submitter_folder for place in found}
    for path in sorted({each for place in found for each in folders(place.submitter_folder.parent) if not each.is_symlink()} - judged):
        name = found[0].show(path)
        yield Fault(f"{name} holds no results/<system>/<benchmark>/<scenario>: nothing of it is judged", file=name)
    kinds = Counter((place.folder.parent, place.scenario) for place in found)
    for (folder, scenario), count in kinds.items():
        if count > 1:
            yield Fault(f"{found[0].show(folder)} holds {count} folders of {scenario}", file=found[0].show(folder))
    if found[0].run is not None and len(found) > 1:
        yield f"a run directory is of one scenario; this one holds {len(found)}, for which it has one raw/"


def _twice(claims: Sequence[Claim], chosen: rules.Rules) -> Iterator[Fault]:
    """An edge system infers a scenario from another's logs, once, beside them; nothing else has the logs of something else."""
    runs: dict[tuple[str, ...], list[Claim]] = {}
    for claim in claims:
        if claim.tested and claim.began:
            runs.setdefault((claim.tested, claim.began), []).append(claim)
        if claim.tested and claim.figure:  # the same number to the last digit, on the same day
            runs.setdefault((claim.tested[:10], claim.figure, claim.logged), []).append(claim)
    told: set[str] = set()
    for same in runs.values():
        own = [c.benchmark for c in same if c.scenario in chosen.scenarios and chosen.scenarios[c.scenario].logged_as == c.logged]
        models = {(c.division, c.submitter, c.system, _ACCURACY.sub("", c.benchmark)) for c in same}
        if len(same) > 1 and (len(own) > len(set(own)) or len(models) > 1):
            places = " and ".join(c.place for c in same[:5])
            if places not in told:
                told.add(places)
                yield Fault(f"{places} have the logs of one run, tested {same[0].tested}", "a run each", "one run", file=same[0].place)


def _of_place(place: Place, chosen: rules.Rules, claims: list[Claim]) -> list[Check]:
    told = Claim(place.name, place.division, place.submitter_folder.name, place.system, place.benchmark, place.scenario)
    if place.scenario not in chosen.scenarios:
        claims.append(told)
        return [
            judge(
                "scenario",
                [f"{place.folder.name} is none this audit has rules for: {', '.join(chosen.scenarios)}"],
                "",
                file=place.name,
                fix="name the folder as the scenario of its logs",
            )
        ]
    return _guarded("reading", lambda: _judged(read(place, chosen), told, claims))


def _judged(subject: Subject, told: Claim, claims: list[Claim]) -> list[Check]:
    d, metric = subject.performance.detail, subject.rules.scenarios[subject.place.scenario].metric
    of_tokens = _OF_TOKENS.get(subject.scenario, metric.key) if counts.tokens(d) else metric.key
    figure = f"{shown(d.get(of_tokens))} {metric.unit if of_tokens == metric.key else 'tokens/s'}" if of_tokens in d.values else ""
    keys = {"verdict": "result_validity", "tested": "test_datetime", "began": "power_begin", "logged": "effective_scenario"}
    texts = {name: shown(d.get(key, "")) for name, key in keys.items()}
    claims.append(replace(told, official=shown(subject.official or ""), figure=figure, **texts))
    empty = [test.name for test in subject.tests if not test.detail.values]
    families = [family for family in checklist.FAMILIES if not (empty and family.of_logs)]
    found = [check for family in families for check in _guarded(family.name, partial(family.find, subject))]
    if empty:
        why = f"not judged: the {' and the '.join(empty)} detail log says nothing, which is a finding of its own"
        found.append(not_applicable("logs-say-nothing", why))
    return found


def _guarded(name: str, find: Callable[[], list[Check]]) -> list[Check]:
    """The last resort: what a file holds must not stop the other findings. It is a fault of the audit, and it fails.

    Args:
        name: the check `audit-of-<name>` says that it broke off.
    """
    try:
        return find()
    except files.DAMAGE as e:
        why = f"the audit's own code broke off over what the files hold: {type(e).__name__}: {shown(e)}"
        return [judge(f"audit-of-{name}", [why], "", fix="please report it, with the directory")]


def recorded_round(directory: Path) -> str | None:
    """The round a run directory says it is of; None where it says none."""
    record, _ = files.attempt(files.json_object, directory / "record.json")
    found = (record or {}).get("round")
    return found if found is None or isinstance(found, str) else repr(found)


def _nothing(directory: Path, chosen: rules.Rules) -> Check:
    divisions = " or ".join(f"{name}/" for name in chosen.layout.divisions)
    template = chosen.layout.scenario.format(system="<system>", benchmark="<benchmark>", scenario="<scenario>")
    unfinished = any(os.path.lexists(directory / name) for name in ("raw", "record.json"))
    if (directory / "results").is_dir():
        above = f"it holds results/, as a submitter's folder does: give the folder that holds {divisions}"
        return judge("submission-tree", [f"none in {plain(directory.name)}"], "", fix=above)
    if links := _links(directory, chosen):
        return judge("submission-tree", links, "", fix=_COPY)
    return judge(
        "submission-tree",
        [f"none in {plain(directory.name)}: looked for <division>/<submitter>/{template} below {divisions}"],
        "",
        fix="the run did not finish: repeat its command, which goes on where it stopped"
        if unfinished
        else "give a run directory, or a folder that holds open/, closed/ or network/",
    )
