"""The numbers of result.json, computed from the log, the record and the worker's outcome.

Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from formats.cell import UNKNOWN
from formats.figures import MOST_IN_ONE_PART, TOKEN_BYTES, Figure
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Metric
from results import computing
from results.computing import Metrics

if TYPE_CHECKING:
    from compliance.logs import Detail  # imports numpy, which `list` does not need

_PERCENTILES = {"p50": "50.00", "p90": "90.00", "p99": "99.00"}
LATENCIES = {
    "latency_mean_ms": "result_mean_latency_ns",
    **{f"latency_{p}_ms": f"result_{of}_percentile_latency_ns" for p, of in _PERCENTILES.items()},
}
"""Name in `metrics` → key of LoadGen's detail log."""
_OF_QUERIES = {
    f"latency_{p}_ms": f"result_{of}_percentile_per_query_latency_ns"
    for p, of in _PERCENTILES.items()
} | {"latency_mean_ms": "result_mean_query_latency_ns"}
"""The same of MultiStream, whose queries have several samples."""
TOKEN_LATENCIES = {
    **{
        f"ttft_{p}_ms": f"result_first_token_{of}_percentile_latency_ns"
        for p, of in _PERCENTILES.items()
    },
    **{
        f"tpot_{p}_ms": f"result_time_per_output_token_{of}_percentile_ns"
        for p, of in _PERCENTILES.items()
    },
}
"""The same of a streamed answer, by LoadGen's definitions (loadgen.cc, results.cc): `ttft` is the
time from the request to its first token, and `tpot` that after the first token, divided by the
number of later tokens. LoadGen has none of Offline.
"""


LATER_TOKENS = "tpot"
"""The beginning of the names of the times per later token."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The numbers of one test, as in the fields of `Result` with the same names.

    `exceeded`: see `computing.Computing`.
    """

    metric: Metric | None
    metrics: Metrics = field(default_factory=dict)
    measured: Metrics = field(default_factory=dict)
    exceeded: Metrics = field(default_factory=dict)


def of_loadgen(
    log: Detail, record: Record, outcome: WorkerOutcome, figure: Figure, passes: float | None
) -> Figures:
    """The numbers of a performance test that LoadGen drove.

    Args:
        passes: as in `computing.of`.
    """
    measured = _measured(log, record, outcome, figure)
    metrics: dict[str, float] = {}
    if not figure.one_query:
        metrics |= _milliseconds(log, LATENCIES)
        metrics |= _milliseconds(log, _OF_QUERIES)
    # The worker timed those of Offline: `ttft` is the time from the beginning of a batch.
    of_worker = {name: value / 1e6 for name, value in outcome.token_latencies.items()}
    token_latencies = _milliseconds(log, TOKEN_LATENCIES) or of_worker
    metrics |= {
        name: value
        for name, value in token_latencies.items()
        if outcome.in_one_part <= MOST_IN_ONE_PART or not name.startswith(LATER_TOKENS)
    }
    metrics |= _serving(log, outcome)
    rate = _rate(log, outcome)
    used = computing.Computing()
    if rate:
        # Without the padding of a data set's last batch.
        batch: float = record.cell.batch_size
        if measured:
            batch = measured["samples"] / measured["batches"]
        metrics |= _rates(rate, batch, record, measured)
        tokens = record.new_tokens_per_sample
        if "tokens" in measured:
            tokens = measured["tokens"] / measured["samples"]
        used = computing.of(
            record,
            outcome,
            samples_per_second=rate,
            batch=outcome.queue.mean_batch if outcome.queue else batch,
            tokens=tokens,
            passes=passes,
        )
        metrics |= used.metrics
    metrics |= _joules(outcome, int(measured.get("samples", 0)))
    metrics |= _operators(outcome)
    metrics |= _compiling(record, outcome)
    metrics |= _first_answer(record, outcome)
    return Figures(
        metric=metric_of(log, figure),
        metrics=metrics,
        measured=measured,
        exceeded=used.exceeded,
    )


def _milliseconds(log: Detail, keys: Mapping[str, str]) -> Metrics:
    found = {name: log.get(key) for name, key in keys.items()}
    return {name: value / 1e6 for name, value in found.items() if value is not None}


