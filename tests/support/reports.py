"""Reports of the runs below a folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.comparison import tables
from harness.comparison.runs import find
from harness.comparison.tables import Group
from harness.report import content, page, sections
from harness.report.content import Content

WHEN = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


def groups(root: Path) -> list[Group]:
    """The cells below a folder, without control runs."""
    return tables.grouped(find(root)[0])


def gathered(root: Path) -> Content:
    """The content of a report."""
    results, faults = find(root)
    return replace(content.of_results(results, "runs"), faults=faults)


def rendered(report: Content) -> str:
    """Its page."""
    parts = sections.of(report)
    return page.render(report, parts, WHEN)
