"""The rules of each round, as data (<round>.toml) and as dataclasses, and the source of each rule
(sources.toml).
"""

from compliance.rules.reading import CURRENT, is_earlier, load, rounds, version_number
from compliance.rules.tables import (
    Benchmark,
    ComplianceTest,
    ConfKey,
    Dates,
    EarlyStopping,
    EndpointsFigure,
    EndpointsModel,
    EndpointsRules,
    EvidenceRule,
    Layout,
    OfficialWorkload,
    OutputLength,
    ProjectLimits,
    ReportedMetric,
    Rules,
    ScenarioRules,
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
    "EndpointsFigure",
    "EndpointsModel",
    "EndpointsRules",
    "EvidenceRule",
    "Layout",
    "OfficialWorkload",
    "ReportedMetric",
    "OutputLength",
    "ProjectLimits",
    "Rules",
    "ScenarioRules",
    "ScoredTest",
    "Tolerance",
    "Truncation",
    "is_earlier",
    "load",
    "rounds",
    "version_number",
]
