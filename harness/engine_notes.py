"""The evidence of an engine in words. It reports what the engine says of itself, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.messages import Note

_SPARE_TOKENS = 2
"""A larger difference of an answer's tokens is reported."""


def sentence(detail: Mapping[str, Any], calibration: Mapping[str, float]) -> str:
    """The engine in one line: address, server, version, model, network distance, and the requests
    that Offline kept in flight.
    """
    facts = [f"an engine at {detail.get('url')}"]
    for name in ("server", "version", "model"):
        if name in detail:
            facts.append(f"{name} {detail[name]}")
    facts.append(f"prompts sent as {detail.get('prompts')}")
    network_ms = detail.get("network_ms")
    if network_ms is not None:
        facts.append(f"an empty request takes {network_ms:.3g} ms")
    if "in_flight" in calibration and "rate" not in calibration:
        facts.append(f"{calibration['in_flight']:,.0f} requests in flight")
    return f"{', '.join(facts)}; its execution and precision are not known"


def warnings(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on short answers and on the counts of tokens, which are the engine's and ours.

    Args:
        evidence: `Result.evidence`.
    """
    detail = evidence.get("after", {}).get("detail", {})
    most = detail.get("largest_difference_of_tokens", 0)
    ours = detail.get("tokens", 0)
    if most > _SPARE_TOKENS:
        engines = detail["tokens_by_engine"]
        yield Note.ENGINE_TOKENS.format(engines=engines, ours=ours, most=most)
    short = detail.get("answers_cut_short", 0)
    if short:
        yield Note.ENGINE_SHORT.format(share=short / detail["answers"])
    if detail.get("answers_without_usage"):
        yield Note.ENGINE_NO_USAGE
    other = detail.get("prompts_of_other_length", 0)
    if other:
        yield Note.ENGINE_PROMPTS.format(other=other, all=detail["prompts_counted_by_engine"])
    yield Note.ENGINE_LOAD
