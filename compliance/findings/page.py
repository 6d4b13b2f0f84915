"""The HTML page of an audit, for a reviewer: what fails comes first, with its rule, source, values and place.

It needs no script and no other file.

File names, logs and records are anybody's. So every text is escaped, control characters are written out, and a policy in the page
forbids it to load or run anything.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from compliance.findings.check import Check, Fault, Verdict, escape
from compliance.findings.verdict import LEVELS, Audit

BEGINNING = '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="audit of a submission">'
"""How every page of an audit begins: a file that begins otherwise is none."""

_MOST_CARDS = 1000
_ELIGIBILITY = "eligibility"
_WORDS = {
    Verdict.FAIL: "What fails",
    Verdict.MANUAL: "What a person has to judge",
    Verdict.PASS: "What holds",
    Verdict.NA: "What does not apply",
}


def render(directory: str, level: str, audit: Audit, when: datetime) -> str:
    """The page of an audit, as HTML.

    Args:
        directory: the audited directory, as the reader knows it.
        level: the level that was asked for.
        when: the time of the audit.

    Raises ValueError for a level there is not.
    """
    checks = audit.checks_for(level)
    eligibility = [c for c in checks if c.id == _ELIGIBILITY]
    by = {verdict: [c for c in checks if c.verdict is verdict and c not in eligibility] for verdict in Verdict}
    title = audit.sentence(level)
    parts = [
        f"<h1>{_text(title[0].upper() + title[1:])}</h1>",
        _about(directory, level, audit, when),
        _levels(audit),
        *_places(checks),
        *_eligibility(eligibility),
        *_cards(Verdict.FAIL, by[Verdict.FAIL]),
        *_cards(Verdict.MANUAL, by[Verdict.MANUAL]),
        *_folded(Verdict.PASS, by[Verdict.PASS]),
        *_folded(Verdict.NA, by[Verdict.NA]),
        "<footer>An audit of files is no review: a result that MLCommons has not reviewed is unverified, whatever holds here.</footer>",
    ]
    return (
        f"{BEGINNING}\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)} – {_text(directory)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


@cache
def _style() -> str:
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def _text(value: object) -> str:
    return html.escape(escape(str(value)))


def _about(directory: str, level: str, audit: Audit, when: datetime) -> str:
    counts = ", ".join(f"{n} {o.value}" for o, n in _counts(audit.checks_for(level)))
    results = [("result", line.sentence) for line in audit.results[:_MOST_CARDS]]
    rows = [("directory", directory), *results, ("round", audit.round), ("level asked", level), ("checks", counts)]
    return _list((name, _text(value)) for name, value in [*rows, ("audited", f"{when:%Y-%m-%d %H:%M %Z}".strip())])


def _counts(checks: Iterable[Check]) -> list[tuple[Verdict, int]]:
    verdicts = [c.verdict for c in checks]
    return [(verdict, verdicts.count(verdict)) for verdict in Verdict]


def _list(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names with their contents. `rows`: (name, HTML)."""
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{content}</dd>" for name, content in rows) + "</dl>"


def _levels(audit: Audit) -> str:
    """A table of the levels: whether each holds, and what fails it."""
    levels, rows = audit.levels, []
    for level in LEVELS:
        failures = [c for c in audit.checks_for(level) if c.verdict is Verdict.FAIL]
        of_level = [c.name for c in audit.checks if c.level == level and c.verdict is Verdict.FAIL]
        word, css_class = ("holds", "PASS") if level in levels else ("does not hold", "FAIL")
        count = f"{len(failures)} fail{'s' if len(failures) == 1 else ''}" if failures else ""
        why = count + (f", of this level itself: {_some(of_level)}" if of_level and level != LEVELS[0] else "")
        rows.append(f'<tr><td class="level">{level}</td><td class="verdict {css_class}">{word}</td><td class="soft">{_text(why)}</td></tr>')
    return "<h2>Levels</h2>\n<table>" + "".join(rows) + "</table>"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _places(checks: Sequence[Check]) -> Iterator[str]:
    """A table of the places, where there are several: how many checks of each end how."""
    places = list(dict.fromkeys(c.place for c in checks if c.place))
    if not places:
        return
    heads = "".join(f'<th class="number">{verdict.value}</th>' for verdict in Verdict)
    yield f"<h2>Scenarios and submitters</h2>\n<table><tr><th>folder</th>{heads}</tr>"
    for place in places[:_MOST_CARDS]:
        counts = _counts(c for c in checks if c.place == place)
        cells = "".join(f'<td class="number{f" {_css_class(o)}" if n else ""}">{n}</td>' for o, n in counts)
        yield f"<tr><td><code>{_text(place)}</code></td>{cells}</tr>"
    yield "</table>"


