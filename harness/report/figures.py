"""Draws figures as inline SVG with matplotlib. Text stays text. Colours are the page's variables,
so figures fit light, dark and print.
"""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence, Sized
from statistics import median_low
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness.report import answer
from harness.report.comparison import Comparison, Standing
from harness.report.section import Bar
from results.figure import short
from sut.registry import SUTS

# Colours that readers with any colour vision can distinguish: six of Okabe and Ito 2008, "Color
# universal design", and eight of the schemes "muted" and "bright" of Tol 2021, "Colour schemes".
# They are in the order of the registry. The mock is grey.
_PALETTE = (
    *("#0072b2", "#e69f00", "#d55e00", "#cc79a7", "#332288", "#999933", "#aa4499"),
    *("#009e73", "#56b4e9", "#ee6677", "#44aa99", "#882255", "#ddcc77", "#117733"),
)
_MOCK = "#808890"
_GOLDEN = 0.618
# Figures are drawn in these colours, which are then replaced by the page's own variables.
_INK, _SOFT, _LINE = "#010101", "#020202", "#030303"
_LIGHT, _DARK = (
    {"ink": "#1d2125", "soft": "#59636e", "line": "#d5dade"},
    {
        "ink": "#e4e7ea",
        "soft": "#a0a9b2",
        "line": "#363d44",
    },
)
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
_POINTS = 300


def colour(sut: str) -> str:
    """Return the colour of a SUT, which is the same for all its options."""
    name = sut.split(" ")[0]
    others = [known for known in SUTS if known != "mock"]
    if name not in others:
        return _MOCK
    number = others.index(name)
    if number < len(_PALETTE):
        return _PALETTE[number]
    hue = _GOLDEN * number % 1  # far from the hues of its neighbours
    red, green, blue = hsv_to_rgb((hue, 0.6, 0.7))
    return to_hex((red, green, blue))


_OVER_LIMIT = 3.0  # height of the axis over a limit
_LONGEST = 6  # a latency of more than so many times the median of all SUTs is cut off
_BESIDE = 3.0  # a logarithmic axis goes on for this factor beyond its dots
_DASHES = ("-", "--", ":", "-.")  # of the lines of frameworks
_ROOM = 1.25  # width of the axis over the longest bar or interval; its figure is written after it


def bars(comparison: Comparison, name: str) -> str:
    """Draw the figures of a comparison as bars from zero, the fastest on top. A line shows the
    interval of the ratio to that SUT, and each dot is a run.

    Return an empty text if there are fewer than two.

    `name`: the beginning of the ids in the SVG, different for each figure of a page.
    """
    groups = comparison.ordered[::-1]
    if len(groups) < 2:
        return ""
    entries = [comparison.entries[group.sut] for group in groups]
    lengths = [entry.figure or 0.0 for entry in entries]
    # An interval longer than this is cut off, and ends in an arrow.
    room = 2 * max(lengths)
    cut = math.inf if comparison.higher_is_better else _LONGEST * median_low(lengths)
    with rc_context(_STYLE):
        figure, axes = _canvas(0.1 + 0.34 * len(groups), left=0.36)
        longest = 0.0
        for n, (entry, length) in enumerate(zip(entries, lengths, strict=True)):
            axes.barh(n, min(length, cut), 0.62, color=colour(entry.group.sut))
            end = min(length, cut)
            if length > cut:
                axes.plot(cut, n, color=_INK, marker=">", markersize=6)
            else:
                end = _interval(axes, n, entry, room)
                runs = entry.group.figures
                axes.plot(runs, [n - 0.2] * len(runs), color=_INK, marker=".", markersize=4, ls="")
                end = max(end, *runs)
            _label(axes, short(length), end, n)
            longest = max(longest, end)
        better = "more" if comparison.higher_is_better else "less"
        labels = [_wrapped(group.sut) for group in groups]
        _of_rows(axes, labels, f"{comparison.unit}, {better} is better", _ROOM * longest)
        title = f"{comparison.full_name}: {answer.sentence(comparison)}"
        return _svg(figure, name, title)


