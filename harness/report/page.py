"""The HTML page of a report: one file without scripts, which loads nothing. page.html is its template."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from compliance.findings.page import templates
from harness import terminal
from harness.cell import short
from harness.comparison import statistics
from harness.comparison.history import Trend
from harness.report import computing, figures, keras_published, trainings
from harness.report.content import Content
from harness.report.contest import Contest, listed, range_of
from harness.report.details import Details, times_ms
from harness.report.hf_2019 import Again
from harness.report.scaling import AXES, Scale
from scenarios.table import SCENARIOS

BEGINNING = '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="report of runs">'
"""How every page of a report begins: a file that begins otherwise is none."""

# A page stays small and quick: of more contests and cells the table and the folders' names remain.
_MOST_FIGURES, _MOST_DETAILS, _MOST_PLOTS, _MOST_DISTRIBUTIONS = 8, 30, 6, 4


def render(content: Content, when: datetime) -> str:
    """The page of a report, as HTML."""
    contested = [c for c in content.contests if len(c.good) > 1]
    shown = content.current[:_MOST_DETAILS]
    scaled = list(_drawn(content.scales))
    body = (
        _environment()
        .get_template("page.html")
        .render(
            content=content,
            when=f"{when:%Y-%m-%d %H:%M %Z}".strip(),
            contested=contested,
            training=trainings,
            computing=computing,
            shares=list(computing.table(content.contests)),
            trainings=list(trainings.table(content.contests)),
            bars=[(c, Markup(figures.bars(c, f"bars{n}"))) for n, c in enumerate(contested[:_MOST_FIGURES])],
            scaling=scaled,
            more_scaling=len(content.scales) - len(scaled),
            more_distributions=max(0, len(_spread(contested)) - _MOST_DISTRIBUTIONS),
            distributions=list(_distributions(contested)),
            gains=list(_gains(content)),
            lower_precision=keras_published.lower_precision(),
            hf_2019=[(again, Markup(_by_length(again, f"lengths{n}"))) for n, again in enumerate(content.benchmark_of_2019)],
            details=[(Details(g, tuple(content.shared)), f"cell{n}") for n, g in enumerate(shown)],
            links={id(g): f"cell{n}" for n, g in enumerate(shown)},
            most_plots=_MOST_PLOTS,
            rest=content.current[_MOST_DETAILS:],
        )
    )
    return f"{BEGINNING}\n{body}"


def render_trends(trends: Iterable[Trend], source: str, when: datetime) -> str:
    """The page of `history`, as HTML: a plot for each cell, and what changed where its figure did."""
    drawn = [(trend, Markup(_trend(trend, f"trend{n}"))) for n, trend in enumerate(trends)]
    body = _environment().get_template("history.html").render(trends=drawn, source=source, when=f"{when:%Y-%m-%d %H:%M %Z}".strip())
    return f"{BEGINNING}\n{body}"


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
    return Markup("") if times is None else Markup(figures.over_time(times, details.group.sut, name, details.times_are))


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


def _by_length(again: Again, name: str) -> str:
    if not again.through or len({length for _, _, length in again.common}) < 2:
        return ""
    names = ", ".join(f"{model} at batch {batch}" for model, batch in again.through)
    title = f"mean time of a batch over what all SUTs have at each length ({names}), {again.where}"
    return figures.lines(again.by_length, name, "tokens an input", "ms a batch, less is better", title)


def _distributions(contested: list[Contest]) -> Iterator[tuple[str, Markup]]:
    """Latencies of the first contests that ask query by query, and step times of trainings, each of the last run."""
    for n, contest in enumerate(_spread(contested)[:_MOST_DISTRIBUTIONS]):
        times = {g.sut: t for g in contest.good if (t := times_ms(g)) is not None}
        if times:
            queries = SCENARIOS[contest.groups[0].cell.scenario].loadgen
            axes = ("latency, ms: less is better", "% of queries answered") if queries else ("ms a step, less is better", "% of steps")
            unseen = [g.sut for g in contest.good if g.sut not in times]
            caption = f"{contest.name}, the last run of each{f'; no single times of {listed(unseen)}' if unseen else ''}"
            yield caption, Markup(figures.distribution(times, f"latency{n}", *axes, f"times of {caption}"))


def _spread(contested: list[Contest]) -> list[Contest]:
    """Those whose single times are drawn."""
    return [c for c in contested if not c.higher_is_better]


def _gains(content: Content) -> Iterator[tuple[str, Markup]]:
    """Keras' published figures from our cells."""
    for n, (other, title) in enumerate(keras_published.FIGURES.items()):
        if rows := keras_published.gains(content, other):
            left = len(rows) - 2 * _MOST_FIGURES
            name = f"{title}{f' ({left} more are not drawn)' if left > 0 else ''}"
            yield name, Markup(figures.gains(rows[: 2 * _MOST_FIGURES], f"gain{n}", title))


def _drawn(scales: Sequence[Scale]) -> Iterator[tuple[str, Markup]]:
    """The first charts of each axis."""
    for axis, label in AXES.items():
        of_axis = [scale for scale in scales if scale.axis == axis]
        for n, scale in enumerate(of_axis[: _MOST_FIGURES // 2]):
            name = f"{scale.work}: speed over {label}"
            yield name, Markup(figures.lines(scale.points, f"{axis}{n}", label, "samples/s, more is better", name))
