"""The kinds of latency that LoadGen logs, and their keys in the detail log (loadgen/results.cc,
LogDetail). All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from compliance.logs import Detail

# The percentiles that LoadGen logs: the name of each (results.h) → the same as a fraction.
PERCENTILES = {
    "50.00": 0.5,
    "90.00": 0.9,
    "95.00": 0.95,
    "97.00": 0.97,
    "99.00": 0.99,
    "99.90": 0.999,
}


@dataclass(frozen=True, kw_only=True)
class LatencyKeys:
    """The keys of one kind of latency.

    Attributes:
        name: the name of the kind in sentences.
        percentile: the key of a percentile, with {} for its name (for example 99.00).
        limit: the key of the limit on Server's percentile; empty: there is none.
        result: the key of early stopping's sentence about it.
    """

    name: str
    minimum: str
    percentile: str
    maximum: str
    mean: str
    limit: str = ""
    result: str = ""

    def percentiles(self, log: Detail) -> list[tuple[str, float, float]]:
        """(key, fraction, value) of the minimum (fraction 0), each percentile and the maximum (1),
        ascending. Values that are no number are left out.
        """
        keys = [
            (self.minimum, 0.0),
            *((self.percentile.format(p), share) for p, share in PERCENTILES.items()),
            (self.maximum, 1.0),
        ]
        return [
            (key, share, value) for key, share in keys if (value := log.number(key)) is not None
        ]


def _latency(limit: str, result: str) -> LatencyKeys:
    return LatencyKeys(
        name="latency",
        minimum="result_min_latency_ns",
        percentile="result_{}_percentile_latency_ns",
        maximum="result_max_latency_ns",
        mean="result_mean_latency_ns",
        limit=limit,
        result=result,
    )


SAMPLES = _latency("effective_target_latency_ns", "early_stopping_result")
QUERIES = LatencyKeys(
    name="latency of queries",
    minimum="result_min_query_latency_ns",
    percentile="result_{}_percentile_per_query_latency_ns",
    maximum="result_max_query_latency_ns",
    mean="result_mean_query_latency_ns",
)
FIRST_TOKENS = LatencyKeys(
    name="latency of the first token",
    minimum="result_first_token_min_latency_ns",
    percentile="result_first_token_{}_percentile_latency_ns",
    maximum="result_first_token_max_latency_ns",
    mean="result_first_token_mean_latency_ns",
    limit="requested_server_ttft_latency",
    result="early_stopping_ttft_result",
)
LATER_TOKENS = LatencyKeys(
    name="time of a later token",
    minimum="result_time_to_output_token_min",
    percentile="result_time_per_output_token_{}_percentile_ns",
    maximum="result_time_to_output_token_max",
    mean="result_time_to_output_token_mean",
    limit="requested_server_tpot_latency",
    result="early_stopping_tpot_result",
)