def _serving(log: Detail, outcome: WorkerOutcome) -> Metrics:
    """Requests a second as they were issued (`issued_per_second`), answered
    (`achieved_per_second`), and answered within the limits (`goodput_per_second`). Empty if
    requests did not arrive over time.
    """
    achieved = log.get("result_completed_samples_per_sec")
    queue = outcome.queue
    if achieved is None or queue is None:
        return {}
    # LoadGen counts whole answers from the times at which requests were due. It has no count for
    # tokens, so the worker's share, from their issue, is used.
    good_share = queue.good_fraction
    over = log.get("result_overlatency_query_count")
    count = log.get("result_query_count")
    if over is not None and count and not outcome.token_latencies:
        good_share = 1 - over / count
    calibration = outcome.calibration
    capacity = {}
    if calibration.get("saturated", True):
        capacity["capacity_per_second"] = 1e9 / calibration["median_sample_ns"]
    return {
        "issued_per_second": log.get("result_scheduled_samples_per_sec"),
        "achieved_per_second": achieved,
        "goodput_per_second": achieved * good_share,
        **capacity,
        "requests_a_batch": queue.mean_batch,
        "requests_waiting": queue.mean_waiting,
        "requests_waiting_most": queue.most_waiting,
    }


def _rate(log: Detail, outcome: WorkerOutcome) -> float | None:
    """Samples a second. LoadGen logs no rate of MultiStream."""
    for key in (
        "result_samples_per_second",
        "result_qps_without_loadgen_overhead",
        "result_completed_samples_per_sec",
    ):
        if log.get(key):
            return float(log.get(key))
    samples = outcome.answered.get("samples")
    return samples / outcome.test_ns * 1e9 if samples and outcome.test_ns else None


def of_training(
    rates: Metrics,
    *,
    samples: int,
    batches: int,
    record: Record,
    outcome: WorkerOutcome,
    figure: Figure,
    passes: float | None,
) -> Figures:
    """The numbers of a training's timed run.

    Args:
        rates: `samples_per_second` and other rates computed from the times of its steps.
        samples, batches: the timed samples and batches.
        passes: as in `of_loadgen`.
    """
    rate = rates["samples_per_second"]
    metrics = dict(rates)
    if tokens := record.cell.seq_len:  # with padding tokens, which are computed like the others
        metrics["tokens_per_second"] = tokens * rate
    used = computing.of(
        record,
        outcome,
        samples_per_second=rate,
        batch=record.cell.batch_size,
        tokens=None,
        passes=passes,
    )
    metrics |= used.metrics
    metrics |= _joules(outcome, samples)
    metrics |= _compiling(record, outcome)
    metric = Metric(figure.name, metrics[figure.name], figure.unit, figure.higher_is_better)
    return Figures(
        metric=metric,
        metrics=metrics,
        measured={"samples": samples, "batches": batches, "padding_fraction": 0},
        exceeded=used.exceeded,
    )


def metric_of(log: Detail, figure: Figure) -> Metric | None:
    """The figure, from the first of its estimates that has a value; None if none has one."""
    streamed = log.get("requested_use_token_latencies") is True
    for key, estimate in figure.estimates.items():
        # With token latencies LoadGen logs the estimate of the first token under these keys.
        if streamed and key.startswith("early_stopping"):
            continue
        value = log.get(key)
        # LoadGen writes a latency of 0 if it has too few queries for its estimate.
        if value or (value == 0 and figure.higher_is_better):
            if streamed and estimate == "percentile":
                estimate = "plain percentile"
            return Metric(
                figure.name, value / figure.divisor, figure.unit, figure.higher_is_better, estimate
            )
    return None


