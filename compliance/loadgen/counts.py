"""How many queries and samples a detail log is of, which sets were loaded, and from which seeds. Pure."""

from __future__ import annotations

from compliance.logs import Detail

# Far more than a query of several samples ever had.
_MOST_EACH = 1 << 16


def samples_per_query(detail: Detail, scenario: str) -> int:
    """Samples of one of MultiStream's queries, which are neighbours in the loaded set; other scenarios draw samples one by one."""
    found = detail.get("effective_samples_per_query")
    return found if scenario == "MultiStream" and type(found) is int and 0 < found <= _MOST_EACH else 1


def samples(detail: Detail, scenario: str) -> float | None:
    """Samples of a performance test."""
    if scenario == "Offline":
        return detail.number("generated_samples_per_query")
    queries = detail.number("result_query_count")
    return None if queries is None else queries * samples_per_query(detail, scenario)


def has_token_latencies(detail: Detail) -> bool:
    """Whether LoadGen was told of tokens and took the latencies of the first and of each."""
    return detail.get("requested_use_token_latencies") is True


def without_wraparound(loaded: list[int], detail: Detail, scenario: str) -> list[int]:
    """A loaded set without the samples that MultiStream has behind its last one again (GenerateLoadableSets)."""
    again = samples_per_query(detail, scenario) - 1
    return loaded[: len(loaded) - again] if again else loaded


def min_queries_met(detail: Detail, scenario: str) -> bool | None:
    queries, issued = detail.number("result_query_count"), samples(detail, scenario)
    least_queries, least_samples = detail.number("effective_min_query_count"), detail.number("effective_min_sample_count")
    if queries is None or issued is None or least_queries is None or least_samples is None:
        return None
    return queries >= least_queries and issued >= least_samples


def logged_sets(detail: Detail, scenario: str) -> list[list[int]] | None:
    """Those loaded, of indices, and each as long as a query; None: they are not."""
    found, least = detail.all("loaded_qsl_set"), samples_per_query(detail, scenario)
    good = found and all(
        isinstance(one, list) and len(one) >= least and all(type(i) is int and 0 <= i < 1 << 40 for i in one) for one in found
    )
    return found if good else None


def logged_count(detail: Detail, key: str, at_most: int = 1 << 32) -> int | None:
    """A count LoadGen logged, if it is one."""
    value = detail.get(key)
    return value if type(value) is int and 0 < value <= at_most else None


def logged_seed(detail: Detail, key: str) -> int | None:
    value = detail.get(f"effective_{key}")
    return value if type(value) is int and value >= 0 else None


def batches(detail: Detail, scenario: str, batch_size: object) -> tuple[int | None, int | None]:
    """(samples, batches) of a performance test; None: the log does not tell, or what is given is no batch size."""
    found = samples(detail, scenario)
    if found is None or not 0 < found < 1 << 53 or type(batch_size) is not int or batch_size < 1:
        return None, None
    return int(found), -(-int(found) // batch_size)
