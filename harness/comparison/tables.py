"""Runs → groups of repeats → rows of a table."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from formats.cell import WORK, Cell, ordered_by, sut_words
from formats.result import Metric, Result, Status
from harness.comparison import statistics
from harness.comparison.pooled import Pooled
from harness.comparison.runs import Run, find, read
from results import disturbance
from results.figure import compared
from sut.registry import SUTS

_METRICS = (
    "samples_per_second",
    "ms_per_step",
    "ms_per_denoising_step",
    "tokens_per_second",
    "ttft_p50_ms",
    "ttft_p90_ms",
    "ttft_p99_ms",
    "tpot_p50_ms",
    "tpot_p90_ms",
    "tpot_p99_ms",
    "achieved_per_second",
    "goodput_per_second",
    "requests_a_batch",
    "flops_per_second",
    "matrix_share",
    "bytes_per_second",
    "flops_per_byte",
    "bandwidth_share",
    "operators_per_pass",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p99_ms",
    "first_step_seconds",
    "step_median_ms",
    "step_p90_ms",
    "drift_fraction",
    "trained_parameters",
    "first_answer_seconds",
    "cached_first_answer_seconds",
)
"""Metrics of a result whose medians are numbers of a group."""
_OF_COMPILING = ("compile_seconds", "cached_compile_seconds")
"""The same of runs with status ok only."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The repeats of one cell: runs with equal cell, mode, planned duration, machine, versions and
    source, in the order in which they began. A group equals only itself.
    """

    runs: tuple[Run, ...]

    @cached_property
    def last(self) -> Run:
        """The last run with status ok, else the last run."""
        return next((run for run in reversed(self.runs) if run.metric), self.runs[-1])

    @property
    def cell(self) -> Cell:
        """The cell of all runs."""
        return self.last.result.cell

    @property
    def mode(self) -> str:
        """The mode of all runs."""
        return self.last.result.mode

    @property
    def machine(self) -> str:
        """The machine of all runs in words. Empty if it was not recorded."""
        return self.last.machine

    @cached_property
    def counted(self) -> tuple[Run, ...]:
        """The runs that count. If a sweep measured a repeat again, because it failed or was
        disturbed, only the last run of it counts.
        """
        last = {run.turn: run for run in self.runs}
        return tuple(run for run in self.runs if run.turn is None or last[run.turn] is run)

    @cached_property
    def good(self) -> tuple[Run, ...]:
        """The runs that count and have status ok."""
        return tuple(run for run in self.counted if run.metric)

    @cached_property
    def failed(self) -> tuple[Run, ...]:
        """The runs that count and do not have status ok."""
        return tuple(run for run in self.counted if not run.metric)

    @property
    def failure(self) -> str:
        """`2 of 5 runs are not ok: invalid (accuracy): …`, with the last failed run's reason. Empty
        if all are ok or none is.
        """
        failed = self.failed
        if not failed or not self.good:
            return ""
        are = "is" if len(failed) == 1 else "are"
        return f"{len(failed)} of {len(self.counted)} runs {are} not ok: {failed[-1].obstacle}"

    @property
    def serious_failure(self) -> str:
        """`failure`, if it keeps the figure of the good runs from being ranked; else empty."""
        invalid = [run.result.cause for run in self.failed if run.result.status is Status.INVALID]
        by_machine = set(invalid) <= set(disturbance.BY_CLOCK)
        return "" if by_machine and len(invalid) <= len(self.good) else self.failure

    @cached_property
    def figures(self) -> list[float]:
        """The figure of each run with status ok, by which it is compared."""
        return [run.metric.value for run in self.good if run.metric]

    @cached_property
    def summary(self) -> statistics.Estimate | None:
        """The mean of the figures and its interval. None if no run is ok."""
        return statistics.summarise(self.figures) if self.figures else None

    @property
    def metric(self) -> Metric | None:
        """Unit and direction of the figure, with the value of the last run, which may be
        invalid.
        """
        return compared(self.last.result)

    @property
    def kind(self) -> tuple[str, ...]:
        """The statistic of the figure: its name, unit and estimate. Empty if there is none."""
        metric = self.metric
        return (metric.name, metric.unit, metric.estimate) if metric else ()

    @cached_property
    def sut(self) -> str:
        """The SUT with its options, as shown in a table."""
        return sut_words(self.cell)

    @property
    def execution(self) -> str:
        """eager, compile, graph or xla. Empty if there is no record and the SUT is no longer in the
        registry.
        """
        if self.last.record:
            return self.last.record.execution
        spec = SUTS.get(self.cell.sut)
        return spec.execution if spec else ""

    @cached_property
    def work(self) -> tuple[tuple[str, Any], ...]:
        """(name, value) of each field of the cell that decides what is computed. SUTs with equal
        work may be compared.
        """
        cell = self.cell.of_work
        values = {name: getattr(cell, name) for name in WORK}
        values["variables"] = tuple(sorted(cell.variables.items()))
        return tuple(values.items())

    @cached_property
    def unranked(self) -> tuple[str, ...]:
        """The reasons why its figure may not be compared with others.

        Disturbances count if they affected more than half of the repeats. Invalid runs that the
        machine may have caused count if they outnumber the good ones.
        """
        if not self.good:
            status = f"its status is {self.last.result.status}"
            return self.last.result.unranked or (status,)
        lasting = [reason for run in self.good for reason in run.lasting]
        reasons = filter(None, (*lasting, self.serious_failure, self.disturbed))
        return tuple(dict.fromkeys(reasons))

    @cached_property
    def numbers(self) -> dict[str, float | None]:
        """Numbers of the cell besides its figure, by their names in a row, where
        compliance/schemas/report.json describes them. None: not known.
        """
        accuracy = self.last.result.accuracy
        limit = accuracy.threshold if accuracy else None
        good = [run.result for run in self.good]
        results = good or [self.last.result]
        every = [run.result for run in self.runs]
        found = {name: _median(each.metrics.get(name) for each in results) for name in _METRICS}
        for name in _OF_COMPILING:
            found[name] = _median(result.metrics.get(name) for result in good)
        return found | {
            "load_seconds": _median(result.seconds.get("load") for result in good),
            "peak_host_bytes": max(result.peak_host_bytes for result in every) or None,
            "peak_device_bytes": max(result.peak_device_bytes or 0 for result in every) or None,
            "accuracy": accuracy.value if accuracy else None,
            "accuracy_limit": limit,
            "error_share": accuracy.value / limit if accuracy and limit else None,
            "first_loss_error": accuracy.detail.get("first_loss_error") if accuracy else None,
        }

    @property
    def disturbed(self) -> str:
        """`2 of 3 repeats were disturbed: …`, with the first disturbance. Empty if at most half of
        the repeats were disturbed.
        """
        good = self.good
        disturbed = [run.disturbances for run in good if run.disturbances]
        if 2 * len(disturbed) <= len(good):
            return ""
        were = "repeat was" if len(good) == 1 else "repeats were"
        first = "; ".join(disturbed[0])
        return f"{len(disturbed)} of {len(good)} {were} disturbed: {first}"

    @cached_property
    def advice(self) -> list[str]:
        """Advice on the repeats. Empty if there is no figure."""
        if not self.good:
            return []
        disturbed = sum(run.is_noted for run in self.good)
        sentences = statistics.advice(self.figures, disturbed)
        return [self.failure, *sentences] if self.failure else sentences


def grouped(results: Iterable[Result], *, controls: bool = False) -> list[Group]:
    """One `Group` for each cell, sorted by model, task, scenario, precision, batch, length and SUT.
    Reads further files of the run directories.

    Args:
        controls: False: without the control runs of sweeps; True: only these.
    """
    runs = [read(r) for r in results if bool(r.sweep and r.sweep.control) is controls]
    # A run without versions joins the runs of its cell that have them.
    runs.sort(key=lambda run: (not run.versions, run.order))
    cells: dict[tuple[str, str], dict[Any, list[Run]]] = {}
    for run in runs:
        homes = cells.setdefault((run.result.cell.digest, run.result.mode), {})
        conditions = (run.planned_seconds, run.machine, run.source)
        home = (conditions, tuple(run.versions.items()))
        if not run.versions:
            home = next((each for each in reversed(homes) if _may_be(conditions, each[0])), home)
        homes[home] = [*homes.pop(home, ()), run]  # the latest one is the last
    groups = []
    for of_cell in cells.values():
        for repeats in of_cell.values():
            groups.append(Group(runs=tuple(sorted(repeats, key=lambda run: run.order))))
    return sorted(groups, key=_place)


def _may_be(conditions: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether a run may have been measured under the conditions `others`. A value that is
    missing from `conditions` fits any.
    """
    pairs = zip(conditions, others, strict=True)
    return all(one == other or one in (None, "") for one, other in pairs)


