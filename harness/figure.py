"""The figure by which SUTs are compared, and numbers rounded for people."""

from __future__ import annotations

from formats.result import Metric, Result
from scenarios.table import SCENARIOS


def compared(result: Result) -> Metric | None:
    """The figure by which SUTs are compared.

    In SingleStream and MultiStream it is the median latency, and so it is at a rate of requests
    that was given. In other scenarios it is LoadGen's figure, or that of a training. An older
    result of SingleStream may have no median. Then the figure is LoadGen's, and no other result is
    compared with it.
    """
    scenario = SCENARIOS.get(result.cell.scenario)
    key = scenario.compared if scenario else ""
    if result.cell.rate is not None:
        key = "latency_p50_ms"
    if result.metric is None or key not in result.metrics:
        return result.metric
    name = key.removesuffix("_ms")
    return Metric(name, result.metrics[key], "ms", higher_is_better=False, estimate="median")


def short(value: float | None) -> str:
    """A figure with four digits, or as a whole number if it has more. Empty for None."""
    return "" if value is None else f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
