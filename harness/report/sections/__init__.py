"""The sections of a report, in small files. Page, Markdown and JSON show any list of sections."""

from __future__ import annotations

from collections.abc import Iterable

from harness.report.content import Content
from harness.report.section import Section
from harness.report.sections import (
    comparisons,
    computing,
    grid,
    keras,
    keras_published,
    latencies,
    lengths,
    nodes,
    numbers,
    replicas,
    resources,
    scaling,
    serving,
    trainings,
    tuning,
)

SECTIONS = (
    comparisons.answers,
    latencies.percentiles,
    resources.section,
    lengths.section,
    trainings.section,
    comparisons.bars,
    numbers.section,
    tuning.section,
    replicas.section,
    serving.section,
    serving.token_latencies,
    scaling.section,
    latencies.spread,
    comparisons.means,
    keras_published.section,
    grid.section,
    computing.section,
    nodes.section,
    resources.payback,
    keras.costs,
    keras.compared_with_keras2,
    comparisons.noise,
)
"""The functions that create the sections of a report, in the order in which they are shown."""


def of(content: Content) -> list[Section]:
    """Return every section of a report. A section without content is empty."""
    return [make(content) for make in SECTIONS]


def sentences(parts: Iterable[Section]) -> list[str]:
    """Return the sentences of the sections, which are shown below the headline."""
    return [sentence for section in parts for sentence in section.sentences]