def _measured(log: Detail, record: Record, outcome: WorkerOutcome, figure: Figure) -> Metrics:
    """The counts that the figure is computed from. A padded batch costs as much as a full one, so
    rows without a sample are counted.
    """
    samples = outcome.answered.get("samples", 0)
    if not samples:
        return {}
    size = record.cell.batch_size
    batches = -(-samples // size)
    measured: dict[str, float] = {"samples": samples, "batches": batches}
    measured["padding_fraction"] = 1 - samples / (batches * size)
    loaded = log.get("effective_performance_sample_count")
    # In other tests samples are drawn, so some come more often than others.
    in_passes = figure.one_query or log.get("effective_sample_concatenate_permutation") is True
    if loaded and in_passes:
        measured["passes"] = samples / loaded
    if record.new_tokens_per_sample is not None:
        measured["tokens"] = outcome.answered["payload_bytes"] // TOKEN_BYTES
    return measured


def _rates(rate: float, batch: float, record: Record, measured: Metrics) -> Metrics:
    """The rates of a test. `ms_per_step` is the time of one batch, the published benchmark's unit.
    `ms_per_denoising_step` is for a model that creates images in steps. Tokens are those of the
    answers.
    """
    ms_per_step = 1000 * batch / rate * record.cell.replica_count
    rates = {"samples_per_second": float(rate), "ms_per_step": ms_per_step}
    if steps := record.qsl.denoising_steps:
        rates["ms_per_denoising_step"] = rates["ms_per_step"] / steps
    if "tokens" in measured:
        rates["tokens_per_second"] = rate * measured["tokens"] / measured["samples"]
    return rates


def first_calls_seconds(outcome: WorkerOutcome) -> float:
    """Return the seconds that the first batches of all shapes took more than warm ones."""
    warm_ns = second_ns(outcome)
    pairs = zip(outcome.warmup, warm_ns, strict=True)
    return sum(max(0, shape["first_ns"] - second) for shape, second in pairs) / 1e9


def second_ns(outcome: WorkerOutcome) -> tuple[int, ...]:
    """Return the nanoseconds of a warm batch of each shape of the warm-up. A shape that ran once
    has those of a calibrated batch.
    """
    calibrated_ns = outcome.calibration.get("median_sample_ns", 0)
    return tuple(
        shape.get("second_ns", int(calibrated_ns * shape.get("size", 1)))
        for shape in outcome.warmup
    )


def compiles(outcome: WorkerOutcome) -> bool:
    """Whether the SUT ran compiled programs."""
    return bool(outcome.evidence_after and outcome.evidence_after.graphs)


def _compiling(record: Record, outcome: WorkerOutcome) -> Metrics:
    """`compile_seconds`: how long the programs took to compile, when none of them was on disk.
    `cached_compile_seconds`: the same when some were. Empty if the SUT does not compile.
    """
    if not compiles(outcome):
        return {}
    seconds = first_calls_seconds(outcome)
    if not outcome.cache_hits:
        return {"compile_seconds": seconds}
    cached = {"cached_compile_seconds": seconds}
    if record.first_compile_seconds is None:
        return cached
    return {"compile_seconds": record.first_compile_seconds, **cached}


def _first_answer(record: Record, outcome: WorkerOutcome) -> Metrics:
    """`first_answer_seconds`: the time in which the worker imported the framework, loaded the model
    and answered its first batch, if no program was on disk or nothing is compiled.
    `cached_first_answer_seconds`: the same if all programs were on disk, and
    `partly_cached_first_answer_seconds` if only some were. Empty for an engine, which was started
    elsewhere.
    """
    if not outcome.warmup or record.cell.precision == UNKNOWN:
        return {}
    seconds = (outcome.import_ns + outcome.load_ns + outcome.warmup[0]["first_ns"]) / 1e9
    if not outcome.cache_hits:
        return {"first_answer_seconds": seconds}
    state = "partly_cached" if outcome.cache_misses else "cached"
    return {f"{state}_first_answer_seconds": seconds}


def _joules(outcome: WorkerOutcome, samples: int) -> Metrics:
    joules = outcome.energy.joules if outcome.energy and samples else {}
    return {
        f"joules_per_sample_{source.replace(' ', '_').replace('-', '_')}": value / samples
        for source, value in joules.items()
    }


def _operators(outcome: WorkerOutcome) -> Metrics:
    """How many operators Python calls for a forward pass of an eager SUT. Empty for compiled code,
    and if they were not counted.
    """
    detail = outcome.evidence_after.detail if outcome.evidence_after else {}
    passes, called = detail.get("forward_passes"), detail.get("operators_called")
    if compiles(outcome) or not passes or called is None:
        return {}
    return {"operators_per_pass": called / passes}
