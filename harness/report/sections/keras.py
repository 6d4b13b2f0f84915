"""Sections that compare Keras 3 with its framework without Keras, with native PyTorch and with
Keras 2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from harness.comparison import statistics, tables
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import NATIVE_TORCH, Content
from harness.report.section import Cell, Row, Section, Table, grouped, ratio_cell
from results.figure import short
from sut.registry import FIT, SUTS

_COMPILED_TORCH = "native-torch-compile"


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Keras 3 compared with a SUT without Keras.

    Attributes:
        ratio: the speed of Keras over that of the other SUT.
        keras_ms, bare_ms: milliseconds of a batch, medians of the repeats; None if not known.
        keras_token_ms, bare_token_ms: average milliseconds in which each answer of a batch gets a
            token; None for a model that predicts.
        cost: whether both run on the same framework, so that they differ only in Keras and its
            library of models.
    """

    work: str
    keras: str
    bare: str
    ratio: statistics.Ratio
    keras_ms: float | None
    bare_ms: float | None
    keras_token_ms: float | None
    bare_token_ms: float | None
    cost: bool


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """Keras 3 compared with Keras 2, with the same framework and execution.

    Attributes:
        ratio: the speed of Keras 3 over that of Keras 2.
    """

    work: str
    keras3: str
    keras2: str
    ratio: statistics.Ratio


def costs(content: Content) -> Section:
    """The cost of Keras: the same framework with and without it, and native PyTorch."""
    every = overheads(content)
    table = Table(
        columns=(
            "Keras",
            "compared with",
            "a batch",
            "without",
            "more",
            "a token",
            "speed of Keras over that without",
        ),
        numbers=(2, 3, 4, 5),
        groups=grouped((o.work, _row(o)) for o in every),
    )
    return Section(
        title="What Keras costs",
        note=(
            "Keras 3 compared with the same framework without it, and with PyTorch. Above 1 Keras"
            " is faster. If a model generates, a batch is all its tokens. A token is the time in"
            " which each answer of a batch gets one token, with Keras and without."
        ),
        tables=[table],
        data={"keras_overheads": [asdict(overhead) for overhead in every]},
    )


def compared_with_keras2(content: Content) -> Section:
    """Keras 3 compared with Keras 2."""
    every = upgrades(content)
    rows = [(u.work, (u.keras3, u.keras2, ratio_cell(u.ratio))) for u in every]
    table = Table(
        columns=("Keras 3", "Keras 2", "speed of Keras 3 over Keras 2"),
        groups=grouped(rows),
    )
    return Section(
        title="Keras 3 compared with Keras 2",
        note="On the same framework, with the same execution. Above 1 Keras 3 is faster.",
        tables=[table],
        data={"keras_upgrades": [asdict(upgrade) for upgrade in every]},
    )


def overheads(content: Content) -> list[Overhead]:
    """Return each Keras 3 SUT compared with its own framework, and with native PyTorch."""
    found = []
    for comparison in content.conclusive:
        for group in comparison.good:
            spec = SUTS.get(group.cell.sut)
            if spec is None or not group.cell.sut.startswith("keras3-"):
                continue
            rivals = (spec.without_keras, NATIVE_TORCH, _COMPILED_TORCH)
            for bare in comparison.good:
                if bare.cell.sut in rivals:
                    is_same = bare.cell.sut == spec.without_keras
                    found.append(_overhead(comparison, group, bare, is_same))
    return found


def _overhead(comparison: Comparison, keras: Group, bare: Group, is_same: bool) -> Overhead:
    other = ", each trains other LoRA parameters" if comparison.other_factors else ""
    return Overhead(
        work=f"{comparison.name}{other}",
        keras=keras.sut,
        bare=bare.sut,
        ratio=comparison.ratio(keras, bare),
        keras_ms=tables.row(keras)["ms_per_step"],
        bare_ms=tables.row(bare)["ms_per_step"],
        keras_token_ms=_token_ms(keras),
        bare_token_ms=_token_ms(bare),
        cost=is_same and not comparison.other_factors,
    )


def _token_ms(group: Group) -> float | None:
    rate = tables.row(group)["tokens_per_second"]
    if not rate or group.cell.task == FIT:
        return None
    return 1e3 * group.cell.batch_size / float(rate)


def upgrades(content: Content) -> list[Upgrade]:
    """Return an upgrade for each Keras 3 SUT whose counterpart of Keras 2 was measured."""
    found = []
    for comparison in content.conclusive:
        for new in comparison.good:
            spec = SUTS.get(new.cell.sut)
            for old in comparison.good:
                if spec and old.cell.sut == spec.on_keras2:
                    ratio = comparison.ratio(new, old)
                    suts = {"keras3": new.sut, "keras2": old.sut}
                    found.append(Upgrade(work=comparison.name, **suts, ratio=ratio))
    return found


def _row(o: Overhead) -> Row:
    times: list[Cell] = ["", "", ""]
    if o.keras_ms and o.bare_ms:
        more = f"{1000 * (o.keras_ms - o.bare_ms):+,.0f} µs"
        times = [f"{short(o.keras_ms)} ms", f"{short(o.bare_ms)} ms", more]
    token = ""
    if o.keras_token_ms and o.bare_token_ms:
        token = f"{short(o.keras_token_ms)}, {short(o.bare_token_ms)} ms"
    return [o.keras, o.bare, *times, token, ratio_cell(o.ratio)]
