"""A section on the releases of a package that SUTs were measured with (`--with`): the speed over
them, the steps, and the other packages that moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

from packaging.version import InvalidVersion, Version

from formats.cell import sut_words
from harness.comparison import compare
from harness.comparison.collected import collected
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Cell, Lines, Row, Section, Table, ratio_cell

_COLUMNS = ("SUT", "release", "figure", "speed over the one before", "other packages that moved")


_Groups = Mapping[str, Group]
"""Release of a package → the cell that was measured with it, the oldest release first."""


def section(content: Content) -> Section:
    """A chart and a table for each package of which a SUT has several releases."""
    rows: list[tuple[str, Row]] = []
    sentences = []
    pictures = []
    for comparison in content.conclusive:
        lines = _lines(comparison)
        for (package, sut), groups in lines.items():
            title = f"{comparison.name}: {package}"
            rows += [(title, row) for row in _rows(comparison, package, sut, groups)]
            first, *_, last = groups
            changes = "; ".join(text for *_, text in _changes(comparison, package, groups))
            steps = changes or f"no step is shown from {package} {first} to {last}"
            sentences.append(f"{sut}, {comparison.name}: {steps}")
        of_packages = collected((package, (sut, of)) for (package, sut), of in lines.items())
        pictures += [_picture(comparison, *each) for each in of_packages.items()]
    return Section(
        title="Speed over releases",
        note=(
            "Each SUT was measured with several releases of a package (--with). A step is marked"
            " where a release is shown to differ from the one before, by the intervals of all pairs"
            " of the comparison. uv moves other packages if a release requires it, and a step may"
            " come from them (docs/use/releases.md)."
        ),
        sentences=sentences[:MOST_SENTENCES],
        tables=[Table(columns=_COLUMNS, texts=2, groups=collected(rows))],
        pictures=pictures,
    )


def _lines(comparison: Comparison) -> dict[tuple[str, str], _Groups]:
    """(package, SUT in words without the package) → its groups, for each SUT with two releases and
    more of a package, and everything else equal.
    """
    packages = {_name(text) for group in comparison.good for text in group.cell.packages}
    found: dict[tuple[str, str], dict[str, Group]] = {}
    for package, group in product(sorted(packages), comparison.good):
        others = tuple(text for text in group.cell.packages if _name(text) != package)
        release = _release(group, package)
        if release:
            sut = sut_words(replace(group.cell, packages=others))
            found.setdefault((package, sut), {}).setdefault(release, group)
    several = {line: groups for line, groups in found.items() if len(groups) > 1}
    return {
        line: {release: groups[release] for release in sorted(groups, key=_place)}
        for line, groups in several.items()
    }


def _name(text: str) -> str:
    return text.partition("@")[0].partition("==")[0]


def _release(group: Group, package: str) -> str:
    """The release of a package in a cell, or that of its lock. Empty: its environment has none."""
    for text in group.cell.packages:
        if _name(text) == package:
            return text.removeprefix(package).removeprefix("==")
    return group.last.installed.get(package, "")


def _place(release: str) -> tuple[Version, str]:
    """A key that sorts releases. A source folder has no version."""
    version, _, digest = release.partition("@")
    try:
        return Version(version), digest
    except InvalidVersion:
        return Version("0"), digest


def _rows(comparison: Comparison, package: str, sut: str, groups: _Groups) -> Iterator[Row]:
    before: Group | None = None
    for release, group in groups.items():
        ratio: Cell = "–"
        moved = ""
        if before:
            ratio = ratio_cell(comparison.ratio(group, before))
            moved = compare.moved(before.last, group.last, [package])
        yield sut, f"{package} {release}", compare.mean(group), ratio, moved or "–"
        before = group


def _changes(
    comparison: Comparison, package: str, groups: _Groups
) -> Iterator[tuple[str, str, str]]:
    """Yield (the earlier release, the later one, sentence) of each step that is shown."""
    for (a, one), (b, other) in pairwise(groups.items()):
        ratio = comparison.ratio(other, one)
        if ratio.different:
            what = "faster" if ratio.value > 1 else "slower"
            yield a, b, f"{what} after {package} {a}: {b} has {ratio.times('its speed')}"


def _picture(comparison: Comparison, package: str, lines: Sequence[tuple[str, _Groups]]) -> Lines:
    """A chart of a comparison and a package, with a line a SUT."""
    ticks = sorted({release for _, groups in lines for release in groups}, key=_place)
    picture = Lines(
        work=comparison.name,
        about=f"speed over the release of {package}; a dashed line is a step",
        x=package,
        y=comparison.direction,
        ticks=ticks,
    )
    for sut, groups in lines:
        for release, group in groups.items():
            entry = comparison.entries[group.sut]
            x = float(ticks.index(release))
            if entry.figure is not None:
                picture.add(sut, (x, entry.figure))
            if entry.low is not None and entry.high is not None:
                picture.ranges.append((sut, x, entry.low, entry.high))
        for a, b, _ in _changes(comparison, package, groups):
            picture.steps.append((ticks.index(a) + ticks.index(b)) / 2)
    return picture
