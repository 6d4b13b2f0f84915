"""Draws figures as inline SVG with matplotlib. Text stays text. Colours are the page's variables,
so figures fit light, dark and print.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterator, Mapping
from itertools import cycle
from statistics import median_low
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from harness.report import answer
from harness.report.comparison import Comparison
from harness.report.section import Lines, Picture
from results.figure import short
from sut.registry import SUTS

# Colours that readers with any colour vision can distinguish: six of Okabe and Ito 2008, "Color
# universal design", and eight of the schemes "muted" and "bright" of Tol 2021, "Colour schemes".
# They are in the order of the registry. The mock is grey.
_PALETTE = (
    *("#0072b2", "#e69f00", "#d55e00", "#cc79a7", "#332288", "#999933", "#aa4499"),
    *("#009e73", "#56b4e9", "#ee6677", "#44aa99", "#882255", "#ddcc77", "#117733"),
)
_GREY = "#808890"
_GOLDEN = 0.618
# Figures are drawn in these colours, which are then replaced by the page's own variables.
_INK, _SOFT, _LINE = "#010101", "#020202", "#030303"
_VARIABLES = {_INK: "var(--ink)", _SOFT: "var(--soft)", _LINE: "var(--line)"}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _SOFT,
    "axes.edgecolor": _LINE,
    "axes.linewidth": 0.8,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
}
_WIDTH = 5.2  # inches of 72 points, the width of a phone, so that text has one size everywhere


def colour(sut: str) -> str:
    """Return the colour of a SUT of the registry. Grey for the mock and all others."""
    others = [known for known in SUTS if known != "mock"]
    if sut not in others:
        return _GREY
    number = others.index(sut)
    if number < len(_PALETTE):
        return _PALETTE[number]
    hue = _GOLDEN * number % 1  # far from the hues of its neighbours
    red, green, blue = hsv_to_rgb((hue, 0.6, 0.7))
    return to_hex((red, green, blue))


_OVER_LIMIT = 3.0  # height of the axis over a limit
_LONGEST = 6  # a latency of more than so many times the median of all SUTs is cut off
_ROOM = 1.25  # width of the axis over the longest bar or interval; its figure is written after it


def draw(picture: Picture, name: str, colours: Mapping[str, str]) -> str:
    """Return a drawing as an <svg> element.

    Args:
        name: the beginning of the ids in the SVG, different for each drawing of a page.
        colours: SUT with its options → its colour. A SUT without one is grey.
    """
    with rc_context(_STYLE):
        if isinstance(picture, Lines):
            return _svg(_lines(picture, colours), name, picture.name)
        title = f"{picture.full_name}: {answer.sentence(picture)}"
        return _svg(_bars(picture, colours), name, title)


def _bars(comparison: Comparison, colours: Mapping[str, str]) -> Figure:
    """Draw the figures of a comparison as bars from zero, the fastest on top. A line shows the
    interval of the ratio to that SUT, and each dot is a run.
    """
    groups = comparison.ordered[::-1]
    lengths = [comparison.entries[group.sut].figure or 0.0 for group in groups]
    # An interval longer than this is cut off, and ends in an arrow.
    room = 2 * max(lengths)
    cut = math.inf if comparison.higher_is_better else _LONGEST * median_low(lengths)
    figure, axes = _canvas(0.1 + 0.34 * len(groups), left=0.36)
    arrow: dict[str, Any] = {"color": _INK, "marker": ">", "markersize": 6}
    longest = 0.0
    for n, (group, length) in enumerate(zip(groups, lengths, strict=True)):
        end = min(length, cut)
        axes.barh(n, end, 0.62, color=colours.get(group.sut, _GREY))
        entry = comparison.entries[group.sut]
        runs = group.figures
        if length > cut:
            axes.plot(cut, n, **arrow)
            runs = []
        elif entry.low is not None and entry.high is not None:
            end = max(length, min(entry.high, room))
            ends = [min(entry.low, room), end]
            axes.plot(
                ends, [n, n], solid_capstyle="butt", linewidth=1.2, **(arrow | {"marker": "|"})
            )
            if entry.high > room:  # the interval is longer
                axes.plot(room, n, **arrow)
        if runs:
            axes.plot(runs, [n - 0.2] * len(runs), color=_INK, marker=".", markersize=4, ls="")
        end = max([end, *runs])
        axes.annotate(short(length), (end, n), (4, 0), textcoords="offset points", va="center")
        longest = max(longest, end)
    axes.set_yticks(range(len(groups)), [group.sut.replace(" ", "\n", 1) for group in groups])
    axes.tick_params(axis="y", length=0, labelcolor=_INK)
    axes.set_xlim(0, _ROOM * longest)
    axes.set_xlabel(comparison.direction)
    axes.xaxis.grid(True)
    axes.spines["bottom"].set_visible(False)
    return figure


def _lines(picture: Lines, colours: Mapping[str, str]) -> Figure:
    """Draw a line a SUT, both axes from zero. The lines of one SUT with different packages have one
    colour and different dashes.
    """
    dashes: dict[str, Iterator[str]] = {}
    legend = 0.19 * math.ceil(len(picture.series) / 2) + 0.05  # in two columns
    figure, axes = _canvas(2.2, left=0.14, below=0.5 + legend)
    for sut, points in picture.series.items():
        xs, ys = zip(*sorted(points), strict=True)
        of_sut = colours.get(sut) or colour(sut.partition(" ")[0])
        dash = next(dashes.setdefault(of_sut, cycle(("-", "--", ":", "-."))))
        axes.plot(xs, ys, dash, color=of_sut, linewidth=1.6, label=sut, marker="o", markersize=4)
        for of, x, low, high in picture.ranges:
            if of == sut:
                axes.plot((x, x), (low, high), color=of_sut, linewidth=1)
    for x in set(picture.steps):
        axes.axvline(x, color=_INK, linewidth=1, linestyle="--")
    every = [point for points in picture.series.values() for point in points]
    # A mark on the edge would be cut in half.
    highest = 1.08 * max(*(y for _, y in every), *(high for *_, high in picture.ranges), 0)
    if picture.limit is not None:
        axes.axhline(picture.limit, color=_INK, linewidth=1, linestyle="--")
        highest = min(max(highest, 1.1 * picture.limit), _OVER_LIMIT * picture.limit)
    axes.set_ylim(0, highest or None)
    axes.set_xlim(left=0)
    measured = sorted({x for x, _ in every})
    if picture.ticks:
        axes.set_xlim(-0.3, len(picture.ticks) - 0.7)
        axes.set_xticks(range(len(picture.ticks)), picture.ticks)
    elif len(measured) < 7 and all(x == int(x) for x in measured):
        axes.xaxis.set_major_locator(FixedLocator(measured))
    axes.set(xlabel=picture.x, ylabel=picture.y)
    axes.yaxis.grid(True)
    figure.legend(
        frameon=False, fontsize=8, ncols=2, loc="lower center", borderaxespad=0.1, labelcolor=_INK
    )
    return figure


def _canvas(height: float, left: float, below: float = 0.5) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes. `height` of the axes and the room `below` them are in
    inches; `left` is a share of the width.
    """
    whole = height + below + 0.08
    figure = Figure(figsize=(_WIDTH, whole))
    axes = figure.add_axes((left, below / whole, 0.965 - left, height / whole))
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure, name: str, title: str) -> str:
    """Return the figure as an <svg> element, with `title` for readers who do not see it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour_drawn, variable in _VARIABLES.items():
        text = text.replace(colour_drawn, variable)
    text = re.sub(
        r' (?:d|x|y|transform)="[^"]*"',
        lambda match: re.sub(r"(\.\d{2})\d+", r"\1", match[0]),
        text,
    )
    label = html.escape(title).replace("\\", "\\\\")  # it is part of a pattern's replacement
    text = re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-label="{label}">',
        text,
        count=1,
    )
    return re.sub(r"\n\s*", "\n", text).strip()
