"""The rules of each round, as data (<round>.toml) and as dataclasses, and the source of each rule
(sources.toml).
"""

from compliance.rules.compliance_tests import ComplianceTest, OutputLength, Repeats, ScoredTest
from compliance.rules.endpoints import EndpointsModel, EndpointsRules
from compliance.rules.reading import CURRENT, is_earlier, load, rounds, version_number
from compliance.rules.tables import (
    Benchmark,
    ConfKey,
    Dates,
    EarlyStopping,
    EvidenceRule,
    Layout,
    OfficialWorkload,
    ProjectLimits,
    ReportedMetric,
    Rules,
    ScenarioRules,
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
    "EndpointsModel",
    "EndpointsRules",
    "EvidenceRule",
    "Layout",
    "OfficialWorkload",
    "ReportedMetric",
    "OutputLength",
    "ProjectLimits",
    "Repeats",
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
