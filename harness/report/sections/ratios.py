"""A section on pairs of cells that differ in one thing: which is faster, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any

from harness.comparison import compare, partners
from harness.comparison.collected import collected
from harness.comparison.compare import published_for
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, NATIVE_TORCH, Content
from harness.report.section import Row, Section, Table, ratio_cell
from results.figure import calls_until_paid, short
from sut.registry import FIT, SUTS, framework_of

_COMPILED_TORCH = "native-torch-compile"
_COSTS = "Keras 3 over the same framework without it, and over PyTorch"
_UPGRADES = "Keras 3 over Keras 2"
_COMPILED = "Compiled over eager"
_TUNED = "Tuned over the same SUT as it comes"
_REPLICAS = "Replicas: efficiency"
_COLUMNS = ("SUT", "compared with", "its figure", "the other's", "speed over it", "remark")


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Two groups that differ in one thing.

    Attributes:
        kind: what kind of difference it is, which is the title of a table.
        work: the work of both, in words.
        ratio: the speed of A over that of B; None: one of them has no figure.
        remark: another number or a reason, in words; empty if there is none.
    """

    kind: str
    work: str
    a: Group
    b: Group
    ratio: Ratio | None
    remark: str


def section(content: Content) -> Section:
    """A table for each kind of pairs."""
    pairs = [*_tuned(content), *_replicas(content)]
    for comparison in content.conclusive:
        # A section of its own has packages that are not as locked.
        locked = [group for group in comparison.good if not group.cell.packages]
        pairs += [*_keras(comparison, locked), *_paybacks(comparison, locked)]
    kinds = collected((pair.kind, pair) for pair in pairs)
    return Section(
        title="One thing changed",
        note=(
            "Each row compares a SUT with another one that differs in one thing. Above 1 the"
            " first is faster. In brackets is the 95 % interval. The published ratio is that of"
            " Keras' own table, of an NVIDIA A100 and models of full size, so the two show only"
            " whether the same side is faster (docs/use/comparing.md). Compiling pays as soon as"
            " the time that the batches save is longer: cold if no compiled program was on disk,"
            " warm if some were. The more sets of switches were measured for a cell, the larger a"
            " gain has to be to be shown. The efficiency of replicas is their speed over as many"
            " times that of one of them, which ran by itself (docs/use/scale.md)."
        ),
        sentences=[*_best_gains(kinds.get(_TUNED, ())), *_efficiencies(kinds.get(_REPLICAS, ()))],
        tables=[
            Table(title=kind, columns=_COLUMNS, texts=2, groups=collected(map(_row, kinds[kind])))
            for kind in (_COSTS, _UPGRADES, _COMPILED, _TUNED, _REPLICAS)
            if kind in kinds
        ],
        data={
            "keras_overheads": list(map(_overhead, kinds.get(_COSTS, ()))),
            "keras_upgrades": [
                {"work": p.work, "keras3": p.a.sut, "keras2": p.b.sut, "ratio": _ratio(p)}
                for p in kinds.get(_UPGRADES, ())
            ],
        },
    )


def _row(pair: Contrast) -> tuple[str, Row]:
    """(the work, the row of a table)."""
    figures = (compare.mean(pair.a), compare.mean(pair.b))
    speed = ratio_cell(pair.ratio) if pair.ratio else "–"
    return pair.work, (pair.a.sut, pair.b.sut, *figures, speed, pair.remark)


def _ratio(pair: Contrast) -> dict[str, Any] | None:
    return asdict(pair.ratio) if pair.ratio else None


def _keras(comparison: Comparison, groups: Sequence[Group]) -> Iterator[Contrast]:
    """Each Keras 3 SUT compared with its own framework, with native PyTorch, and with its
    counterpart of Keras 2.
    """
    work = comparison.name
    other = ", each trains other LoRA parameters" if comparison.other_factors else ""
    for keras, rival in permutations(groups, 2):
        spec = SUTS.get(keras.cell.sut)
        if spec is None or not keras.cell.sut.startswith("keras3-"):
            continue
        if rival.cell.sut in (spec.without_keras, NATIVE_TORCH, _COMPILED_TORCH):
            yield Contrast(
                kind=_COSTS,
                work=f"{work}{other}",
                a=keras,
                b=rival,
                ratio=comparison.ratio(keras, rival),
                remark=", ".join(filter(None, (_more(keras, rival), _published(keras, rival)))),
            )
        elif rival.cell.sut == spec.on_keras2:
            yield Contrast(
                kind=_UPGRADES,
                work=work,
                a=keras,
                b=rival,
                ratio=comparison.ratio(keras, rival),
                remark=_published(keras, rival),
            )


def _overhead(pair: Contrast) -> dict[str, Any]:
    """An item of `keras_overheads` in the JSON document."""
    keras = pair.a
    bare = pair.b
    is_same = bare.cell.sut == SUTS[keras.cell.sut].without_keras
    return dict(  # noqa: C408
        work=pair.work,
        keras=keras.sut,
        bare=bare.sut,
        ratio=_ratio(pair),
        keras_ms=keras.numbers["ms_per_step"],
        bare_ms=bare.numbers["ms_per_step"],
        keras_token_ms=_token_ms(keras),
        bare_token_ms=_token_ms(bare),
        cost=is_same and not compare.other_factors((keras.cell, bare.cell)),
    )


