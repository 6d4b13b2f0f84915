"""How many queries and samples a detail log is of. Pure."""

from __future__ import annotations

from compliance.logs import Detail

# Far more than a query of several samples ever had.
_MOST_EACH = 1 << 16


def each(d: Detail, scenario: str) -> int:
    """Samples of one of MultiStream's queries, which are neighbours in the loaded set; other scenarios draw samples one by one."""
    found = d.get("effective_samples_per_query")
    return found if scenario == "MultiStream" and type(found) is int and 0 < found <= _MOST_EACH else 1


def samples(d: Detail, scenario: str) -> float | None:
    """Samples of a performance test."""
    if scenario == "Offline":
        return d.number("generated_samples_per_query")
    queries = d.number("result_query_count")
    return None if queries is None else queries * each(d, scenario)


def tokens(d: Detail) -> bool:
    """Whether LoadGen was told of tokens and took the latencies of the first and of each."""
    return d.get("requested_use_token_latencies") is True


def own(loaded: list[int], d: Detail, scenario: str) -> list[int]:
    """A loaded set without the samples that MultiStream has behind its last one again (GenerateLoadableSets)."""
    again = each(d, scenario) - 1
    return loaded[: len(loaded) - again] if again else loaded
