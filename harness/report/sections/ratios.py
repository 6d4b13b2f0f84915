"""A section on pairs of cells that differ in one thing: which is faster, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from formats.cell import LORA, STANDARD_INPUTS
from harness.comparison import compare, partners
from harness.comparison.compare import published_for
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, NATIVE_TORCH, Content
from harness.report.section import Row, Section, Table, grouped, ratio_cell
from results.figure import calls_until_paid, short
from sut.registry import FIT, SUTS, framework_of

_COMPILED_TORCH = "native-torch-compile"
_COLUMNS = ("SUT", "compared with", "its figure", "the other's", "speed over it", "remark")


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Two groups that differ in one thing.

    Attributes:
        work: the work of both, in words.
        ratio: the speed of A over that of B; None: one of them has no figure.
        remark: another number or a reason, in words; empty if there is none.
    """

    work: str
    a: Group
    b: Group
    ratio: Ratio | None
    remark: str = ""

    @property
    def row(self) -> Row:
        """The pair as a row of a table."""
        found = "–" if self.ratio is None else ratio_cell(self.ratio)
        figures = (compare.mean(self.a), compare.mean(self.b))
        return self.a.sut, self.b.sut, *figures, found, self.remark


def section(content: Content) -> Section:
    """A table for each kind of pairs."""
    conclusive = content.conclusive
    costs = [pair for each in conclusive for pair in _keras_costs(each)]
    upgrades = [pair for each in conclusive for pair in _upgrades(each)]
    tuned = list(_tuned(content))
    replicas = list(_replicas(content))
    tables = {
        "Keras 3 over the same framework without it, and over PyTorch": costs,
        "Keras 3 over Keras 2": upgrades,
        "Compiled over eager": [p for each in conclusive for p in paybacks(each)],
        "Tuned over the same SUT as it comes": tuned,
        "Replicas: efficiency": replicas,
    }
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
        sentences=[*_best_gains(tuned), *_efficiencies(replicas)],
        tables=[_table(title, pairs) for title, pairs in tables.items()],
        data={
            "keras_overheads": [asdict(_overhead(pair)) for pair in costs],
            "keras_upgrades": [
                {"work": p.work, "keras3": p.a.sut, "keras2": p.b.sut, "ratio": asdict(_known(p))}
                for p in upgrades
            ],
        },
    )


def _table(title: str, pairs: Iterable[Contrast]) -> Table:
    groups = grouped((pair.work, pair.row) for pair in pairs)
    return Table(title=title, columns=_COLUMNS, texts=2, groups=groups)


def _known(pair: Contrast) -> Ratio:
    assert pair.ratio
    return pair.ratio


def _as_locked(comparison: Comparison) -> list[Group]:
    """The groups with figures whose packages are as locked. A section of its own has the others."""
    return [group for group in comparison.good if not group.cell.packages]


def _keras_costs(comparison: Comparison) -> Iterator[Contrast]:
    """Each Keras 3 SUT compared with its own framework, and with native PyTorch."""
    other = ", each trains other LoRA parameters" if comparison.other_factors else ""
    for keras in _as_locked(comparison):
        spec = SUTS.get(keras.cell.sut)
        if spec is None or not keras.cell.sut.startswith("keras3-"):
            continue
        for bare in _as_locked(comparison):
            if bare.cell.sut in (spec.without_keras, NATIVE_TORCH, _COMPILED_TORCH):
                yield Contrast(
                    work=f"{comparison.name}{other}",
                    a=keras,
                    b=bare,
                    ratio=comparison.ratio(keras, bare),
                    remark=", ".join(filter(None, (_more(keras, bare), _published(keras, bare)))),
                )


def _upgrades(comparison: Comparison) -> Iterator[Contrast]:
    """Each Keras 3 SUT compared with its counterpart of Keras 2."""
    for new in _as_locked(comparison):
        spec = SUTS.get(new.cell.sut)
        for old in _as_locked(comparison):
            if spec and old.cell.sut == spec.on_keras2:
                ratio = comparison.ratio(new, old)
                remark = _published(new, old)
                yield Contrast(work=comparison.name, a=new, b=old, ratio=ratio, remark=remark)


@dataclass(frozen=True)
class _Overhead:
    """A row of `keras_overheads` in the JSON document, which its schema describes."""

    work: str
    keras: str
    bare: str
    ratio: Ratio
    keras_ms: float | None
    bare_ms: float | None
    keras_token_ms: float | None
    bare_token_ms: float | None
    cost: bool


