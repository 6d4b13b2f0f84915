"""A section with all numbers of each comparison side by side: speed, latency, memory, compiling."""

from __future__ import annotations

from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Row, Section, Table
from results.figure import short

_MEDIAN = "latency_p50_ms"
_COLUMNS = {
    _MEDIAN: ("50th percentile, ms", 1.0),
    "latency_p90_ms": ("90th percentile, ms", 1.0),
    "latency_p99_ms": ("99th percentile, ms", 1.0),
    "ttft_p50_ms": ("first token: median, ms", 1.0),
    "ttft_p90_ms": ("90th, ms", 1.0),
    "ttft_p99_ms": ("99th, ms", 1.0),
    "tpot_p50_ms": ("later token: median, ms", 1.0),
    "tpot_p90_ms": ("90th, ms", 1.0),
    "tpot_p99_ms": ("99th, ms", 1.0),
    "achieved_per_second": ("answered/s", 1.0),
    "goodput_per_second": ("within the limits/s", 1.0),
    "requests_a_batch": ("requests a batch", 1.0),
    "samples_per_second": ("samples/s", 1.0),
    "tokens_per_second": ("tokens/s", 1.0),
    "ms_per_step": ("ms/step", 1.0),
    "step_median_ms": ("single steps: median, ms", 1.0),
    "step_p90_ms": ("90th, ms", 1.0),
    "first_step_seconds": ("first step, s", 1.0),
    "trained_parameters": ("trained parameters", 1.0),
    "load_seconds": ("loading, s", 1.0),
    "first_answer_seconds": ("first answer, s", 1.0),
    "cached_first_answer_seconds": ("first answer from cache, s", 1.0),
    "compile_seconds": ("compiling, s", 1.0),
    "cached_compile_seconds": ("compiling from cache, s", 1.0),
    "flops_per_second": ("GFLOP/s", 1e-9),
    "matrix_share": ("% of a large product", 100.0),
    "bytes_per_second": ("GB/s", 1e-9),
    "bandwidth_share": ("% of the bandwidth", 100.0),
    "operators_per_pass": ("operators a pass", 1.0),
    "peak_host_bytes": ("memory, GB", 1e-9),
    "peak_device_bytes": ("device memory, GB", 1e-9),
    "error_share": ("error, % of limit", 100.0),
    "first_loss_error": ("error of the first loss", 1.0),
}
"""Name of a number of `Group.numbers` → its heading, and the factor to its unit. A column without a
value is left out.
"""


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
    headings = [_COLUMNS[name][0] for name in names]
    rows = [_row(comparison, group, names) for group in groups]
    return Table(
        title=comparison.name,
        columns=("SUT", figure, "lowest to highest", "runs", *headings),
        groups={"": rows},
    )


def _row(comparison: Comparison, group: Group, names: list[str]) -> Row:
    figures = group.figures
    sut = group.sut
    if group.cell.requested_batch is not None:  # a switch changed the requested one
        sut += f", batch {group.cell.batch_size}"
    spread = f"{short(min(figures))} to {short(max(figures))}" if len(figures) > 1 else "–"
    texts = [sut, short(comparison.entries[group.sut].figure), spread, str(len(figures))]
    for name in names:
        value = group.numbers[name]
        texts.append("–" if value is None else short(_COLUMNS[name][1] * value))
    return texts
