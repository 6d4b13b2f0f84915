"""Measures one framework on one device. The repeats of all measures alternate, so that a
disturbance of the machine meets all of them alike. Standard library only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from formats.limits import LAYER_SHAPE, Limits, Spread
from sut.evidence import matrix_rate
from sut.limits.framework import Framework, Run

_INNER = 4096  # inner side of the thin product, and columns of the array that is read
_ITEM_BYTES = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
_ANY = "float32"  # the precision in which memory is measured
_REPEATS = 7
_FEWEST = 3  # repeats of a slow measure
_MOST_CALLS = 100_000  # in a repeat


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is measured.

    Attributes:
        array_bytes: of the array that is read, and of the matrix of the thin product. It
            is larger than the last-level cache.
        repeat_s: seconds of a repeat, which has as many calls as fit, and one at least.
        slow_s: seconds of all repeats of a measure whose single call takes longer than a repeat.
    """

    array_bytes: int
    repeat_s: float = 0.1
    slow_s: float = 2.0


@dataclass
class Measure:
    """One measured operation.

    Attributes:
        precision: that of its products.
        work: floating-point operations, or bytes, of one call.
        calls: calls in a repeat.
        repeats: how often it is repeated.
        values: `work` a second of each repeat.
    """

    precision: str
    run: Run
    work: float
    calls: int = 1
    repeats: int = _REPEATS
    values: list[float] = field(default_factory=list)

    def spread(self, factor: float = 1.0) -> Spread:
        """Return the spread of the values, each times `factor`."""
        return Spread.of([factor * value for value in self.values])


@dataclass(frozen=True, kw_only=True)
class _Products:
    """The measures of one precision, and facts about them.

    Attributes:
        measures: field of `Limits` → its measure.
        others: name of another way to multiply → the measure of the large product this way.
        absent, about: fields of `Limits`; `about` is its `matrix_products`.
    """

    side: int
    measures: Mapping[str, Measure]
    others: Mapping[str, Measure]
    absent: Mapping[str, str]
    about: Mapping[str, Any]


def measure(
    framework: Framework,
    name: str,
    environment: str,
    device: str,
    precisions: Sequence[str],
    sizes: Sizes,
) -> tuple[list[Limits], dict[str, str]]:
    """Return the limits in each precision, and precision → the framework's own words for those that
    it does not have.

    Args:
        framework: a module `sut.limits.on_<framework>`.
        name: the framework's name.
    """
    framework.configure(device)
    products: dict[str, _Products] = {}
    lacking: dict[str, str] = {}
    for precision in precisions:
        framework.use(precision)
        try:
            products[precision] = _products(framework, precision, sizes)
        # Each framework has its own error for a precision that it lacks.
        except Exception as e:  # noqa: BLE001
            lacking[precision] = _words(e)
    read = _read(framework, sizes)
    measures = [read]
    for each in products.values():
        measures += [*each.measures.values(), *each.others.values()]
    _repeat(framework, measures, sizes)
    limits = []
    for precision, each in products.items():
        spreads = {field: found.spread() for field, found in each.measures.items()}
        # The thin product uses each value of its matrix for two operations.
        bytes_per_flop = _ITEM_BYTES[precision] / 2
        limits.append(
            Limits(
                environment=environment,
                device=device,
                precision=precision,
                framework=name,
                version=framework.version(),
                matrix_side=each.side,
                read_bytes_per_second=read.spread(),
                thin_bytes_per_second=each.measures["thin_flops"].spread(bytes_per_flop),
                other_matrix_flops={way: found.spread() for way, found in each.others.items()},
                matrix_products=each.about,
                absent=each.absent,
                **spreads,
            )
        )
    return limits, lacking


def _products(framework: Framework, precision: str, sizes: Sizes) -> _Products:
    """Return the measures of a precision. The framework's own error is raised if it lacks one."""

    def waiting(side: int) -> Callable[[], None]:
        run = framework.product(precision, side, side, side)
        return lambda: framework.wait(run())

    def measured(rows: int, inner: int, columns: int) -> Measure:
        run = framework.product(precision, rows, inner, columns)
        flops = 2.0 * rows * inner * columns
        return _begun(framework, Measure(precision, run, flops))

    columns = sizes.array_bytes // (_INNER * _ITEM_BYTES[precision])
    side, _ = matrix_rate.largest(waiting)
    square = measured(side, side, side)
    others = {}
    absent = {}
    for name, run in framework.other_products(precision, side).items():
        try:
            others[name] = _begun(framework, Measure(precision, run, square.work))
        # A compiler may lack a precision that the framework has otherwise.
        except Exception as e:  # noqa: BLE001
            absent[f"{precision} through {name}"] = _words(e)
    return _Products(
        side=side,
        measures={
            "matrix_flops": square,
            "layer_flops": measured(*LAYER_SHAPE),
            "thin_flops": measured(1, _INNER, columns),
        },
        others=others,
        absent=absent,
        about=framework.about_products(precision, square.run),
    )


def _read(framework: Framework, sizes: Sizes) -> Measure:
    """Return the measure of the way to read with the most bytes a second."""
    framework.use(_ANY)
    rows = sizes.array_bytes // (_INNER * _ITEM_BYTES[_ANY])
    thin = framework.product(_ANY, 1, _INNER, rows)
    best = None
    most = 0.0
    for run, size in (*framework.reads(rows, _INNER), (thin, sizes.array_bytes)):
        measure = _begun(framework, Measure(_ANY, run, size))
        rate = max(size / _seconds(framework, measure) for _ in range(_FEWEST))
        if rate > most:
            best = measure
            most = rate
    assert best
    return best


def _begun(framework: Framework, measure: Measure) -> Measure:
    """Return the measure after its first calls, which compile, allocate and wake threads."""
    framework.wait(measure.run())
    framework.wait(measure.run())
    return measure


def _repeat(framework: Framework, measures: Sequence[Measure], sizes: Sizes) -> None:
    """Fill the values of the measures, one repeat of each after the other."""
    for measure in measures:
        framework.use(measure.precision)
        # Choose the number of calls in a repeat, and the number of repeats.
        while True:
            seconds = _seconds(framework, measure)
            wanted = math.ceil(sizes.repeat_s / seconds)
            if wanted <= 2 * measure.calls or measure.calls >= _MOST_CALLS:
                break
            # The time of few calls also contains the time of waiting.
            measure.calls = min(wanted, 10 * measure.calls, _MOST_CALLS)
        measure.calls = max(1, min(wanted, _MOST_CALLS))
        in_time = int(sizes.slow_s / (measure.calls * seconds))
        measure.repeats = max(_FEWEST, min(_REPEATS, in_time))
    for number in range(_REPEATS):
        for measure in measures:
            if number >= measure.repeats:
                continue
            framework.use(measure.precision)
            measure.values.append(measure.work / _seconds(framework, measure))


def _seconds(framework: Framework, measure: Measure) -> float:
    """Return the seconds of a call, in a row of `calls`."""
    run = measure.run
    result = None
    start = time.perf_counter()
    for _ in range(measure.calls):
        result = run()
    framework.wait(result)
    return max(time.perf_counter() - start, 1e-9) / measure.calls


def _words(error: Exception) -> str:
    """Return the kind and the first line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
