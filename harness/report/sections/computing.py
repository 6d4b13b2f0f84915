"""A section on how much of the machine's speed each SUT uses, compared with its framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any

from formats.work import Roof
from harness.comparison import tables
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.products import Products, fastest_first, meaning
from harness.report.section import Picture, Pictures, Row, Section, Table
from results.figure import short
from results.summary import flops, matrix_products, share
from sut.registry import framework_of

_COLUMNS = (
    "SUT",
    "operations",
    "of a large product",
    "bytes",
    "of its bandwidth",
    "binds",
    "operators a batch",
)
_NONE = "–"
_MOST_PICTURES = 12


_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


def section(content: Content) -> Section:
    """The shares of all comparisons in a table, and a picture of each comparison. A single
    comparison also has sentences.
    """
    own = []
    if len(content.with_rivals) == 1:
        own = _sentences(content.with_rivals[0])
    groups = {}
    for comparison in content.comparisons:
        rows = [_texts(row) for row in _rows(comparison, "flops_per_second")]
        if rows:
            groups[comparison.name] = rows
    note = (
        "Operations: the products of the model, counted once on the reference, for every SUT"
        " alike. Their share is that of a large matrix product of the same framework (of"
        " TensorFlow without XLA). Bytes: what a batch must move at least, with each weight"
        " read once a forward pass. Their share is that of the bytes a second that the same"
        " framework reads from memory. The larger share binds if it is a tenth or more. If"
        " neither is, the time goes to small operations, to padding or to Python. If the"
        " operations are not counted, those of products with weights are used, and their share"
        " is a lower bound. The last column counts the operators that Python calls for a batch"
        " of an eager SUT."
    )
    if any(map(_roofs, content.comparisons)):
        note += (
            " A line of a picture is what a framework reaches on this machine: on the left it"
            " reads memory at its full bandwidth, on the right it multiplies matrices at its full"
            " rate. A dot is a SUT."
        )
    table = Table(columns=_COLUMNS, numbers=range(1, len(_COLUMNS)), groups=groups, most=200)
    return Section(
        title="How much of what its framework can do",
        note=note,
        sentences=[*own, *product_sentences(content.current)],
        tables=[table],
        pictures=partial(_pictures, content),
    )


def _sentences(comparison: Comparison) -> list[str]:
    """Return one sentence with each share of each SUT, the largest first, and one with the
    operators of eager SUTs.

    There is no sentence for a figure that fewer than two SUTs have.
    """
    sentences = []
    shares = _listed(comparison, "matrix_share")
    if shares:
        sentences.append(
            "the model's products reach, of the rate of a large matrix product of the same"
            f" framework: {shares}"
        )
    shares = _listed(comparison, "bandwidth_share")
    if shares:
        sentences.append(
            "the batches move, of the bytes a second that the same framework reads from"
            f" memory, at least: {shares}"
        )
    operators = _rows(comparison, "operators_per_batch")
    operators.sort(key=itemgetter("operators_per_batch"))
    if len(operators) > 1:
        each = [f"{row['sut']} {short(row['operators_per_batch'])}" for row in operators]
        sentences.append(f"Python calls operators for a batch of eager SUTs: {', '.join(each)}")
    return sentences


def _listed(comparison: Comparison, column: str) -> str:
    """Return `native-jax 75%, keras3-jax 50%`, the largest share first. Empty if fewer than two
    SUTs have one.
    """
    rows = _rows(comparison, column)
    if len(rows) < 2:
        return ""
    rows.sort(key=itemgetter(column), reverse=True)
    return ", ".join(f"{row['sut']} {share(row[column])}" for row in rows)


def _rows(comparison: Comparison, column: str) -> list[dict[str, Any]]:
    rows = [tables.row(group) for group in comparison.good]
    return [row for row in rows if row[column]]


def _texts(row: dict[str, Any]) -> Row:
    reached = row["flops_per_second"]
    moved = row["bytes_per_second"]
    bytes_text = _gigabytes(moved) if moved else _NONE
    operators = short(row["operators_per_batch"]) or _NONE
    return (
        row["sut"],
        flops(reached),
        _share(reached, row["matrix_share"], flops),
        bytes_text,
        _share(moved, row["bandwidth_share"], _gigabytes),
        row["binds"] or _NONE,
        operators,
    )


def _share(rate: float | None, part: float | None, words: Callable[[float], str]) -> str:
    """A share, and the limit that it is a share of, in words."""
    if not rate or not part:
        return _NONE
    return f"{share(part)} of {words(rate / part)}"


def _gigabytes(rate: float) -> str:
    return f"{rate / 1e9:,.3g} GB/s"


def _pictures(content: Content) -> Pictures:
    """Draw the comparisons whose SUTs have limits and counted operations."""
    found = [comparison for comparison in content.comparisons if _roofs(comparison)]
    shown = [_picture(comparison) for comparison in found[:_MOST_PICTURES]]
    return Pictures(shown=shown, more=len(found) - len(shown))


def _picture(comparison: Comparison) -> Picture:
    from harness.report import figures

    dots = {
        row["sut"]: (row["flops_per_byte"], row["flops_per_second"])
        for row in _rows(comparison, "flops_per_byte")
    }
    draw = partial(figures.roofline, dots, _roofs(comparison), title=comparison.name)
    return Picture(caption=comparison.name, draw=draw)


def _roofs(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """Return framework → (operations a second, bytes a second) that it reaches on this machine, the
    median over its SUTs. Empty if no operations are counted.
    """
    found: dict[str, list[Roof]] = {}
    for group in comparison.good:
        record = group.last.record
        if record and record.roof and "flops_per_byte" in group.last.result.metrics:
            found.setdefault(framework_of(group.cell.sut), []).append(record.roof)
    roofs = {}
    for framework, measured in found.items():
        flops_per_second = median(roof.matrix_flops for roof in measured)
        bytes_per_second = median(roof.read_bytes_per_second for roof in measured)
        roofs[framework] = (flops_per_second, bytes_per_second)
    return roofs


def product_sentences(groups: Iterable[Group]) -> list[str]:
    """Return how fast each framework multiplied large matrices, and by which library.

    There is a sentence for each place with two frameworks or more. A place is a precision, a
    device, a machine, environment variables and threads. One more sentence follows if MKL took
    narrower instructions than an AMD processor has.
    """
    several = {}
    for place, of_one in _places(groups).items():
        if len(of_one) > 1:
            several[place] = of_one
    machines = {machine for _, _, machine, *_ in several}
    sentences = []
    for (precision, device, machine, *where), of_one in sorted(several.items()):
        if len(machines) > 1:
            where.insert(0, machine)
        apart = "".join(f", {text}" for text in filter(None, where))
        rates = ", ".join(_rates(of_one))
        sentences.append(
            f"large matrix products in {precision} on {device}{apart}: {rates}; a model that"
            " spends its time in such products is about as much faster or slower"
        )
        sentences += meaning(precision, of_one)
    return sentences


def _places(groups: Iterable[Group]) -> dict[_Place, dict[str, Products]]:
    """Return place → framework → its products."""
    places: dict[_Place, dict[str, Products]] = {}
    for group in groups:
        cell = group.cell
        framework = framework_of(cell.sut)
        variables = [f"{name}={value}" for name, value in sorted(cell.variables.items())]
        if cell.threads:
            variables.append(f"threads {cell.threads}")
        place = (cell.precision, cell.device, group.last.machine, *variables)
        record = group.last.record
        machine = record.machine if record else None
        for run in group.good:
            rate = run.result.seen.matrix_flops if run.result.seen else None
            if framework and rate:
                of_one = places.setdefault(place, {})
                products = of_one.setdefault(framework, Products())
                products.add(rate, matrix_products(run.result), machine)
    return places


def _rates(of_one: Mapping[str, Products]) -> list[str]:
    """Return `PyTorch 184 GFLOP/s (MKL, AVX2, 2 threads)` for each framework, the fastest first."""
    is_known = any(products.libraries for products in of_one.values())
    texts = []
    for name, products in fastest_first(of_one):
        libraries = " or ".join(dict.fromkeys(products.libraries)) or "library not reported"
        remark = f" ({libraries})" if is_known else ""
        texts.append(f"{name} {products.rate / 1e9:,.0f} GFLOP/s{remark}")
    return texts
