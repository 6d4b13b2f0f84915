"""The cells of a sweep as a table, and as a Markdown page that is written after each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from formats.result import Metric, Result
from harness.comparison import compare
from harness.comparison.statistics import Ratio, geometric_mean
from harness.sweep import loop, schedule
from harness.sweep.accelerator import bandwidth_share
from harness.sweep.cells import Series
from harness.sweep.schedule import Results
from results.figure import compared, short

FILE = "overview.md"
COLUMNS = ("cell", "status", "repeats", "mean", "times as fast", "reason")
_MORE = (
    "tokens/s",
    "ms/step",
    "Keras' table, A100: ms/step",
    "share of a large product",
    "share of bandwidth",
    "peak GB",
    "J/sample",
    "MHz",
    "error, and its limit",
    "seconds",
)
_JOULES = "joules_per_sample_"


def write(
    folder: Path,
    command: str,
    series: Sequence[Series],
    copied: float,
    machine: str,
    results: Results,
) -> None:
    """Write overview.md in the sweep's folder, atomically.

    Args:
        command: the command that continues the sweep.
        copied: bytes a second that the device copies within its memory; 0: not known.
        machine: the doctor's findings.
    """
    *columns, reason = COLUMNS
    good_last = sorted(results.items(), key=lambda item: item[1].status == "ok")
    shown = {number: result for (number, _), result in good_last}
    table = [[*columns, *_MORE, reason], ["---"] * (len(COLUMNS) + len(_MORE))]
    for one, (*texts, reason) in zip(series, rows(series, results), strict=True):
        result = shown.get(one.number)
        more = _more(result, copied) if result else [""] * len(_MORE)
        table.append([*texts, *more, reason.replace("|", "\\|")])
    lines = [f"`{command}` continues. No figure here is an MLPerf result.", ""]
    if copied:
        lines.append(f"- The device copies {copied / 1e9:,.0f} GB/s, read and written.")
    lines.append(
        "- Share of a large product: the model's operations a second, over those of a large"
        " matrix product of\n  the same framework.\n- Share of bandwidth: the bytes of weights"
        " that decoding reads a second, over those that the device\n  copies. An embedding"
        " that is not the head, keys and values are not counted. It needs at least\n  8 new"
        " tokens.\n"
    )
    lines += [f"| {' | '.join(texts)} |" for texts in table]
    lines.append(f"\n```text\n{machine}```\n")
    partial = folder / f"{FILE}.partial"
    partial.write_text("\n".join(lines), encoding="utf-8")
    partial.replace(folder / FILE)


def _more(result: Result, copied: float) -> list[str]:
    """The texts below the headings `_MORE`."""
    metrics, accuracy = result.metrics, result.accuracy
    published = compare.published_for(result.cell).get(result.cell.sut)
    peak_bytes = result.peak_device_bytes or result.peak_host_bytes
    sources = [name for name in metrics if name.startswith(_JOULES)]
    joules = [f"{short(metrics[name])} {name.removeprefix(_JOULES)}" for name in sources]
    readings = result.energy.clocks if result.energy else ()
    clocks = [str(reading["sm_mhz"]) for reading in readings if "sm_mhz" in reading]
    published_ms, peak, error = "", "", ""
    if published and result.cell.size == "full":
        published_ms = short(published.ms_per_step)
    if peak_bytes:
        peak = f"{peak_bytes / 1e9:.2f}"
    if accuracy:
        error = f"{accuracy.value:.3g}, {accuracy.threshold:.3g}"
    return [
        short(metrics.get("tokens_per_second")),
        short(metrics.get("ms_per_step")),
        published_ms,
        _percent(metrics.get("matrix_share")),
        _percent(bandwidth_share(result, copied)),
        peak,
        ", ".join(joules),
        "–".join(clocks),
        error,
        f"{result.seconds.get('total', 0):.0f}",
    ]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


def rows(series: Sequence[Series], results: Results) -> Iterator[list[str]]:
    """A row for each cell: its status, its mean, and its speed (`schedule.ratio_to_first`)."""
    for one in series:
        own = [result for (number, _), result in sorted(results.items()) if number == one.number]
        good = [compared(result) for result in own if result.status == "ok"]
        metrics = [metric for metric in good if metric]
        found = schedule.ratio_to_first(one, series, results)
        status, reason = _status(one, own)
        speed = _mean(metrics) if metrics else ""
        times = _compared(found[0]) if found else ""
        yield [one.label, status, f"{len(metrics)}", speed, times, reason]


def _status(one: Series, own: Sequence[Result]) -> tuple[str, str]:
    """(how a cell ended, why). The first of its runs that is not ok decides."""
    for result in own:
        if result.status != "ok":
            return result.status, result.reason
    if not own:
        return "unsupported" if one.obstacle else "not measured", one.obstacle
    disturbed = sum(bool(loop.disturbed(result)) for result in own)
    if not disturbed:
        return "ok", ""
    return "ok", f"{disturbed} of {len(own)} runs disturbed"


def _mean(metrics: Sequence[Metric]) -> str:
    """The mean with its unit, and the smallest and largest value of several runs."""
    figures = [metric.value for metric in metrics]
    text = f"{short(geometric_mean(figures))} {metrics[0].unit}"
    if len(figures) == 1:
        return text
    return f"{text}, {short(min(figures))} to {short(max(figures))}"


def _compared(ratio: Ratio) -> str:
    decided = ratio.different or ratio.low is None
    return ratio.times() if decided else f"{ratio.times()}, no difference shown"
