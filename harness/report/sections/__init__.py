"""The sections of a report, in small files. Page and JSON show any list of sections."""

from __future__ import annotations

from collections.abc import Iterable

from harness.report.content import Content
from harness.report.section import Section
from harness.report.sections import (
    comparisons,
    computing,
    curves,
    numbers,
    ratios,
    releases,
)

SECTIONS = (
    comparisons.answers,
    comparisons.bars,
    comparisons.percentiles,
    ratios.section,
    releases.section,
    numbers.section,
    curves.serving,
    curves.scaling,
    comparisons.means,
    computing.section,
    comparisons.noise,
)
"""The functions that create the sections of a report, in the order in which they are shown."""


def of(content: Content) -> list[Section]:
    """Return every section of a report. A section without content is empty."""
    return [make(content) for make in SECTIONS]


def sentences(parts: Iterable[Section]) -> list[str]:
    """Return the sentences of the sections, which are shown below the headline."""
    return [sentence for section in parts for sentence in section.sentences]