def _interval(axes: Axes, n: int, entry: Standing, room: float) -> float:
    """Draw the interval of a bar, up to `room`. Return the end of bar and interval."""
    length = entry.figure or 0.0
    if entry.low is None or entry.high is None:
        return length
    end = max(length, min(entry.high, room))
    style: dict[str, Any] = {"linewidth": 1.2, "solid_capstyle": "butt", "marker": "|"}
    axes.plot([min(entry.low, room), end], [n, n], color=_INK, markersize=6, **style)
    if entry.high > room:  # the interval is longer
        axes.plot(room, n, color=_INK, marker=">", markersize=6)
    return end


def _label(axes: Axes, text: str, end: float, n: int) -> None:
    """Write a figure after the end of a bar."""
    axes.annotate(text, (end, n), (4, 0), textcoords="offset points", va="center", fontsize=9)


def gains(rows: Sequence[Bar], name: str, title: str) -> str:
    """Draw ratios as bars from zero, the first on top, with 95 % intervals. A ring is a bar's
    mark.
    """
    with rc_context(_STYLE):
        figure, axes = _canvas(0.25 + 0.62 * len(rows), left=0.36)
        longest = 1.0
        for n, row in enumerate(reversed(rows)):
            ratio = row.ratio
            end = max(ratio.high or 0, ratio.value)
            longest = max(longest, end, row.mark or 0)
            axes.barh(n, ratio.value, 0.55, color=colour(row.sut))
            if ratio.low is not None and ratio.high is not None:
                interval = [ratio.low, ratio.high]
                axes.plot(interval, [n, n], color=_INK, linewidth=1.2, marker="|", markersize=6)
            if row.mark is not None:
                axes.plot(
                    row.mark,
                    n - 0.4,
                    color=_INK,
                    marker="o",
                    markersize=5,
                    markerfacecolor="none",
                    linestyle="none",
                )
            _label(axes, f"{ratio.value:.3g} ×", end, n)
        axes.axvline(1, color=_INK, linewidth=0.8, linestyle=":")
        labels = [f"{textwrap.fill(row.label, 32)}\n{row.sut}" for row in reversed(rows)]
        _of_rows(axes, labels, "times as fast", _ROOM * longest, fontsize=8)
        return _svg(figure, name, title)


_NARROW = 0.055  # a part of a smaller share has no number in it


def shares(rows: Mapping[str, Mapping[str, float]], name: str, title: str) -> str:
    """Draw one bar a row, which consists of the shares of the same parts in the same order, the
    first row on top. The last part is grey, and a part that is nowhere is left out.

    Args:
        rows: row → part → its share; the shares of a row add up to 1.
        name: the beginning of the ids in the SVG.
    """
    every = list(next(iter(rows.values())))
    colours = dict(zip(every, (*_PALETTE[: len(every) - 1], _MOCK), strict=True))
    sums = {part: sum(values[part] for values in rows.values()) for part in every}
    parts = [part for part in every if sums[part]]
    with rc_context(_STYLE):
        height = 0.1 + 0.5 * len(rows)
        figure, axes = _canvas(height, left=0.27, below=0.45 + _legend_height(parts))
        for n, values in enumerate(list(rows.values())[::-1]):
            start = 0.0
            for part in parts:
                share = 100 * values[part]
                label = None if n else part
                axes.barh(n, share, 0.62, left=start, color=colours[part], label=label)
                if share > 100 * _NARROW:
                    # The little that is missing to 100 % matters.
                    digits = 1 if share > 99 else 0
                    style: dict[str, Any] = {
                        "ha": "center",
                        "va": "center",
                        "fontsize": 8,
                        "color": "#ffffff",
                    }
                    axes.annotate(f"{share:.{digits}f}", (start + share / 2, n), **style)
                start += share
        # A mark on the edge would be cut in half.
        _of_rows(axes, list(rows)[::-1], "%", 102, fontsize=8)
        axes.xaxis.grid(False)
        _legend(figure)
        return _svg(figure, name, title)


