"""Reports of the runs below a folder."""

from dataclasses import replace
from datetime import UTC, datetime

from harness.comparison import tables
from harness.comparison.runs import find
from harness.report import content, page, sections

WHEN = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


def groups(root):
    """The cells below a folder, without control runs."""
    return tables.grouped(find(root)[0])


def gathered(root):
    """The content of a report."""
    results, faults = find(root)
    return replace(content.of_results(results, "runs"), faults=faults)


def rendered(report):
    """Its page."""
    parts = sections.of(report)
    return page.render(report, parts, WHEN)
