"""How much of the machine's speed a cell uses: its operations and bytes a second, and their
shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.work import (
    ITEM_BYTES,
    LEAST_BINDING,
    MATRIX_PRODUCTS,
    MEMORY,
    NEITHER,
    QUANTIZED_BYTES,
    Roof,
)

Metrics = Mapping[str, float]
"""Name of a number in `Result.metrics` or `Result.measured` → the number."""
BINDING = {"matrix_share": MATRIX_PRODUCTS, "bandwidth_share": MEMORY}
"""Name of a share → the limit of the machine that it is a share of."""


@dataclass(frozen=True, kw_only=True)
class Computing:
    """The figures of a cell.

    Attributes:
        metrics: `flops_per_second`: the operations a second. They are those of the record's `work`,
            with `bytes_per_second`, the bytes that batches must move a second, and
            `flops_per_byte`. Without `work` they are the record's `least_flops`. `matrix_share`:
            operations a second over those of a large matrix product of the same framework.
            `bandwidth_share`: bytes a second over those that the same framework reads.
        exceeded: name of a share that is above 1 → its value. It is not in `metrics`.
    """

    metrics: Metrics = field(default_factory=dict)
    exceeded: Metrics = field(default_factory=dict)


def of(
    record: Record,
    outcome: WorkerOutcome,
    *,
    samples_per_second: float,
    batch: float,
    tokens: float | None,
    passes: float | None,
) -> Computing:
    """Return the figures of a cell. They are empty if its operations are not known.

    Args:
        batch: the samples of a batch, on average.
        tokens: the tokens of an answer, on average; None: no tokens are generated.
        passes: how many times `least_flops` one sample takes; None: `least_flops` has too few of
            the operations.
    """
    rates = _counted(record, samples_per_second, batch, tokens)
    if not rates and record.least_flops and passes is not None:
        rates = {"flops_per_second": record.least_flops * samples_per_second * passes}
    devices = _devices(record)
    roof = _roof(record)
    limits = {
        "matrix_share": _matrix_flops(record, outcome),
        "bandwidth_share": roof.read_bytes_per_second * devices if roof else None,
    }
    reached = {
        "matrix_share": rates.get("flops_per_second"),
        "bandwidth_share": rates.get("bytes_per_second"),
    }
    shares: dict[str, float] = {}
    for name, rate in reached.items():
        limit = limits[name]
        if rate and limit:
            shares[name] = rate / limit
    exceeded = {name: share for name, share in shares.items() if share > 1}
    possible = {name: share for name, share in shares.items() if share <= 1}
    return Computing(metrics={**rates, **possible}, exceeded=exceeded)


def _counted(
    record: Record, samples_per_second: float, batch: float, tokens: float | None
) -> Metrics:
    """Return the rates of the counted work; empty if it is not known."""
    item_bytes = ITEM_BYTES.get(record.cell.precision)
    if record.work is None or item_bytes is None or record.digests.weights_source == "none":
        return {}
    sample = record.work.of_sample(tokens)
    flops = sample.all_flops
    weight_bytes = QUANTIZED_BYTES if record.cell.quantized else item_bytes
    moved_bytes = sample.moved_bytes(batch, item_bytes, weight_bytes)
    return {
        "flops_per_second": flops * samples_per_second,
        "bytes_per_second": moved_bytes * samples_per_second,
        "flops_per_byte": flops / moved_bytes,
    }


def _matrix_flops(record: Record, outcome: WorkerOutcome) -> float | None:
    """The operations a second of a large matrix product: those of the measured limits, else those
    that the worker measured.
    """
    if roof := _roof(record):
        return roof.matrix_flops * _devices(record)
    evidence = outcome.evidence_after
    cell = record.cell
    if evidence is None or evidence.matrix_flops is None:
        return None
    return evidence.matrix_flops * cell.replica_count * evidence.at_once(cell.shard_count)


def _roof(record: Record) -> Roof | None:
    """The measured limits. None for one of several replicas on a CPU: the limits are those of the
    whole machine, and it has a part of the cores. So it is with replicas of so many threads.
    """
    replicas = record.cell.replicas or ""
    is_part = "/" in replicas or bool(replicas and record.cell.threads)
    return None if is_part and not record.accelerator else record.roof


def _devices(record: Record) -> int:
    """The number of devices whose limits add up. Replicas and shards on a CPU share the memory and
    cores of their node, and the limits are those of a whole machine.
    """
    return record.cell.device_count if record.accelerator else record.node_count


def binds(metrics: Metrics) -> str:
    """Return the limit of the machine with the larger share, of BINDING, or NEITHER if both shares
    are small. Empty if a share is not known.
    """
    shares = [metrics.get(name) for name in BINDING]
    if None in shares:
        return ""
    largest = max(BINDING, key=lambda name: metrics[name])
    return NEITHER if metrics[largest] < LEAST_BINDING else BINDING[largest]
