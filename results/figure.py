"""The figure by which SUTs are compared, and numbers rounded for people."""

from __future__ import annotations

from formats.result import Metric, Result
from scenarios.table import SCENARIOS


def compared(result: Result) -> Metric | None:
    """The figure by which SUTs are compared.

    In SingleStream and MultiStream it is the median latency, and so it is at a rate of requests
    that was given. In other scenarios, and without a median, it is LoadGen's figure, or that of a
    training.
    """
    scenario = SCENARIOS.get(result.cell.scenario)
    key = scenario.compared if scenario else ""
    if result.cell.rate is not None:
        key = "latency_p50_ms"
    if result.metric is None or key not in result.metrics:
        return result.metric
    name = key.removesuffix("_ms")
    return Metric(name, result.metrics[key], "ms", higher_is_better=False, estimate="median")


def calls_until_paid(compile_seconds: float | None, saved_seconds: float) -> float | None:
    """Return the number of calls whose saved time is the time of compiling.

    Args:
        saved_seconds: the time of an eager call minus that of a compiled one.

    None: no time is saved, or the time of compiling is not known.
    """
    if compile_seconds is None or saved_seconds <= 0:
        return None
    return max(1.0, compile_seconds / saved_seconds)


def with_facts(name: str, facts: str) -> str:
    """The name of a model with its facts: `bert mid (6 layers of 384, 22.7 M parameters)`."""
    return f"{name} ({facts})" if facts else name


def short(value: float | None) -> str:
    """A figure with four digits, or as a whole number if it has more. Empty for None."""
    return "" if value is None else f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