def table(root: Path | str) -> Any:
    """One row for each cell of the run directories below `root` (`row`).

    All repeats of a cell are one row. The row of a failed cell has the reason and no figure. The
    rows are a pandas DataFrame if pandas can be imported, else a list of dicts.
    """
    rows = [row(group) for group in grouped(find(Path(root))[0])]
    if importlib.util.find_spec("pandas") is None:
        return rows
    import pandas

    return pandas.DataFrame(rows)


def row(group: Group) -> dict[str, Any]:
    """The row of one cell, as compliance/schemas/report.json describes it. Values that are not
    known are None.
    """
    result = group.last.result
    metric = group.metric
    summary = group.summary
    numbers = dict(group.numbers)
    del numbers["error_share"]  # it follows from two others
    return {
        "sut": group.sut,
        "execution": group.execution,
        **{name: getattr(group.cell, name) for name in WORK},
        "mode": result.mode,
        "planned_seconds": group.last.planned_seconds,
        "status": str(result.status),
        "cause": result.cause,
        "reason": result.reason,
        "loadgen": result.loadgen,
        "unit": metric and metric.unit,
        "higher_is_better": metric and metric.higher_is_better,
        "repeats": len(group.good),
        "failed": len(group.failed),
        "figure": summary.mean if summary else metric and metric.value,
        "low": summary and summary.low,
        "high": summary and summary.high,
        "figures": group.figures,
        **{name: numbers.pop(name) for name in _METRICS},
        "binds": result.binds or None,
        **numbers,
        "ranked": not group.unranked,
        "unranked": list(group.unranked),
        "advice": group.advice,
        "machine": group.machine or None,
        "versions": group.last.versions,
        "revision": group.last.record and group.last.record.git.revision,
        "started": group.last.started or None,
        "directories": [run.result.directory for run in group.runs],
    }


