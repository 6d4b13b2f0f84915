"""Renders the HTML page of a report, one file without scripts that loads nothing.

page.html is its template.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from compliance.findings.page import templates
from harness import terminal
from harness.comparison import statistics
from harness.comparison.history import Trend
from harness.figure import short
from harness.report import figures
from harness.report.comparison import range_of
from harness.report.content import Content
from harness.report.details import Details
from harness.report.section import Section

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


def render(content: Content, sections: Sequence[Section], when: datetime) -> str:
    """Return the page of a report, as HTML."""
    shown = content.current[:_MOST_DETAILS]
    details = []
    links = {}
    for n, group in enumerate(shown):
        links[id(group)] = f"cell{n}"
        details.append((Details(group, tuple(content.shared)), f"cell{n}"))
    template = _environment().get_template("page.html")
    body = template.render(
        content=content,
        sentences=[sentence for section in sections for sentence in section.sentences],
        sections=[_Drawn(section, n) for n, section in enumerate(sections)],
        when=_words(when),
        details=details,
        links=links,
        most_plots=_MOST_PLOTS,
        rest=content.current[_MOST_DETAILS:],
    )
    return f"{BEGINNING}\n{body}"


def render_trends(trends: Iterable[Trend], source: str, when: datetime) -> str:
    """Return the page of `history`, as HTML: a plot for each cell, and the changes with its
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
    environment.filters |= {"short": short}
    environment.globals |= {
        "id": id,
        "range_of": range_of,
        "interval": statistics.interval,
        "colour": figures.colour,
        "over_time": _over_time,
        "near": terminal.near,
        "data_uri": _data_uri,
    }
    return environment


def _data_uri(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


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