def _css_class(verdict: Verdict) -> str:
    return verdict.name  # a class in page.css


def _eligibility(checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield "<h2>Is it an MLPerf result?</h2>"
    for check in checks[:_MOST_CARDS]:
        place = f"<h3>{_text(check.place)}</h3>" if check.place else ""
        if check.faults:
            reasons = "".join(f"<li>{_text(fault.text)}</li>" for fault in check.faults)
            yield f"{place}<p>No: it is not eligible as an MLPerf submission.</p><ul>{reasons}</ul>"
        else:
            yield f"{place}<p>{_text(check.detail)}</p>"
    yield f'<p class="soft">{_text(checks[0].rule)} ({_text(checks[0].source)})</p>'


def _cards(verdict: Verdict, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield f"<h2>{_WORDS[verdict]} ({len(checks)})</h2>"
    place = ""
    for check in checks[:_MOST_CARDS]:
        if check.place != place:
            place = check.place
            yield f"<h3>{_text(place)}</h3>"
        yield _card(check)
    if len(checks) > _MOST_CARDS:
        yield f"<p>… and {len(checks) - _MOST_CARDS} more: see <code>--json</code></p>"


def _anchor(check: Check) -> str:
    """The check's key as a link can hold it."""
    return _text(quote(escape(check.key)))


def _card(check: Check) -> str:
    css_class = _css_class(check.verdict)
    rows = [
        ("what to do", check.fix),
        ("file", "" if check.faults else check.file),  # each fault names its own
        ("rule", check.rule),
        ("source", check.source),
        ("level", check.level),
    ]
    return (
        f'<section class="card {css_class}" id="{_anchor(check)}">'
        f'<h4><span class="verdict {css_class}">{check.verdict.value}</span> {_text(check.name)}</h4>'
        + (_faults(check) or f"<p>{_text(check.detail)}</p>")
        + _list((name, f"<code>{_text(value)}</code>" if name == "file" else _text(value)) for name, value in rows if value)
        + "</section>"
    )


def _faults(check: Check) -> str:
    """A check's faults: a table where they have values, else their sentences; empty where there are none."""
    if not check.faults:
        return ""
    rest = f"<p>… and {check.faults_left_out} more</p>" if check.faults_left_out else ""
    if not any(fault.expected or fault.found for fault in check.faults):
        return "".join(f"<p>{_sentence(fault)}</p>" for fault in check.faults) + rest
    head = "<tr><th>what</th><th>expected</th><th>found</th></tr>"
    return f'<div class="scroll"><table class="faults">{head}{"".join(map(_fault, check.faults))}</table></div>{rest}'


def _fault(fault: Fault) -> str:
    values = "".join(f'<td class="value" data-name="{name}">{_text(getattr(fault, name))}</td>' for name in ("expected", "found"))
    return f"<tr><td>{_sentence(fault)}</td>{values}</tr>"


def _sentence(fault: Fault) -> str:
    """A fault's sentence, and below it the file and line."""
    where = f"{fault.file}:{fault.line}" if fault.line else fault.file
    return _text(fault.text) + (f'<br><code class="soft">{_text(where)}</code>' if where else "")


def _folded(verdict: Verdict, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield f"<details><summary>{_WORDS[verdict]} ({len(checks)})</summary>"
    yield '<table class="seen"><tr><th>check</th><th>what was seen</th><th>rule</th></tr>'
    for check in checks[: 10 * _MOST_CARDS]:
        cells = f'<td>{_text(check.title)}</td><td>{_text(check.detail)}</td><td class="soft">{_text(check.rule)}</td>'
        yield f'<tr id="{_anchor(check)}">{cells}</tr>'
    yield "</table></details>"
