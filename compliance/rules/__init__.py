"""The rules of a round, and where each rule stands."""

from compliance.rules.reading import CURRENT, load, rounds
from compliance.rules.tables import (
    Benchmark,
    ComplianceTest,
    ConfKey,
    Dates,
    EarlyStopping,
    EvidenceRule,
    Layout,
    Metric,
    OutputLength,
    ProjectLimits,
    Repeats,
    Rules,
    Scenario,
    ScoredTest,
    Tolerance,
    Truncation,
)

__all__ = [
    "CURRENT",
    "Benchmark",
    "ComplianceTest",
    "ConfKey",
    "Dates",
    "EarlyStopping",
    "EvidenceRule",
    "Layout",
    "Metric",
    "OutputLength",
    "ProjectLimits",
    "Repeats",
    "Rules",
    "Scenario",
    "ScoredTest",
    "Tolerance",
    "Truncation",
    "load",
    "rounds",
]
