"""The one number of each scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOKEN_BYTES = 4
MOST_IN_ONE_PART = 0.1
"""If a larger share of the answers came in one part, the time per later token cannot be seen."""
NOT_SEEN = "time per token cannot be seen: {share:.0%} of the answers came in one part"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The one number of a scenario, and how a result states it.

    Attributes:
        name, unit: the name and unit in result.json.
        higher_is_better: whether a higher value means faster.
        estimates: key of LoadGen's detail log → how that number is estimated; the first key with a
            value is used.
        divisor: LoadGen's value divided by this is in `unit`.
        one_query: whether all samples come in one query; else each query has a latency.
    """

    name: str
    unit: str
    higher_is_better: bool
    estimates: Mapping[str, str]
    divisor: float = 1.0
    one_query: bool = True


FIGURES = {
    "Offline": Figure(
        name="samples_per_second",
        unit="samples/s",
        higher_is_better=True,
        estimates={"result_samples_per_second": "mean"},
    ),
    "SingleStream": Figure(
        name="latency_p90",
        unit="ms",
        higher_is_better=False,
        estimates={
            "early_stopping_latency_ss": "early stopping",
            "result_90.00_percentile_latency_ns": "percentile",
        },
        divisor=1e6,
        one_query=False,
    ),
    "MultiStream": Figure(
        name="latency_p99",
        unit="ms",
        higher_is_better=False,
        estimates={
            "early_stopping_latency_ms": "early stopping",
            "result_99.00_percentile_per_query_latency_ns": "percentile",
        },
        divisor=1e6,
        one_query=False,
    ),
    **{
        name: Figure(
            name="requests_per_second",
            unit="requests/s",
            higher_is_better=True,
            estimates={"effective_target_qps": "rate"},
            one_query=False,
        )
        for name in ("Server", "Interactive")
    },
    "Fit": Figure(name="ms_per_step", unit="ms/step", higher_is_better=False, estimates={}),
}
"""Scenario → its figure."""