def _overhead(pair: Contrast) -> _Overhead:
    is_same = pair.b.cell.sut == SUTS[pair.a.cell.sut].without_keras
    return _Overhead(
        work=pair.work,
        keras=pair.a.sut,
        bare=pair.b.sut,
        ratio=_known(pair),
        keras_ms=pair.a.numbers["ms_per_step"],
        bare_ms=pair.b.numbers["ms_per_step"],
        keras_token_ms=_token_ms(pair.a),
        bare_token_ms=_token_ms(pair.b),
        cost=is_same and not compare.other_factors((pair.a.cell, pair.b.cell)),
    )


def _more(keras: Group, bare: Group) -> str:
    """How much longer a batch takes with Keras, and the time of a token with it and without."""
    with_keras = keras.numbers["ms_per_step"]
    without = bare.numbers["ms_per_step"]
    if not with_keras or not without:
        return ""
    text = f"{1000 * (with_keras - without):+,.0f} µs a batch"
    tokens = (_token_ms(keras), _token_ms(bare))
    return f"{text}, {short(tokens[0])} and {short(tokens[1])} ms a token" if all(tokens) else text


def _token_ms(group: Group) -> float | None:
    """The milliseconds in which each answer of a batch gets a token."""
    rate = group.numbers["tokens_per_second"]
    if not rate or group.cell.task == FIT:
        return None
    return 1e3 * group.cell.batch_size / rate


def _published(a: Group, b: Group) -> str:
    """Keras' published ratio of the two SUTs for the same work. Empty if there is none."""
    cell = a.cell
    times = published_for(cell)
    # The published BERT reads padded texts, and the published prompts have one length.
    is_uneven = cell.dataset == "uneven" and cell.task == "generate"
    is_other = cell.dataset not in STANDARD_INPUTS or cell.size == "user" or cell.lora == LORA[1]
    if cell.scenario == "SingleStream" or is_uneven or is_other:
        return ""
    if cell.sut not in times or b.cell.sut not in times:
        return ""
    return f"published {times[b.cell.sut] / times[cell.sut]:.3g} ×"


def paybacks(comparison: Comparison) -> Iterator[Contrast]:
    """Each compiled SUT compared with the fastest eager one of its framework, or of all if its
    framework has none, if the two are shown to differ.
    """
    timed = {group: ms for group in _as_locked(comparison) if (ms := group.numbers["ms_per_step"])}
    eager = [group for group in timed if group.execution == "eager"]
    for group, ms in timed.items():
        compiling = {
            "cold": group.numbers["compile_seconds"],
            "warm": group.numbers["cached_compile_seconds"],
        }
        if not eager or not any(compiling.values()):
            continue
        framework = framework_of(group.cell.sut)
        same = [each for each in eager if framework_of(each.cell.sut) == framework]
        base = min(same or eager, key=lambda each: timed[each])
        ratio = comparison.ratio(group, base)
        if not ratio.different:
            continue
        texts = []
        for state, seconds in compiling.items():
            calls = calls_until_paid(seconds, (timed[base] - ms) / 1e3)
            if calls is not None:
                texts.append(f"pays after {calls:,.0f} batches {state}")
        yield Contrast(
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
        work = compare.describe(plain, content.shared)
        yield Contrast(work=work, a=tuned, b=plain, ratio=gain, remark=", ".join(remarks))


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
        work = compare.describe(one, ("replicas", *content.shared))
        remark = f"{many.cell.replica_count} replicas"
        if efficiency is None:
            remark = _obstacle(many, one)
        yield Contrast(work=work, a=many, b=one, ratio=efficiency, remark=remark)


def _efficiencies(pairs: Iterable[Contrast]) -> list[str]:
    """`…: efficiency 0.97 (0.95–0.99) of 4 × one replica` for each pair with an efficiency."""
    sentences = []
    for pair in pairs:
        ratio = pair.ratio
        if ratio:
            between = "no interval"
            if ratio.low is not None and ratio.high is not None:
                between = f"{ratio.low:.3g}–{ratio.high:.3g}"
            times = f"{ratio.value:.3g} ({between}) of {pair.a.cell.replica_count}"
            sentences.append(f"{pair.a.sut}, {pair.work}: efficiency {times} × one replica")
    return sentences[:MOST_SENTENCES]


def _obstacle(a: Group, b: Group) -> str:
    """Return why two groups have no ratio."""
    for group in (a, b):
        if not group.good:
            return group.last.obstacle
    return "their figures are not the same statistic"
