"""How the requests of Server and Interactive arrive and are judged: flags → `Serving`, with the
round's limits as defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from compliance.rules import Rules
from formats.job import Serving
from harness.errors import UsageError
from harness.inputs.models import Model
from harness.request.options import Options, flag
from scenarios.table import SCENARIOS

OF_SERVING = ("max_latency_ms", "max_ttft_ms", "max_tpot_ms", "max_wait_ms", "rate")
LIMITS = OF_SERVING[:3]
_LONGEST_MS = 1e9
"""The longest limit. LoadGen's nanoseconds overflow at 9e12 ms."""
QUICK_S = 10.0
OFFICIAL_S = 60.0
"""The least seconds of a trial by default: of a quick test, and of a longer one."""
USUAL_TRIALS = 6
_EARLIER_MS = {"bert-99": 130.0}
"""Limits of benchmarks that had Server in earlier rounds (bert-99: up to v5.0)."""
_QUICK_PERCENTILE = 90.0
"""A quick test has too few requests for the 99th percentile: early stopping needs 459."""


def of(
    options: Options, stream: bool, model: Model, rules: Rules, reasons: list[str]
) -> Serving | None:
    """Return how requests are served. None if the scenario has no arrivals.

    Args:
        stream: whether token latencies are measured.
        model: the official benchmark that is run, or to which the model is mapped, gives the limits
            that no flag gives.

    Raises UsageError for a flag of another scenario, and if no limit is known.
    """
    given = {
        name: getattr(options, name) for name in OF_SERVING if getattr(options, name) is not None
    }
    if not SCENARIOS[options.scenario].serves:
        for name, value in given.items():
            raise UsageError(
                f"{flag(name)} {value:g}: is for --scenario Server or Interactive, in which"
                " requests arrive over time: leave it out"
            )
        return None
    for name, value in given.items():
        may_be_0 = name == "max_wait_ms"
        if not 0 <= value < math.inf or (value == 0 and not may_be_0):
            least = "from 0 on" if may_be_0 else "above 0"
            raise UsageError(f"{flag(name)} {value:g}: give a finite number {least}")
        if name in LIMITS:
            _check_limit(flag(name), value, options.mode)
    limits = _limits(options, stream, model, rules, reasons)
    quick = options.mode == "quick"
    if "rate" not in given:
        length_s = (options.duration or QUICK_S) if quick else OFFICIAL_S
        reasons.append(
            f"the highest rate is found first, in about {USUAL_TRIALS} trials of {length_s:g}"
            " s or more (--rate gives one)"
        )
    return Serving(
        max_wait_ms=given.get("max_wait_ms", 0.0),
        percentile=_QUICK_PERCENTILE if quick else rules.scenarios["Server"].percentile,
        rate=given.get("rate"),
        **limits,
    )


def _check_limit(name: str, limit_ms: float, mode: str) -> None:
    """Raise UsageError for a limit that LoadGen can't judge by.

    In mode quick the harness sets nanoseconds. In other modes user.conf has to state the limit, and
    LoadGen cuts it to whole milliseconds (test_settings_internal.cc, FromConfig).
    """
    if limit_ms > _LONGEST_MS:
        raise UsageError(f"{name} {limit_ms:g}: give at most {_LONGEST_MS:.0f}")
    if mode == "quick":
        if round(limit_ms * 1e6) / 1e6 != limit_ms:
            raise UsageError(
                f"{name} {limit_ms}: LoadGen counts whole nanoseconds: give at most six decimals"
            )
    elif not limit_ms.is_integer():
        raise UsageError(
            f"{name} {limit_ms}: in mode {mode} user.conf has to state the limit, and LoadGen cuts"
            f" it to whole milliseconds: give {math.ceil(limit_ms)}, or --mode quick"
        )


def streams(options: Options, generates: bool, required: bool = False) -> bool:
    """Whether token latencies are measured: they are requested, limited or required. MLPerf's
    limits of Interactive are of tokens.

    Args:
        generates: whether the model generates tokens.
        required: whether the benchmark of `--benchmark` requires them.

    Raises UsageError for flags that contradict each other.
    """
    limited = options.max_ttft_ms is not None or options.max_tpot_ms is not None
    stream = options.stream
    if limited and stream == "off":
        raise UsageError(
            "--stream off: --max-ttft-ms and --max-tpot-ms need streamed answers: leave it out"
        )
    if stream is not None or limited:
        return stream == "on" or limited
    if required:
        return True
    return options.scenario == "Interactive" and generates and options.max_latency_ms is None


def _limits(
    options: Options, stream: bool, model: Model, rules: Rules, reasons: list[str]
) -> Mapping[str, float | None]:
    tokens = {"max_ttft_ms": options.max_ttft_ms, "max_tpot_ms": options.max_tpot_ms}
    max_latency_ms = options.max_latency_ms
    if max_latency_ms is not None:
        if stream:
            raise UsageError(
                f"--max-latency-ms {max_latency_ms:g}: LoadGen judges a streamed answer by"
                " its first token and its later tokens: give --max-ttft-ms and --max-tpot-ms"
                " instead, or leave --stream out"
            )
        return {"max_latency_ms": max_latency_ms}
    if any(limit is not None for limit in tokens.values()):
        return tokens
    official = options.benchmark or model.benchmark.get(rules.round, "")
    # A benchmark for edge systems has no Server; that of datacenters with the same model has.
    official = official.removesuffix("-edge")
    for name, limit_ms in _of_round(options.scenario, stream, official, rules):
        tokens[name] = limit_ms
    found = {name: limit for name, limit in tokens.items() if limit is not None}
    if not found:
        wanted = "--max-ttft-ms and --max-tpot-ms" if stream else "--max-latency-ms"
        raise UsageError(
            f"--scenario {options.scenario}: the round has no limit of latency for this model: give"
            f" {wanted}"
        )
    texts = [f"{flag(name)} {limit:g}" for name, limit in found.items()]
    reasons.append(f"{' '.join(texts)}: the limits of {official} in the round")
    return found


def _of_round(
    scenario: str, stream: bool, official: str, rules: Rules
) -> Iterator[tuple[str, float]]:
    """Yield the round's limits for the model's benchmark, by the names of `Serving`."""
    row = rules.benchmarks.get(official)
    if row is None:
        return
    if stream:
        for kind, limit_ns in row.token_latency_ns.get(scenario, {}).items():
            yield f"max_{kind}_ms", limit_ns / 1e6
    elif scenario in row.latency_ns:
        yield "max_latency_ms", row.latency_ns[scenario] / 1e6
    elif scenario == "Server" and official in _EARLIER_MS:
        yield "max_latency_ms", _EARLIER_MS[official]
