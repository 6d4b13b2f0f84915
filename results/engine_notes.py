"""The evidence of an engine in words. It reports what the engine says of itself, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from formats.job import Calibration

_SPARE_TOKENS = 2
"""A larger difference of an answer's tokens is reported."""


def sentence(detail: Mapping[str, Any], calibration: Calibration) -> str:
    """The engine in one line: address, server, version, model, network distance, and the requests
    that Offline kept in flight.
    """
    facts = [f"an engine at {detail.get('url')}"]
    for name in ("server", "version", "model"):
        if name in detail:
            facts.append(f"{name} {detail[name]}")
    settings = detail.get("engine_settings", {})
    if settings:
        facts.append("settings " + " ".join(f"{name}={value}" for name, value in settings.items()))
    facts.append(f"prompts sent as {detail.get('prompts')}")
    network_ms = detail.get("network_ms")
    if network_ms is not None:
        facts.append(f"an empty request takes {network_ms:.3g} ms")
    if "in_flight" in calibration and "rate" not in calibration:
        facts.append(f"{calibration['in_flight']:,.0f} requests in flight")
    return f"{', '.join(facts)}; its execution and precision are not known"


def warnings(detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on short answers and on the counts of tokens, which are the engine's and ours.

    Args:
        detail: of the evidence.
    """
    most = detail.get("largest_difference_of_tokens", 0)
    ours = detail.get("tokens", 0)
    if most > _SPARE_TOKENS:
        engines = detail["tokens_by_engine"]
        yield (
            f"the engine counts {engines:,} tokens where the tokenizer of --weights counts"
            f" {ours:,}; in one answer they differ by {most}"
        )
    short = detail.get("answers_cut_short", 0)
    if short:
        yield (
            f"{short / detail['answers']:.0%} of the answers ended for their length, before"
            " they had the requested tokens: prompt and answer are longer than the engine's"
            " window, or it has a limit of its own"
        )
    reasoning = detail.get("answers_with_reasoning", 0)
    if reasoning:
        yield (
            f"{reasoning / detail['answers']:.0%} of the answers begin with reasoning, which counts"
            " as their text; the marks around it are not sent, so answers can be judged only if"
            " the engine runs without a parser of reasoning"
        )
    if detail.get("answers_without_usage"):
        yield (
            "the engine reports no usage, so the tokens are only those that the tokenizer of"
            " --weights makes of its texts"
        )
    other = detail.get("prompts_of_other_length", 0)
    if other:
        yield (
            f"{other} of {detail['prompts_counted_by_engine']} prompts have another number of"
            " tokens by the engine's count: it has another tokenizer or chat template, or adds"
            " a mark"
        )
    settings = detail.get("engine_settings", {})
    if settings.get("enable_prefix_caching") == "True":
        yield (
            "the engine keeps what it has computed of earlier prompts, so prompts that begin alike"
            " are faster than others: start vLLM with --no-enable-prefix-caching"
        )
    if settings.get("cache_dtype", "auto") not in ("auto", "float32"):
        yield f"the engine keeps keys and values in {settings['cache_dtype']}"
    yield (
        "an engine on this machine looks like any other program, so a disturbance by other"
        " programs is not noticed"
    )