def as_file(svg: str) -> str:
    """Return a figure as a separate file, for a README or a slide. It has a title, and colours for
    light and dark surroundings.
    """
    light = _declarations(_LIGHT)
    dark = _declarations(_DARK)
    style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    drawing = re.sub(r"<svg ([^>]*)>", rf"<svg {names} \1>{style}", svg, count=1)
    return f"{drawing}\n"


def _declarations(theme: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in theme.items())


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    name: str,
    x: str,
    y: str,
    title: str,
    limit: float | None = None,
    marked: bool = True,
) -> str:
    """Draw a line a SUT, both axes from zero.

    Args:
        series: SUT → (x, y).
        limit: the y of a dashed line; None: there is none. Points far above it are cut off.
        marked: whether each point has a mark.
    """
    with rc_context(_STYLE):
        figure, axes = _canvas(2.2, left=0.14, below=0.5 + _legend_height(series))
        for sut, points in series.items():
            xs, ys = zip(*sorted(points), strict=True)
            style: dict[str, Any] = {"marker": "o", "markersize": 4} if marked else {}
            axes.plot(xs, ys, color=colour(sut), linewidth=1.6, label=sut, **style)
        _from_zero(axes, x, y)
        # A mark on the edge would be cut in half.
        highest = 1.08 * max(y for points in series.values() for _, y in points)
        if limit is not None:
            axes.axhline(limit, color=_INK, linewidth=1, linestyle="--")
            highest = min(max(highest, 1.1 * limit), _OVER_LIMIT * limit)
        axes.set_ylim(0, highest or None)
        measured = {x for points in series.values() for x, _ in points}
        axes.xaxis.set_major_locator(
            FixedLocator(sorted(measured))
            if len(measured) < 7 and all(each == int(each) for each in measured)
            else MaxNLocator(nbins=6)
        )
        axes.set_xlim(left=0)
        _legend(figure)
        return _svg(figure, name, title)


def roofline(
    dots: Mapping[str, tuple[float, float]],
    roofs: Mapping[str, tuple[float, float]],
    name: str,
    title: str,
) -> str:
    """Draw each SUT as a dot below the roof of its framework, on logarithmic axes.

    Args:
        dots: SUT → (operations a byte, operations a second).
        roofs: framework → (operations a second, bytes a second) that it reaches.
    """
    places = [flops_per_byte for flops_per_byte, _ in dots.values()]
    places += [flops / bytes_ for flops, bytes_ in roofs.values()]
    ends = np.array([min(places) / _BESIDE, max(places) * _BESIDE])
    rates = [flops for flops, _ in roofs.values()]
    reached = [flops for _, flops in dots.values()]
    with rc_context(_STYLE):
        below = 0.5 + _legend_height([*dots, *roofs])
        figure, axes = _canvas(2.4, left=0.14, below=below)
        for (framework, (flops, bytes_)), dashes in zip(roofs.items(), _DASHES, strict=False):
            xs = np.sort(np.append(ends, flops / bytes_))
            ys = np.minimum(flops, bytes_ * xs)
            label = f"{framework}'s limits"
            axes.plot(xs, ys / 1e9, color=_SOFT, linewidth=1.2, linestyle=dashes, label=label)
        for sut, (flops_per_byte, flops) in dots.items():
            style: dict[str, Any] = {"marker": "o", "markersize": 6, "linestyle": "none"}
            axes.plot(flops_per_byte, flops / 1e9, color=colour(sut), label=sut, **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*ends)
        axes.set_ylim(min(reached) / _BESIDE / 1e9, 2 * max(*rates, *reached) / 1e9)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())
        _labelled(axes, "operations a byte", "GFLOP/s")
        axes.xaxis.grid(True)
        _legend(figure)
        return _svg(figure, name, title)


