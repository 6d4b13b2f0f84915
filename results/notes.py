"""What a reader of a result should know, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.sources import Sources
from formats.outcome import Fresh, Replicas
from formats.record import Record
from formats.result import Result
from results.computing import Metrics

_UNEVEN = 2.0
"""A replica may work so many times as long on a sample as another one before that is reported."""

_COPIES = 20.0
"""A SUT may prepare a sample so many times as long as a copy takes before that is reported."""


def prepared(fresh: Fresh, batch_size: int) -> Iterator[str]:
    """Warn if the SUT prepared a sample for longer than it answers one, and far longer than a copy
    takes.
    """
    if fresh.prepare_ns > max(_COPIES * fresh.copy_ns, fresh.fresh_ns / batch_size):
        yield (
            f"the SUT prepares a sample for {fresh.prepare_ns / 1e6:.3g} ms before the clock"
            f" starts, {fresh.prepare_ns / max(1, fresh.copy_ns):.0f} times as long as it is copied"
            " and longer than it is answered: prepare may only rename, transpose, cast and pad"
        )


def threads_unknown(result: Result) -> Iterator[str]:
    """Warn if nothing shows the threads of the framework that `--threads` requests."""
    cell = result.cell
    products = result.seen and result.seen.detail.get("matrix_products")
    threads = cell.threads
    if threads and type((products or {}).get("threads")) is not int:
        counted = f"{threads} processor{'' if threads == 1 else 's'}"
        yield (
            f"{cell.sut} does not report the threads of its matrix products; it was pinned to"
            f" {counted}"
        )


def uneven(replicas: Replicas) -> Iterator[str]:
    """Warn if one replica worked far longer on a sample than another, or had none."""
    idle = [number for number, one in enumerate(replicas.each) if not one.samples]
    if idle:
        yield f"replica {idle[0]} answered no sample of the performance test"
        return
    work = [one.busy / one.samples for one in replicas.each]
    longest = max(work, default=0.0)
    shortest = min(work, default=0.0)
    if longest > _UNEVEN * shortest:
        slow = work.index(longest)
        fast = work.index(shortest)
        yield (
            f"replica {slow} worked {longest / shortest:.1f} times as long on a sample as replica"
            f" {fast}; the figure is that of unequal replicas"
        )


def not_judged(replicas: Replicas) -> Iterator[str]:
    """Warn if the accuracy test did not reach every replica."""
    samples = replicas.accuracy_samples
    idle = sum(not each for each in samples)
    if idle:
        yield (
            f"{idle} of {len(samples)} replicas answered no sample of the accuracy test,"
            " because it has fewer batches than replicas; their answers were judged only while"
            " measuring"
        )


def measured_again(sources: Sources) -> Iterator[str]:
    """Warn if the performance test was measured again with another calibration."""
    job = sources.job
    if job is None or job.calibration is None or not sources.earlier_tests:
        return
    earlier = max(sources.earlier_tests, key=lambda name: int(name.rpartition("-")[2]))
    if job.serves:
        yield (
            "the SUT did not hold the rate that the search found, so a lower one was"
            f" measured; the earlier test is in raw/{earlier}"
        )
    else:
        yield (
            "the performance test was measured again: the SUT was so much faster than"
            " while calibrating that LoadGen's least duration was not reached; the earlier"
            f" test is in raw/{earlier}"
        )


def without_share(shares: Metrics, metrics: Metrics, record: Record, adopted: str) -> Iterator[str]:
    """Yield why a share of the machine's speed is left out. A share above 1 is an error of the
    limit or of the count.

    Args:
        shares: those above 1, by their names.
        adopted: see `Configuration`.
    """
    if "bytes_per_second" in metrics and record.roof is None:
        command = "./run.sh doctor --limits"
        cell = record.cell
        if record.environment.name.endswith(adopted):
            command += f" {cell.sut} --python {record.environment.python}"
        if cell.threads:
            command += f" --threads {cell.threads}"
        yield (
            f"no share of the memory bandwidth: {command} measures it, and later runs have the"
            " share"
        )
    if "matrix_share" in shares:
        rate = metrics["flops_per_second"]
        yield (
            f"no share of the matrix rate: the model's {rate / 1e9:,.0f} GFLOP/s are more than"
            f" the {rate / shares['matrix_share'] / 1e9:,.0f} GFLOP/s of a large matrix product"
            " of this framework; either that was measured while other programs ran (./run.sh"
            " doctor --limits --again), or this SUT computes fewer operations than are"
            " counted, or it computes them by another library than that product, as"
            " convolutions may be"
        )
    if "bandwidth_share" in shares:
        rate = metrics["bytes_per_second"]
        limit = rate / shares["bandwidth_share"] / 1e9
        caches = record.machine.caches or "of unknown size"
        yield (
            f"no share of the memory bandwidth: the {rate / 1e9:,.1f} GB/s that the batches"
            f" move are more than the {limit:,.1f} GB/s that this framework reads; either that"
            " was measured while other programs ran (./run.sh doctor --limits --again), or"
            f" weights and activations stay in the processor's caches ({caches})"
        )
