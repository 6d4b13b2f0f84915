"""A section on the releases of a package that SUTs were measured with (`--with`): the speed over
them, the steps, and the other packages that moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from packaging.version import InvalidVersion, Version

from formats.cell import sut_words
from harness.comparison import compare
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Cell, Lines, Row, Section, Table, grouped, ratio_cell

_COLUMNS = ("SUT", "release", "figure", "speed over the one before", "other packages that moved")


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A SUT with several releases of one package, and everything else equal.

    Attributes:
        sut: in words, without the package.
        groups: release → its cells, the oldest release first.
    """

    sut: str
    package: str
    groups: dict[str, Group]


def section(content: Content) -> Section:
    """A chart and a table for each package of which a SUT has several releases."""
    found = [(each, line) for each in content.conclusive for line in _lines(each)]
    rows = [(f"{c.name}: {line.package}", row) for c, line in found for row in _rows(c, line)]
    return Section(
        title="Speed over releases",
        note=(
            "Each SUT was measured with several releases of a package (--with). A step is marked"
            " where a release is shown to differ from the one before, by the intervals of all pairs"
            " of the comparison. uv moves other packages if a release requires it, and a step may"
            " come from them (docs/use/releases.md)."
        ),
        sentences=[text for c, line in found for text in _steps(c, line)][:MOST_SENTENCES],
        tables=[Table(columns=_COLUMNS, texts=2, groups=grouped(rows))],
        pictures=list(_pictures(content)),
    )


def _lines(comparison: Comparison) -> Iterator[_Line]:
    """Each SUT with each package of which it has two releases and more."""
    packages = {_name(text) for group in comparison.good for text in group.cell.packages}
    for package in sorted(packages):
        found: dict[str, dict[str, Group]] = {}
        for group in comparison.good:
            others = tuple(text for text in group.cell.packages if _name(text) != package)
            release = _release(group, package)
            if release:
                sut = sut_words(replace(group.cell, packages=others))
                found.setdefault(sut, {}).setdefault(release, group)
        for sut, groups in found.items():
            if len(groups) > 1:
                ordered = dict(sorted(groups.items(), key=lambda item: _place(item[0])))
                yield _Line(sut=sut, package=package, groups=ordered)


def _name(text: str) -> str:
    return text.partition("@")[0].partition("==")[0]


def _release(group: Group, package: str) -> str:
    """The release of a package in a cell, or that of its lock. Empty: its environment has none."""
    for text in group.cell.packages:
        if _name(text) == package:
            return text.removeprefix(package).removeprefix("==")
    return compare.installed(group).get(package, "")


def _place(release: str) -> tuple[Version, str]:
    """A key that sorts releases. A source folder has no version."""
    version, _, digest = release.partition("@")
    try:
        return Version(version), digest
    except InvalidVersion:
        return Version("0"), digest


def _rows(comparison: Comparison, line: _Line) -> Iterator[Row]:
    before: Group | None = None
    for release, group in line.groups.items():
        ratio: Cell = "–"
        moved = ""
        if before:
            ratio = ratio_cell(comparison.ratio(group, before))
            found = compare.moved(before, group, {line.package})
            moved = ", ".join(f"{name} {a} → {b}" for name, (a, b) in found.items())
        yield line.sut, f"{line.package} {release}", compare.mean(group), ratio, moved or "–"
        before = group


def _changes(comparison: Comparison, line: _Line) -> Iterator[tuple[int, str, str]]:
    """Yield (place of the later release, the earlier one, sentence) of each step that is shown."""
    for place, ((a, one), (b, other)) in enumerate(pairwise(line.groups.items()), 1):
        ratio = comparison.ratio(other, one)
        if ratio.different:
            what = "faster" if ratio.value > 1 else "slower"
            yield place, a, f"{what} after {line.package} {a}: {b} has {ratio.times('its speed')}"


def _steps(comparison: Comparison, line: _Line) -> Iterator[str]:
    changes = [text for _, _, text in _changes(comparison, line)]
    releases = " to ".join((next(iter(line.groups)), next(reversed(line.groups))))
    found = "; ".join(changes) or f"no step is shown from {line.package} {releases}"
    yield f"{line.sut}, {comparison.name}: {found}"


def _pictures(content: Content) -> Iterator[Lines]:
    """A chart for each comparison and package, with a line a SUT."""
    for comparison in content.conclusive:
        of_packages: dict[str, list[_Line]] = {}
        for line in _lines(comparison):
            of_packages.setdefault(line.package, []).append(line)
        for package, lines in of_packages.items():
            every = {release for line in lines for release in line.groups}
            ticks = sorted(every, key=_place)
            yield _picture(comparison, package, lines, ticks)


def _picture(comparison: Comparison, package: str, lines: list[_Line], ticks: list[str]) -> Lines:
    better = "more" if comparison.higher_is_better else "less"
    picture = Lines(
        work=comparison.name,
        about=f"speed over the release of {package}; a dashed line is a step",
        x=package,
        y=f"{comparison.unit}, {better} is better",
        ticks=ticks,
    )
    for line in lines:
        for release, group in line.groups.items():
            entry = comparison.entries[group.sut]
            if entry.figure is None:
                continue
            x = float(ticks.index(release))
            picture.add(line.sut, (x, entry.figure))
            if entry.low is not None and entry.high is not None:
                picture.ranges.append((line.sut, x, entry.low, entry.high))
        for place, before, _ in _changes(comparison, line):
            after = [*line.groups][place]
            picture.steps.append((ticks.index(before) + ticks.index(after)) / 2)
    return picture