def ratio(a: Group, b: Group, compared: int = 2) -> statistics.Ratio:
    """The speed of A over that of B. Repeats measured in turns (A B A B) are compared pair by pair.

    Those of a sweep are pairs if they are the same repeat of the same sweep. Repeats without a
    partner are then left out.

    Args:
        a, b: both have figures, which are of one kind (`alike`).
        compared: the number of SUTs from which the two were chosen (`statistics.judged`).
    """
    x = a.figures
    y = b.figures
    paired = in_turns(a, b)
    of_a = {run.turn: run for run in a.good if run.turn}
    of_b = {run.turn: run for run in b.good if run.turn}
    common = [turn for turn in of_a if turn in of_b]
    if len(common) >= min(len(x), len(y), statistics.FEWEST):
        x = Group(runs=tuple(of_a[turn] for turn in common)).figures
        y = Group(runs=tuple(of_b[turn] for turn in common)).figures
        paired = True
    better = b.metric is None or b.metric.higher_is_better
    return statistics.compare(x, y, higher_is_better=better, paired=paired, compared=compared)


def alike(a: Group, b: Group) -> bool:
    """Return whether the figures of both are the same statistic in the same unit."""
    return not a.kind or not b.kind or a.kind == b.kind


def pool(
    groups: Sequence[Group],
    controls: Sequence[Group] = (),
    value: Callable[[Run], float | None] | None = None,
) -> Pooled:
    """The speeds of SUTs with the same work, round by round. Series are named by their groups.

    A round is a repeat of a sweep. Without a sweep, if all SUTs were measured in turns, their nth
    runs are a round.

    Args:
        controls: the control runs of some of them. They only show noise, and a reader does not
            choose them.
        value: a run → its figure; None: the one by which it is compared.
    """
    swept = any(run.turn for group in groups for run in group.good)
    by_hand = not swept and all(in_turns(a, b) for a, b in pairwise(groups))
    series: dict[Group, dict[Any, float]] = {}
    for group in (*groups, *controls):
        rounds = series[group] = {}
        for n, run in enumerate(group.good):
            figure = value(run) if value else run.metric and run.metric.value
            if figure and group.metric:
                # If less is faster, the speed is the inverse of the figure.
                speed = figure if group.metric.higher_is_better else 1 / figure
                rounds[n if by_hand else run.turn or run.result.directory] = speed
    return Pooled(series=series, compared=len(groups))


def in_turns(a: Group, b: Group) -> bool:
    """Return whether the repeats were interleaved: both runs of each pair began before any run of
    the next pair.

    False if A and B have different numbers of repeats, or if a start is unknown.
    """
    if len(a.good) != len(b.good):
        return False
    pairs = [sorted((x.started_s, y.started_s)) for x, y in zip(a.good, b.good, strict=True)]
    is_known = all(first for first, _ in pairs)
    return is_known and all(last < first for (_, last), (first, _) in pairwise(pairs))


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


def place_of(sut: str) -> int:
    """The place of a SUT in the registry, in whose order SUTs are shown. A SUT that is not in it
    comes last.
    """
    return [*SUTS, sut].index(sut)


def _place(group: Group) -> tuple[Any, ...]:
    cell = group.cell
    values = [getattr(cell, name) for name in ordered_by("sorts")]
    keys = [(bool(value), value or 0) for value in values]  # None is before a number and a text
    return (*keys, place_of(cell.sut), cell.digest, group.last.order)