def _more(keras: Group, bare: Group) -> str:
    """How much longer a batch takes with Keras, and the time of a token with it and without."""
    with_keras = keras.numbers["ms_per_step"]
    without = bare.numbers["ms_per_step"]
    tokens = (_token_ms(keras), _token_ms(bare))
    if not with_keras or not without:
        return ""
    text = f"{1000 * (with_keras - without):+,.0f} µs a batch"
    if all(tokens):
        text += f", {short(tokens[0])} and {short(tokens[1])} ms a token"
    return text


def _token_ms(group: Group) -> float | None:
    """The milliseconds in which each answer of a batch gets a token."""
    rate = group.numbers["tokens_per_second"]
    return 1e3 * group.cell.batch_size / rate if rate and group.cell.task != FIT else None


def _published(a: Group, b: Group) -> str:
    """Keras' published ratio of the two SUTs for the same work. Empty if there is none."""
    times = published_for(a.cell)
    one, other = (times.get(group.cell.sut) for group in (a, b))
    return f"published {other / one:.3g} ×" if one and other else ""


def _paybacks(comparison: Comparison, groups: Sequence[Group]) -> Iterator[Contrast]:
    """Each compiled SUT compared with the fastest eager one of its framework, or of all if its
    framework has none, if the two are shown to differ.
    """
    times = {group: ms for group in groups if (ms := group.numbers["ms_per_step"])}
    eager = [group for group in times if group.execution == "eager"]
    for group, ms in times.items():
        numbers = group.numbers
        compiling = {"cold": numbers["compile_seconds"], "warm": numbers["cached_compile_seconds"]}
        if not eager or not any(compiling.values()):
            continue
        framework = framework_of(group.cell.sut)
        same = [each for each in eager if framework_of(each.cell.sut) == framework]
        base = min(same or eager, key=lambda each: times[each])
        ratio = comparison.ratio(group, base)
        if not ratio.different:
            continue
        texts = []
        for state, seconds in compiling.items():
            calls = calls_until_paid(seconds, (times[base] - ms) / 1e3)
            if calls is not None:
                texts.append(f"pays after {calls:,.0f} batches {state}")
        yield Contrast(
            kind=_COMPILED,
            work=comparison.name,
            a=group,
            b=base,
            ratio=ratio,
            remark=", ".join(texts) or "does not pay here",
        )


def _tuned(content: Content) -> Iterator[Contrast]:
    """Each tuned cell compared with the same one without switches, the largest gain first."""
    found = partners.tuned(content.current)
    found.sort(key=lambda each: (each[0].cell.sut, -each[2].value if each[2] else 0.0))
    for tuned, plain, gain in found:
        accuracy = tuned.last.result.accuracy
        remarks = [] if gain else [_obstacle(tuned, plain)]
        if gain and (tuned.unranked or plain.unranked):
            remarks.append("not ranked")
        if accuracy:
            remarks.append(f"error {accuracy.value:.3g} of {accuracy.threshold:.3g}")
        yield Contrast(
            kind=_TUNED,
            work=compare.describe(plain, content.shared),
            a=tuned,
            b=plain,
            ratio=gain,
            remark=", ".join(remarks),
        )


def _best_gains(pairs: Iterable[Contrast]) -> list[str]:
    """Return a sentence for each work with the largest gain of each SUT."""
    best: dict[str, dict[str, str]] = {}
    for pair in pairs:
        if pair.ratio and not pair.a.unranked and not pair.b.unranked:
            cell = pair.a.cell
            gain = f"{cell.sut} {pair.ratio.times()} ({' + '.join(cell.switches)})"
            best.setdefault(pair.work, {}).setdefault(cell.sut, gain)
    return [
        f"tuned, compared with the same SUT as it comes, {work}: {', '.join(gains.values())}"
        for work, gains in best.items()
    ][:MOST_SENTENCES]


def _replicas(content: Content) -> Iterator[Contrast]:
    """Each cell of several replicas compared with one of them."""
    found = partners.replicated(content.current)
    for many, one, efficiency in sorted(found, key=lambda each: each[0].cell.replica_count):
        remark = f"{many.cell.replica_count} replicas" if efficiency else _obstacle(many, one)
        yield Contrast(
            kind=_REPLICAS,
            work=compare.describe(one, ("replicas", *content.shared)),
            a=many,
            b=one,
            ratio=efficiency,
            remark=remark,
        )


def _efficiencies(pairs: Iterable[Contrast]) -> list[str]:
    """`…: efficiency 0.97 (0.95–0.99) of 4 × one replica` for each pair with an efficiency."""
    sentences = []
    for pair in pairs:
        ratio = pair.ratio
        if ratio:
            between = "no interval"
            if ratio.low and ratio.high:
                between = f"{ratio.low:.3g}–{ratio.high:.3g}"
            times = f"{ratio.value:.3g} ({between}) of {pair.a.cell.replica_count}"
            sentences.append(f"{pair.a.sut}, {pair.work}: efficiency {times} × one replica")
    return sentences[:MOST_SENTENCES]


def _obstacle(a: Group, b: Group) -> str:
    """Return why two groups have no ratio."""
    obstacles = [group.last.obstacle for group in (a, b) if not group.good]
    return next(iter(obstacles), "their figures are not the same statistic")
