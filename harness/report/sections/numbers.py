"""A section with all numbers of each comparison side by side: speed, latency, memory, compiling."""

from __future__ import annotations

from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Section, Table
from results.figure import short

_MEDIAN = "latency_p50_ms"
_COLUMNS = {
    _MEDIAN: "50th percentile, ms",
    "latency_p90_ms": "90th percentile, ms",
    "latency_p99_ms": "99th percentile, ms",
    "ttft_p50_ms": "first token: median, ms",
    "ttft_p90_ms": "90th, ms",
    "ttft_p99_ms": "99th, ms",
    "tpot_p50_ms": "later token: median, ms",
    "tpot_p90_ms": "90th, ms",
    "tpot_p99_ms": "99th, ms",
    "achieved_per_second": "answered/s",
    "goodput_per_second": "within the limits/s",
    "requests_a_batch": "requests a batch",
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
    "ms_per_step": "ms/step",
    "step_median_ms": "single steps: median, ms",
    "step_p90_ms": "90th, ms",
    "first_step_seconds": "first step, s",
    "trained_parameters": "trained parameters",
    "load_seconds": "loading, s",
    "first_answer_seconds": "first answer, s",
    "cached_first_answer_seconds": "first answer from cache, s",
    "compile_seconds": "compiling, s",
    "cached_compile_seconds": "compiling from cache, s",
    "flops_per_second": "GFLOP/s",
    "matrix_share": "% of a large product",
    "bytes_per_second": "GB/s",
    "bandwidth_share": "% of the bandwidth",
    "operators_per_pass": "operators a pass",
    "peak_host_bytes": "memory, GB",
    "peak_device_bytes": "device memory, GB",
    "error_share": "error, % of limit",
    "first_loss_error": "error of the first loss",
}
"""Name of a number of `Group.numbers` → its heading. A column without a value is left out."""
_FACTORS = {
    "flops_per_second": 1e-9,
    "matrix_share": 100.0,
    "bytes_per_second": 1e-9,
    "bandwidth_share": 100.0,
    "peak_host_bytes": 1e-9,
    "peak_device_bytes": 1e-9,
    "error_share": 100.0,
}
"""Name of a number → the factor to the unit of its heading, if it is not 1."""


def section(content: Content) -> Section:
    """A table for each comparison with a figure."""
    return Section(
        title="All numbers",
        note=(
            "The first number is the figure by which SUTs are compared. Medians of the runs follow."
            " A click on a heading sorts. First and later tokens are MLPerf's: the time from a"
            " request, in Offline from the beginning of its batch, to its first token, and the time"
            " from there to the last token, divided by the number of later tokens. It is not known"
            " if too many answers came in one part. Of a training the first two steps are not"
            " timed, and single steps have a time only if the framework does not run ahead of its"
            " device. Compiling is the time of the first calls of all shapes minus that of the"
            " second calls. The operations are the products of the model, counted once on the"
            " reference, and their share is that of a large matrix product of the same framework."
            " Bytes are those that a batch must move at least, and their share is that of what the"
            " framework reads from memory. Operators are those that Python calls for a batch of an"
            " eager SUT. Memory is that of the process that runs the model. The error is the"
            " distance of the answers from those of PyTorch in float32."
        ),
        tables=[_table(comparison) for comparison in content.comparisons if comparison.good],
    )


def _table(comparison: Comparison) -> Table:
    groups = comparison.ordered
    names = [name for name in _COLUMNS if any(group.numbers[name] for group in groups)]
    figure = comparison.unit
    kinds = {group.metric.name for group in groups if group.metric}
    if kinds == {"latency_p50"}:
        names.remove(_MEDIAN)
        figure = "median, ms"
    elif kinds <= set(names):
        names.remove(*kinds)
    rows = []
    for group in groups:
        figures = group.figures
        sut = group.sut
        if group.cell.requested_batch is not None:  # a switch changed the requested one
            sut += f", batch {group.cell.batch_size}"
        spread = f"{short(min(figures))} to {short(max(figures))}" if len(figures) > 1 else "–"
        row = [sut, short(comparison.entries[group.sut].figure), spread, str(len(figures))]
        for name in names:
            value = group.numbers[name]
            row.append("–" if value is None else short(_FACTORS.get(name, 1.0) * value))
        rows.append(row)
    headings = [_COLUMNS[name] for name in names]
    return Table(
        title=comparison.name,
        columns=("SUT", figure, "lowest to highest", "runs", *headings),
        groups={"": rows},
    )
