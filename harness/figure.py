"""The figure of a result: which one SUTs are compared by, and how people read a number."""

from __future__ import annotations

from formats.result import Metric, Result
from scenarios.table import SCENARIOS


def compared(result: Result) -> Metric | None:
    """The figure by which SUTs are compared.

    In SingleStream it is the median latency. Elsewhere it is LoadGen's figure, or that of a
    training. An older result of SingleStream may have no median: its figure is LoadGen's, and no
    other result is compared with it.
    """
    scenario = SCENARIOS.get(result.cell.scenario)
    key = scenario.compared if scenario else ""
    if result.metric is None or key not in result.metrics:
        return result.metric
    name = key.removesuffix("_ms")
    return Metric(name, result.metrics[key], "ms", higher_is_better=False, estimate="median")


def short(value: float | None) -> str:
    """A figure as people read it: four digits, or a whole number where it has more; empty where
    there is none.
    """
    return "" if value is None else f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