def over_time(latencies_ms: np.ndarray, sut: str, name: str, y: str) -> str:
    """Draw latencies in their order, in up to 300 stretches. A line shows the median of each
    stretch, and a band its shortest to its longest latency.
    """
    stretches = np.array_split(latencies_ms, min(_POINTS, len(latencies_ms)))
    low = [part.min() for part in stretches]
    high = [part.max() for part in stretches]
    middle = [np.median(part) for part in stretches]
    lengths = np.array([len(part) for part in stretches])
    at = np.cumsum(lengths) - lengths / 2
    with rc_context(_STYLE):
        figure, axes = _canvas(1.4, left=0.14)
        axes.fill_between(at, low, high, color=colour(sut), alpha=0.3, linewidth=0)
        axes.plot(at, middle, color=colour(sut), linewidth=1.2)
        axes.set_xlim(0, len(latencies_ms))
        _from_zero(axes, "query" if y.startswith("latency") else "batch", y)
        return _svg(figure, name, f"{y} of {sut} in the order of the run")


def distribution(times_ms: Mapping[str, np.ndarray], name: str, x: str, y: str, title: str) -> str:
    """Draw the share of queries or steps that took no longer than a time, one line a SUT.
    `times_ms`: SUT → milliseconds [n].
    """
    shares = np.linspace(0, 1, 101)
    with rc_context(_STYLE):
        figure, axes = _canvas(2.2, left=0.14, below=0.5 + _legend_height(times_ms))
        quantiles = {sut: np.quantile(values, shares) for sut, values in times_ms.items()}
        for sut, values in quantiles.items():
            axes.plot(values, 100 * shares, color=colour(sut), linewidth=1.6, label=sut)
        limits = [values[99] for values in quantiles.values()]
        if max(limits) > 20 * min(limits):
            axes.set_xscale("log")
        else:
            axes.set_xlim(0, 1.15 * max(limits))
        axes.set_ylim(0, 100)
        _labelled(axes, x, y)
        axes.xaxis.grid(True)
        _legend(figure)
        return _svg(figure, name, title)


def trend(
    times: Sequence[float],
    figures: Sequence[float],
    changes: Sequence[int],
    sut: str,
    name: str,
    unit: str,
    title: str,
) -> str:
    """Draw figures over the runs of one cell, in their order, from zero. A dashed line precedes
    each run in `changes` (indices).
    """
    with rc_context(_STYLE):
        figure, axes = _canvas(1.7, left=0.14)
        axes.plot(times, figures, color=colour(sut), marker="o", markersize=4, linewidth=1.2)
        for index in changes:
            axes.axvline(times[index] - 0.5, color=_INK, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_xlim(min(times) - 0.6, max(times) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        _from_zero(axes, "run", unit)
        return _svg(figure, name, title)


def _of_rows(axes: Axes, labels: Sequence[str], x: str, longest: float, fontsize: int = 9) -> None:
    """Write the names of bars, the lowest first, and the axis below them."""
    axes.set_yticks(range(len(labels)), labels, fontsize=fontsize)
    axes.tick_params(axis="y", length=0, labelcolor=_INK)
    axes.set_xlim(0, longest)
    axes.set_xlabel(x)
    axes.xaxis.grid(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _canvas(height: float, left: float, below: float = 0.5) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes. `height` of the axes and the room `below` them are in
    inches; `left` is a share of the width.
    """
    whole = height + below + 0.08
    figure = Figure(figsize=(_WIDTH, whole))
    axes = figure.add_axes((left, below / whole, 0.985 - left, height / whole))
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    return figure, axes


def _legend_height(suts: Sized) -> float:
    return 0.19 * -(-len(suts) // 2) + 0.05


def _legend(figure: Figure) -> None:
    """Draw the names of the lines in two columns, below the axes."""
    figure.legend(
        frameon=False, fontsize=8, ncols=2, loc="lower center", borderaxespad=0.1, labelcolor=_INK
    )


def _from_zero(axes: Axes, x: str, y: str) -> None:
    axes.set_ylim(bottom=0)
    _labelled(axes, x, y)


def _labelled(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.yaxis.grid(True)
    axes.spines[["top", "right"]].set_visible(False)


def _wrapped(sut: str) -> str:
    name, _, options = sut.partition(" ")
    return f"{name}\n{options}" if options else name


def _svg(figure: Figure, name: str, title: str) -> str:
    """Return the figure as an <svg> element, with `title` for readers who do not see it."""
    buffer = io.StringIO()
    figure.savefig(
        buffer,
        format="svg",
        transparent=True,
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
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
