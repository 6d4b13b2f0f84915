"""Reads and checks the rules of a round, compliance/rules/<round>.toml. A new round is a new file,
and `CURRENT` names it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from compliance.rules.compliance_tests import ComplianceTest, OutputLength, Repeats, ScoredTest
from compliance.rules.endpoints import (
    EndpointsFigure,
    EndpointsModel,
    EndpointsRules,
    EndpointsScenario,
)
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

CURRENT = "v6.1"
_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){1,2}", re.ASCII)
_FOLDER = Path(__file__).parent


def rounds() -> list[str]:
    """The rounds with rules, in order."""
    return sorted(path.stem for path in _FOLDER.glob("v*.toml"))


def is_earlier(version: str) -> bool:
    """Whether a version of LoadGen, such as 4.1, is older than those of every round with rules."""
    earliest = load(rounds()[0])
    if not _VERSION.fullmatch(version):
        return False
    return version_number(version) < min(map(version_number, earliest.versions))


def version_number(version: str) -> tuple[int, ...]:
    """A version such as 5.1.2 as numbers, which sort."""
    return tuple(int(part) for part in version.split("."))


@cache
def load(round: str = CURRENT) -> Rules:
    """The rules of a round. Raises ValueError for an unknown round, and for a file with a missing,
    unknown or wrong field.
    """
    if round not in rounds():
        raise ValueError(f"round {round}: its rules are not here; there are {', '.join(rounds())}")
    try:
        return _rules(_tables(round))
    except (KeyError, TypeError) as e:
        raise ValueError(
            f"{round}.toml: a field is missing, unknown or of another kind: {e}"
        ) from None


def _tables(round: str) -> dict[str, Any]:
    """The tables of a round's file, completed from the round it `extends`.

    A missing table is taken whole from that round. A missing benchmark or compliance test is taken
    from it too, and so is a missing field of a compliance test.
    """
    with (_FOLDER / f"{round}.toml").open("rb") as f:
        tables = tomllib.load(f)
    if "extends" not in tables:
        return tables
    base = _tables(tables.pop("extends"))
    for name in tables.pop("without_benchmarks", ()):
        base["benchmark"].pop(name, None)
    benchmarks = base["benchmark"] | tables.pop("benchmark", {})
    changed = tables.get("compliance_test", {})
    tests = {name: row | changed.get(name, {}) for name, row in base["compliance_test"].items()}
    return {**base, **tables, "benchmark": benchmarks, "compliance_test": tests}


def _rules(d: dict[str, Any]) -> Rules:
    loadgen = d["loadgen"]
    differences = loadgen.get("file_sha1_differences", {})
    file_sha1 = {}
    for version in loadgen["versions"]:
        file_sha1[version] = loadgen["file_sha1"] | differences.get(version, {})
    return Rules(
        round=d["round"],
        seeds=d["seeds"],
        wheel=loadgen["wheel"],
        versions=loadgen["versions"],
        file_sha1=file_sha1,
        draws_from_library=loadgen.get("draws_from_library", False),
        unlogged=loadgen.get("unlogged", {}),
        unlogged_before=loadgen.get("unlogged_before", {}),
        scenarios={name: _scenario(name, row) for name, row in d["scenario"].items()},
        benchmarks=_each(Benchmark, d["benchmark"]),
        token_metric=_each(ReportedMetric, d["token_metric"]),
        inferred_metric={
            name: _each(ReportedMetric, row) for name, row in d["inferred_metric"].items()
        },
        workloads=_each(OfficialWorkload, d["workload"]),
        aliases=d["alias"],
        alias_parts=d["alias_part"],
        accuracy_patterns=d["accuracy_pattern"],
        layout=_made(Layout, d["layout"]),
        truncation=_made(Truncation, d["truncation"]),
        evidence=_each(EvidenceRule, d["evidence"]),
        early_stopping=_made(EarlyStopping, d["early_stopping"]),
        dates=_made(Dates, d["dates"]),
        compliance_tests=_each(ComplianceTest, d["compliance_test"]),
        scored_tests=_each(ScoredTest, d["scored_test"]),
        endpoints=_endpoints(d["endpoints"]),
        output_length=_made(OutputLength, d["output_length"]),
        repeats=_made(Repeats, d["repeats"]),
        user_conf={key: _conf_key(row) for key, row in d["user_conf"].items()},
        detail_keys={name: tuple(keys) for name, keys in d["detail"].items()},
        summary_labels=d["summary"],
        scenario_labels=d["scenario_summary"],
        accuracy_most=d["accuracy_most"],
        project_limits=_project_limits(d["project_limits"]),
    )


def _endpoints(d: dict[str, Any]) -> EndpointsRules:
    return EndpointsRules(
        seeds=d["seeds"],
        scenarios=_each(EndpointsScenario, d["scenario"]),
        figures=_each(EndpointsFigure, d["figure"]),
        models=_each(EndpointsModel, d["model"]),
    )


def _project_limits(d: dict[str, Any]) -> ProjectLimits:
    limits = {score: _each(Tolerance, rows) for score, rows in d["tolerance"].items()}
    project_limits: ProjectLimits = _made(ProjectLimits, d | {"tolerance": limits})
    return project_limits


def _scenario(name: str, d: dict[str, Any]) -> ScenarioRules:
    return ScenarioRules(
        min_duration_ms=d["min_duration_ms"],
        least_count=d["min_query_count"],
        capped_by_dataset=d["capped_by_dataset"],
        percentile=d["percentile"],
        counts=d["counts"],
        metric=_made(ReportedMetric, d["metric"]),
        logged_as=d.get("logged_as", name),
        inferred_from=tuple(d.get("inferred_from", ())),
        samples_per_query=d.get("samples_per_query", 1),
    )


def _conf_key(d: dict[str, Any]) -> ConfKey:
    requested, default = d.get("requested", {}), d.get("default", {})
    return ConfKey(
        {"*": requested} if isinstance(requested, str) else requested,
        {"*": default} if isinstance(default, str) else default,
    )


def _each(kind: type, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Name → the dataclass `kind` with the values of its row."""
    return {name: _made(kind, row) for name, row in rows.items()}


def _made(kind: type, values: dict[str, Any]) -> Any:
    """The dataclass `kind` with TOML values; lists become tuples. Raises TypeError if an int, str,
    bool or float field has another type.
    """
    plain = {"int": int, "str": str, "bool": bool, "float": float}
    for f in fields(kind):
        expected = plain.get(str(f.type))
        if f.name in values and expected and type(values[f.name]) is not expected:
            raise TypeError(f"{kind.__name__}.{f.name} = {values[f.name]!r} is not {f.type}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
