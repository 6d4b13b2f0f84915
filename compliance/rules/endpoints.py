"""The rules for results of mlcommons/endpoints as frozen dataclasses, one for each kind of table
below [endpoints] of a round's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EndpointsFigure:
    """A figure as MLCommons publishes it.

    Attributes:
        key: its place in result_summary.json; a dot leads one level down.
        unit: the unit of the published figure.
        divisor: the value in result_summary.json is `divisor` times the published one.
        percentile: the row, if the place has a table of percentiles.
    """

    key: str
    unit: str
    divisor: float = 1.0
    percentile: float | None = None


@dataclass(frozen=True, kw_only=True)
class EndpointsScenario:
    """A scenario as config.yaml names it.

    Attributes:
        type: `type` of config.yaml.
        load_patterns: `settings.load_pattern.type`.
        figure: the name of the figure that is published.
        target_concurrency: `settings.load_pattern.target_concurrency`; None: any.
        type_checked: whether the checker looks at `type`.
    """

    type: str
    load_patterns: tuple[str, ...]
    figure: str
    target_concurrency: int | None = None
    type_checked: bool = False


@dataclass(frozen=True, kw_only=True)
class EndpointsModel:
    """A benchmark that may be measured with mlcommons/endpoints.

    Attributes:
        known_by: names of its data sets and scorers. They show the benchmark of a result without a
            submission around it.
        figures: scenario → the name of the figure that is published, if it is another one than the
            scenario's.
        score_keys: metric → key of a score that has several values. Other scores are the value of
            the first metric.
        score_factor: a score times this is in the unit of the metric's limits.
        score_checked: whether the checker compares the score with its limits. Otherwise it asks
            only that there is one.
        audit_tests: check → the name of the compliance test that must have passed.
        mean_output_tokens: the least and the most that an answer of the performance run has on
            average; empty: no limits.
    """

    known_by: tuple[str, ...]
    figures: Mapping[str, str] = field(default_factory=dict)
    score_keys: Mapping[str, str] = field(default_factory=dict)
    score_factor: float = 1.0
    score_checked: bool = False
    audit_tests: Mapping[str, str] = field(default_factory=dict)
    mean_output_tokens: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EndpointsRules:
    """The rules for results of mlcommons/endpoints.

    Attributes:
        seeds: setting of config.yaml → the round's seed that it must have.
        scenarios, figures, models: by name.
    """

    seeds: Mapping[str, str]
    scenarios: Mapping[str, EndpointsScenario]
    figures: Mapping[str, EndpointsFigure]
    models: Mapping[str, EndpointsModel]
