"""Renders the HTML page of a report, one file that loads nothing. Its only script, sort.js, sorts
tables, and the page does without it.

page.html is its template.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from compliance.findings.page import templates
from harness import terminal
from harness.comparison import compare
from harness.comparison.history import Trend
from harness.comparison.tables import Group
from harness.report import exports, figures
from harness.report.comparison import range_of
from harness.report.content import Content
from harness.report.details import Details
from harness.report.section import Section
from harness.report.sections.comparisons import BARS
from results.figure import short

BEGINNING = "\n".join(
    (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="generator" content="report of runs">',
    )
)
"""The beginning of every page of a report. A file with another beginning is not such a page."""

# These limits keep a page small and quick. Other cells are only in the table and the list of
# folders.
_MOST_DETAILS, _MOST_PLOTS = 30, 6
_WHOLE = re.compile(r"--[a-z][a-z-]*|[\d.]+ [%×]")
"""Flags, and numbers with their sign, in which no line is broken."""
_KINDS = {".csv": "text/csv", ".json": "application/json"}
_SCRIPT = (Path(__file__).parent / "sort.js").read_text(encoding="utf-8")
# A browser runs only the script with this digest.
_SHA256 = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_SCRIPT_DIGEST = f"sha256-{_SHA256}"


def render(content: Content, sections: Sequence[Section], when: datetime) -> str:
    """Return the page of a report, as HTML."""
    measured = _measured(content)
    shown = measured[:_MOST_DETAILS]
    details = []
    links = {}
    for n, group in enumerate(shown):
        links[id(group)] = f"cell{n}"
        details.append((Details(group, tuple(content.shared)), f"cell{n}"))
    template = _environment().get_template("page.html")
    body = template.render(
        content=content,
        sentences=[sentence for section in sections for sentence in section.sentences],
        sections=_drawn(sections),
        title=_title(content),
        how=list(_how(content)),
        downloads=_downloads(content, sections),
        script=Markup(_SCRIPT),
        script_digest=_SCRIPT_DIGEST,
        when=_words(when),
        details=details,
        links=links,
        most_plots=_MOST_PLOTS,
        rest=measured[_MOST_DETAILS:],
    )
    return f"{BEGINNING}\n{body}"


def _measured(content: Content) -> list[Group]:
    """The groups that have a run directory. Nothing else is known of cells that never started."""
    return [group for group in content.current if group.last.result.directory]


def _title(content: Content) -> str:
    """The question that the page answers, with the name of the model if there is only one."""
    groups = _measured(content) or content.current
    names = list(dict.fromkeys(compare.named(group) for group in groups))
    if len(names) == 1:
        return f"Which SUT is fastest for {names[0]}?"
    return "Which SUT is fastest?"


def _how(content: Content) -> Iterator[str]:
    """How the cells were measured, in sentences."""
    runs = [run for group in content.current for run in group.runs]
    records = [run.record for run in runs if run.record]
    versions = sorted({record.loadgen for record in records if record.loadgen})
    if versions:
        yield f"MLPerf's LoadGen {', '.join(versions)} issued the samples and took the times."
    seconds = [run.result.seconds.get("performance") for run in runs if run.result.seconds]
    timed = [each for each in seconds if each]
    if timed:
        counts = [len(group.good) for group in content.current if group.good]
        yield (
            f"{len(runs)} runs, {min(counts, default=0)} to {max(counts, default=0)} good ones"
            f" of each cell; a timed test took {min(timed):.0f} to {max(timed):.0f} seconds,"
            " after warm-up and compilation."
        )
    yield (
        "Answers are compared with those of a float32 reference, and answers given while"
        " measuring with those of the accuracy test. The section of a cell says if its answers"
        " were not judged."
    )
    yield (
        "A ratio compares runs of the same round. Its 95 % interval comes from the noise of"
        " all SUTs, and the intervals of all pairs hold at once."
    )
    packages = {f"{k} {v}" for run in runs for k, v in run.versions.items()}
    if packages:
        yield f"Versions: {', '.join(sorted(packages))}."


def _downloads(content: Content, sections: Sequence[Section]) -> dict[str, str]:
    """The name of a file → a link that contains it."""
    document = json.dumps(exports.document(content, sections), ensure_ascii=False)
    texts = {"cells.csv": exports.table_csv(content), "report.json": document}
    links = {}
    for name, text in texts.items():
        data = base64.b64encode(text.encode(errors="backslashreplace")).decode()
        links[name] = f"data:{_KINDS[Path(name).suffix]};base64,{data}"
    return links


def _drawn(sections: Sequence[Section]) -> list[_Drawn]:
    """The drawn sections, that with the bars of each comparison first."""
    drawn = [_Drawn(section, n) for n, section in enumerate(sections)]
    return sorted(drawn, key=lambda each: each.section.title != BARS)


def render_trends(trends: Iterable[Trend], source: str, when: datetime) -> str:
    """Return the page of `report --history`: a plot for each cell, and the changes with its
    figure.
    """
    drawn = [(trend, Markup(_trend(trend, f"trend{n}"))) for n, trend in enumerate(trends)]
    template = _environment().get_template("history.html")
    return f"{BEGINNING}\n{template.render(trends=drawn, source=source, when=_words(when))}"


class _Drawn:
    """A section whose pictures are drawn: (caption, <svg> element) of each that is not empty."""

    def __init__(self, section: Section, number: int):
        pictures = section.pictures()
        self.section = section
        self.tables = [table for table in section.tables if table.on_page and table.count]
        self.more = pictures.more
        self.pictures = []
        for n, picture in enumerate(pictures.shown):
            drawing = picture.draw(name=f"s{number}p{n}")
            self.pictures.append((picture.caption, Markup(drawing)))


def _words(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M %Z}".strip()


@cache
def _environment() -> jinja2.Environment:
    environment = templates(Path(__file__).parent)
    environment.filters |= {"short": short, "flags": _whole_flags}
    environment.globals |= {
        "id": id,
        "range_of": range_of,
        "ratio_words": exports.ratio_words,
        "colour": figures.colour,
        "over_time": _over_time,
        "near": terminal.near,
        "data_uri": _data_uri,
    }
    return environment


def _data_uri(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def _whole_flags(text: str) -> Markup:
    """The text, in which no line is broken within a flag or a number."""
    return Markup(_WHOLE.sub(r'<span class="flag">\g<0></span>', str(escape(text))))


def _over_time(details: Details, name: str) -> Markup:
    times = details.times_ms
    if times is None:
        return Markup("")
    return Markup(figures.over_time(times, details.group.sut, name, details.times_are))


def _trend(trend: Trend, name: str) -> str:
    runs = list(range(1, len(trend.figures) + 1))
    return figures.trend(
        times=runs,
        figures=trend.figures,
        changes=trend.starts[1:],
        sut=trend.sut,
        name=name,
        unit=trend.unit,
        title=f"{trend.name}: {trend.sentence}",
    )
