"""The HTML page of an audit, for a reviewer. Failures come first, each with its rule, source,
values and place. page.html is the template.

It needs no script and no other file.

Anybody can write file names, logs and records. So every text is escaped, control characters are
written out, and a policy in the page forbids it to load or run anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
from markupsafe import Markup

from compliance.findings.verdict import LEVELS, Audit
from formats.checks import Check, Checks, RequiredBy, Verdict, escape

BEGINNING = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator"'
    ' content="audit of a submission">'
)
"""The beginning of every page of an audit. A file that begins otherwise is no such page."""

_MOST_CARDS = 1000
_ELIGIBILITY = "eligibility"
_GROUPS = {
    RequiredBy.AUDIT: "Failures of the audit itself",
    RequiredBy.CHECKER: "What MLCommons' checker of this round refuses",
    RequiredBy.LOGS: "What the logs contradict",
    RequiredBy.RULES: "What the rules' text asks, and the checker does not look for",
}
"""Who requires a check → the heading of its failures. These groups stay apart."""


@dataclass(frozen=True)
class Table:
    """The number of failures of each kind and submitter.

    Attributes:
        submitters: the columns.
        groups: heading, and its rows; a row is the name of a check, and the number of its failures
            for each submitter.
    """

    submitters: list[str]
    groups: list[tuple[str, list[tuple[str, Counter[str]]]]]


def render(directory: str, level: str, audit: Audit, when: datetime, *, strict: bool = True) -> str:
    """The page of an audit, as HTML.

    Args:
        directory: the audited directory, as the reader knows it.
        level: the requested level.
        when: the time of the audit.
        strict: whether every failure counts, also in a submission.

    Raises ValueError for an unknown level.
    """
    checks = audit.checks_for(level)
    eligibility = [c for c in checks if c.id == _ELIGIBILITY]
    by: dict[Verdict, Checks] = {verdict: [] for verdict in Verdict}
    places: dict[str, Counter[Verdict]] = {}
    for check in checks:
        if check.id != _ELIGIBILITY:
            by[check.verdict].append(check)
        if check.place:
            places.setdefault(check.place, Counter())[check.verdict] += 1
    # (scenario and unit, what such a figure counts), each once.
    words: dict[tuple[str, str], None] = {}
    for line in audit.results:
        if line.words:
            words[f"{line.scenario}, {line.figure.partition(' ')[2]}", line.words] = None
    body = _template().render(
        title=audit.sentence(level, strict),
        directory=directory,
        level=level,
        audit=audit,
        when=f"{when:%Y-%m-%d %H:%M %Z}".strip(),
        words=words,
        table=_table(audit, by[Verdict.FAIL]),
        counts=Counter(c.verdict for c in checks),
        levels=LEVELS,
        verdicts=list(Verdict),
        places=list(places.items())[:_MOST_CARDS],
        eligibility=eligibility,
        alike=Counter(c.detail for c in eligibility),
        cards=[*_failures(by[Verdict.FAIL]), ("For a person to judge", by[Verdict.MANUAL])],
        tables=[("Passed", by[Verdict.PASS]), ("Not applicable", by[Verdict.NA])],
        most=_MOST_CARDS,
    )
    return f"{BEGINNING}\n{body}"


def _failures(checks: Sequence[Check]) -> list[tuple[str, Checks]]:
    """(heading, the failed checks) of each of those who require them."""
    return [
        (heading, [check for check in checks if check.required_by is who])
        for who, heading in _GROUPS.items()
    ]


def _table(audit: Audit, failures: Sequence[Check]) -> Table | None:
    """The failures of each kind and submitter; None if there are fewer than two submitters."""
    # Folder → its submitter, for each result's folder and those around it, up to the submitter's
    # own.
    submitters = {}
    for line in audit.results:
        place = PurePosixPath(line.place)
        if line.submitter not in place.parts:
            continue
        for folder in (place, *place.parents):
            submitters[folder.as_posix()] = line.submitter
            if folder.name == line.submitter:
                break
    columns = sorted(set(submitters.values()))
    if len(columns) < 2:
        return None
    groups = []
    for heading, checks in _failures(failures):
        kinds: dict[str, Counter[str]] = {}
        for check in checks:
            submitter = submitters.get(check.place, "")
            kinds.setdefault(check.name, Counter())[submitter] += 1
        groups.append((heading, sorted(kinds.items(), key=lambda kind: -kind[1].total())))
    return Table(columns, groups)


def templates(*folders: Path) -> jinja2.Environment:
    """The templates of this folder and of `folders`. They escape every value and write out its
    control characters.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _template() -> jinja2.Template:
    environment = templates()
    environment.filters["printable"] = escape
    return environment.get_template("page.html")


def _printable(value: Any) -> Any:
    """Text with its control characters written out. The output of a macro or a figure is such text
    already.
    """
    return value if isinstance(value, Markup) else escape(str(value))
