"""Groups of repeats → what a report says over all contests: the headline, sentences, and tables. Nothing is drawn or written here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path

from formats.cell import Cell
from formats.result import Result
from harness.comparison import compare, statistics, tables
from harness.comparison.pooled import mean_ratio
from harness.comparison.runs import find
from harness.comparison.tables import Group, place_of
from harness.report import computing, costs, hf_2019, scaling, shapes, tails
from harness.report.contest import Contest, listed
from sut.registry import FIT, SUTS

_MOST_SENTENCES = 12
_WIDE = 0.1  # of an interval that holds 1: half its width, from which on more repeats are advised
_BARE, _COMPILED_BARE = "native-torch-eager", "native-torch-compile"


@dataclass(frozen=True, kw_only=True)
class Payback:
    """After how many calls compiling pays.

    Attributes:
        compile_seconds: what compiling all shapes took.
        calls: of a batch, after which a compiled and an eager SUT have taken equally long; None: the compiled one is not faster.
    """

    work: str
    sut: str
    eager: str
    compile_seconds: float
    calls: float | None


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Keras 3 beside a SUT without Keras.

    Attributes:
        ratio: the speed of Keras over that of the other.
        keras_ms, bare_ms: milliseconds of a batch, medians of the repeats; None where a result does not tell them.
        keras_token_ms, bare_token_ms: milliseconds in which each answer of a batch gets a token, on average; None of a model that predicts.
        cost: whether both run on the same framework, so that they differ by Keras and its library of models.
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
    """Keras 3 beside Keras 2, with the same framework and execution.

    Attributes:
        ratio: the speed of Keras 3 over that of Keras 2.
    """

    work: str
    keras3: str
    keras2: str
    ratio: statistics.Ratio


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything a report says.

    Attributes:
        source: the folder, as the reader knows it.
        twins: control runs: cells that a sweep measured once more.
        faults: result.json that could not be read → why.
        not_measured: why cells of sweeps could not be measured → their labels.
    """

    source: str
    groups: list[Group]
    twins: list[Group] = field(default_factory=list)
    faults: dict[Path, str] = field(default_factory=dict)
    not_measured: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def contests(self) -> list[Contest]:
        """The contests, in the order of model, task, scenario, batch and length."""
        shared, labels = tuple(self.shared), self.machine_labels
        keyed: dict[object, list[Group]] = {}
        for group in self.groups:
            near = group if group.good or group.last.machine else _started(group, self.groups)
            keyed.setdefault((near.work, near.last.result.mode, near.last.machine), []).append(group)
        for of_one in keyed.values():  # the first gives the contest its name
            of_one.sort(key=lambda g: not g.last.machine)
        named: dict[str, list[Group]] = {}
        for first, *_ in keyed.values():
            named.setdefault(compare.describe(first), []).append(first)
        contests = []
        for of_one in keyed.values():
            apart = _apart(of_one[0], named[compare.describe(of_one[0])], labels)
            contests.append(Contest.of(of_one, apart, self.twins, shared))
        return contests

    @cached_property
    def shared(self) -> dict[str, list[str]]:
        """The precision, device and environment variables that all cells have in common, in words. The page says them once, at its top."""
        return compare.shared(self.groups)

    @cached_property
    def preface(self) -> str:
        """One sentence on all cells: the settings that they share, and the machine, or the machines with their names."""
        facts = [text for words in self.shared.values() for text in words]
        labels = self.machine_labels
        machines = [f"{labels[name]}: {name}" if labels else name for name in self.machines]
        return "; ".join(filter(None, [f"all cells: {', '.join(facts)}" if facts else "", *(machines or ["unknown machine"])]))

    @property
    def machine_labels(self) -> dict[str, str]:
        """Machine → a short name, if there are several."""
        return {name: f"machine {n}" for n, name in enumerate(self.machines, 1)} if len(self.machines) > 1 else {}

    @cached_property
    def suts(self) -> list[str]:
        """Every SUT there is a row of, in the order of the registry."""
        return [*dict.fromkeys(g.sut for g in sorted(self.groups, key=lambda g: place_of(g.cell.sut)))]

    @cached_property
    def obstacles(self) -> list[str]:
        """Why SUTs have no place in a contest, as far as the registry and the sweeps know: a sentence for each reason."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for contest, sut in product(self.contests, self.suts):
            if reason := contest.obstacle(sut):
                found.setdefault((f"{contest.groups[0].cell.model} {contest.groups[0].cell.task}", reason), {})[sut] = None
        known = {reason for _, reason in found}
        of_sweeps = {reason: labels for reason, labels in self.not_measured.items() if reason not in known}
        return [
            *(f"{listed(list(suts))}, {work}: {reason}" for (work, reason), suts in found.items()),
            *(f"{labels[0]}{f' and {len(labels) - 1} more' if len(labels) > 1 else ''}: {reason}" for reason, labels in of_sweeps.items()),
        ]

    @cached_property
    def machines(self) -> list[str]:
        """The machines that were measured on."""
        return list(dict.fromkeys(g.last.machine for g in self.groups if g.last.machine))

    @cached_property
    def headline(self) -> str:
        """The answer over all contests that have more than one SUT, in one sentence."""
        contested = [c for c in self.contests if len(c.good) > 1]
        if not contested:
            if several := [c for c in self.contests if len(c.groups) > 1]:
                more = f", and {len(several) - 1} more without two figures" if len(several) > 1 else ""
                return f"{several[0].name}: {several[0].answer}{more}"
            count = sum(bool(g.good) for g in self.current)
            return f"{statistics.plural(count, 'cell')} with a figure, and no two SUTs did the same work: nothing is compared"
        if len(contested) == 1:
            return f"{contested[0].name}: {contested[0].answer}"
        ranked = [c for c in contested if c.decided]
        if not ranked:
            return f"{len(contested)} comparisons, none of them decided: {_commonest(contested)}"
        open_ones = len(contested) - len(ranked)
        rest = f"; {open_ones} more {'is' if open_ones == 1 else 'are'} not decided" if open_ones else ""
        wins = {sut: sum(c.entries[sut].best for c in ranked if sut in c.entries) for sut in self.suts}
        if all(len(c.leading) == 1 for c in ranked):
            each = [f"{sut} in {count}" for sut, count in sorted(wins.items(), key=lambda item: -item[1]) if count]
            return f"fastest in {statistics.plural(len(ranked), 'comparison')}: {', '.join(each)}{rest}"
        most = max(wins.values())
        best = [sut for sut in wins if wins[sut] == most]
        words = f"{best[0]} is" if len(best) == 1 else f"{listed(best)} are each"
        return f"{words} fastest, or not shown to be slower than any, in {most} of {len(ranked)} comparisons{rest}"

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences below the headline: answers of several contests, means, the benchmark of 2019, matrix products, noise."""
        contested = [c for c in self.contests if len(c.good) > 1]
        batches = scaling.sentences(self.scales)[:_MOST_SENTENCES]
        if len(contested) < 2:
            sections = (tails, costs, shapes, computing)
            own = [sentence for c in contested for section in sections for sentence in section.sentences(c)]
            return [*batches, *self.means, *self.words_of_2019, *own, *self.products, *self.noise]
        more = len(contested) - _MOST_SENTENCES
        rest = [f"and {statistics.plural(more, 'comparison')} more: in the table"] if more > 0 else []
        common = "" if any(c.decided for c in contested) else _commonest(contested)  # the headline says it of all
        answers = [f"{c.name}: {c.finding if common and c.unranked == common else c.answer}" for c in contested[:_MOST_SENTENCES]]
        told = [f"{c.name}: {sentence}" for section in (tails, shapes) for c in contested for sentence in section.sentences(c)]
        return [*answers, *rest, *told[: 2 * _MOST_SENTENCES], *batches, *self.means, *self.words_of_2019, *self.products, *self.noise]

    @cached_property
    def conclusive(self) -> list[Contest]:
        """The contests whose runs may show which SUT is faster. Only these give ratios to the sections below the table."""
        return [contest for contest in self.contests if not contest.inconclusive]

    @cached_property
    def scales(self) -> list[scaling.Scale]:
        """Speed over batch and lengths, where the same work was done with several."""
        return scaling.scales(self.conclusive, self.machine_labels)

    @cached_property
    def current(self) -> list[Group]:
        """The groups of the contests, without earlier measurements of the same cells."""
        return [group for contest in self.contests for group in contest.groups]

    @cached_property
    def noise(self) -> list[str]:
        """A sentence for each control run: how much it differs from the cell that it repeats, which is noise only."""
        pairs = [(c, group, ratio) for c in self.contests for group, ratio in c.control_ratios]
        return [f"control run: {group.sut} measured twice a round, {c.name}: {_noise(ratio)}" for c, group, ratio in pairs]

    @cached_property
    def products(self) -> list[str]:
        """Sentences on how fast each framework multiplies large matrices, and by which library."""
        return computing.product_sentences(self.current)

    @cached_property
    def means(self) -> list[str]:
        """Mean speeds over the contests that all compared SUTs are ranked in, a sentence a machine; none of fewer than two contests.

        LoRA that trains other parameters in each library does not count.
        """
        found = []
        for machine in self.machines:
            label = self.machine_labels.get(machine, "")
            contested = [c for c in self.conclusive if c.groups[0].last.machine == machine and len(c.field) > 1]
            sentence = self._mean_speeds([c for c in contested if not c.unranked and not c.other_factors])
            found += [f"{label}: {sentence}" if label else sentence] if sentence else []
        return found

    def _mean_speeds(self, contested: Sequence[Contest]) -> str:
        fields = [{g.sut for g in c.field} for c in contested]
        order = [sut for sut in self.suts if any(sut in field for field in fields)]
        base = _BARE if _BARE in order else next(iter(order), "")
        common = [c for c, field in zip(contested, fields, strict=True) if field.issuperset(order)]
        if len(common) < 2 or len(order) < 2:
            return ""
        ratios = {sut: _mean_ratio(common, sut, base, len(order)) for sut in order if sut != base}
        each = ", ".join(f"{sut} {_mean_words(r)}" for sut, r in ratios.items())
        return f"mean speed (geometric) over the {len(common)} comparisons that all SUTs have, compared with {base}: {each}"

    @cached_property
    def benchmark_of_2019(self) -> list[hf_2019.Again]:
        """The figures of Hugging Face's benchmark of 2019, of the runs of its models; none where there are none."""
        return hf_2019.again(contest.good for contest in self.conclusive)

    @property
    def words_of_2019(self) -> list[str]:
        """What these figures say."""
        return [sentence for again in self.benchmark_of_2019 for sentence in again.words]

    @cached_property
    def paybacks(self) -> list[Payback]:
        """A payback for each compiled SUT, beside the fastest eager one."""
        return [payback for contest in self.conclusive for payback in _paybacks(contest)]

    @cached_property
    def overheads(self) -> list[Overhead]:
        """The cost of each Keras 3 SUT beside its own framework without Keras, and beside native PyTorch, eager and compiled."""
        return [
            Overhead(
                work=f"{c.name}{', each trains other LoRA parameters' if c.other_factors else ''}",
                keras=g.sut,
                bare=bare.sut,
                ratio=c.ratio(g, bare),
                keras_ms=tables.row(g)["ms_per_step"],
                bare_ms=tables.row(bare)["ms_per_step"],
                keras_token_ms=_token_ms(g),
                bare_token_ms=_token_ms(bare),
                cost=bare.cell.sut == SUTS[g.cell.sut].without_keras and not c.other_factors,
            )
            for c in self.conclusive
            for g in c.good
            if g.cell.sut.startswith("keras3-") and g.cell.sut in SUTS
            for bare in c.good
            if bare.cell.sut in (SUTS[g.cell.sut].without_keras, _BARE, _COMPILED_BARE)
        ]

    @cached_property
    def upgrades(self) -> list[Upgrade]:
        """An upgrade for each Keras 3 SUT that has a SUT of Keras 2 beside it."""
        return [
            Upgrade(work=c.name, keras3=new.sut, keras2=old.sut, ratio=c.ratio(new, old))
            for c in self.conclusive
            for new in c.good
            for old in c.good
            if new.cell.sut in SUTS and old.cell.sut == SUTS[new.cell.sut].on_keras2
        ]

    @cached_property
    def advice(self) -> list[str]:
        """Sentences on how far to trust the figures, each with the cells it is about, and one on how many cells are left out."""
        said: dict[str, list[str]] = {}
        for g in self.current:
            for sentence in g.advice:
                said.setdefault(sentence if sentence == g.failure else sentence.partition(" (")[0], []).append(
                    f"{g.sut}, {compare.describe(g, self.shared)}"
                )
        for contest in self.contests:
            for sentence, suts in contest.unlike.items():
                said.setdefault(sentence, []).append(f"{contest.good[0].sut} beside {listed(suts)}, {contest.name}")
        sentences = [
            f"{text}: {cells[0]}" + (f" and {statistics.plural(len(cells) - 1, 'other cell')}" if len(cells) > 1 else "")
            for text, cells in said.items()
        ]
        widest = max((r.spread for c in self.contests for r in c.ratios.values() if r.spread and not r.different), default=0.0)
        if widest > _WIDE:
            more = "more repeats tell smaller ones (sweep --repeats N, or --until 5%)"
            least = f"{widest:.0%}" if widest < 1 else f"a factor of {1 + widest:.2g}"
            sentences.insert(0, f"in some places no difference below {least} can be shown: {more}")
        if older := sum(contest.older for contest in self.contests):
            cells = f"{statistics.plural(older, 'cell')} measured earlier"
            sentences.append(f"left out: {cells}, by other versions, other files of SUTs, or for another time (see ./run.sh history)")
        return sentences


def _mean_ratio(contests: Sequence[Contest], sut: str, base: str, compared: int) -> statistics.Ratio:
    """The speed of one SUT over another's, as a geometric mean over contests."""
    pairs = [(contest.pooled.series[sut], contest.pooled.series[base]) for contest in contests]
    return mean_ratio(pairs, compared=compared)


def _mean_words(ratio: statistics.Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3g} ×"
    between = statistics.interval(ratio.low, ratio.high)
    return f"{ratio.value:.3g} × ({between})" if ratio.different else f"no difference shown ({between})"


def _token_ms(group: Group) -> float | None:
    rate = tables.row(group)["tokens_per_second"]
    return 1e3 * group.cell.batch_size / rate if rate and group.cell.task != FIT else None


def gather(root: Path, source: str, not_measured: dict[str, list[str]] | None = None) -> Content:
    """What there is to say of the run directories below a folder. `not_measured`: see `Content`."""
    results, faults = find(root)
    return replace(of_results(results, source), faults=faults, not_measured=not_measured or {})


def of_results(results: Sequence[Result], source: str) -> Content:
    """What there is to say of results and the files beside them."""
    return Content(source=source, groups=tables.grouped(results), twins=tables.grouped(results, twins=True))


def _started(group: Group, groups: Iterable[Group]) -> Group:
    """Return a group that started and did the same work as `group`, whose cell never started. Return `group` itself if there is none.

    A cell that never started knows no machine. It may also lack the digest of its weights, and a length that its inputs decide.
    """
    unknown = {"weights": Cell.weights, "seq_len": None}
    mine = [(name, value) for name, value in group.work if unknown.get(name, ()) != value]
    mode = group.last.result.mode
    return next((g for g in groups if g.last.machine and g.last.result.mode == mode and not set(mine) - set(g.work)), group)


def _apart(group: Group, same: Sequence[Group], machines: Mapping[str, str]) -> str:
    """Return what tells a group from others whose work has the same name: mode, machine, weights or end tokens. Empty if nothing does."""
    values = [
        (g.last.result.mode, machines.get(g.last.machine, ""), f"weights {g.cell.weights}", g.cell.eos and f"end tokens: {g.cell.eos}")
        for g in (group, *same)
    ]
    return ", ".join(text for n, text in enumerate(values[0]) if text and any(other[n] != text for other in values))


def _paybacks(contest: Contest) -> Iterator[Payback]:
    eager = [(g, t) for g in contest.good if g.execution == "eager" and (t := tables.row(g)["ms_per_step"])]
    if not eager:
        return
    base, base_ms = min(eager, key=lambda pair: pair[1])
    for group in contest.good:
        row = tables.row(group)
        if row["compile_seconds"] and row["ms_per_step"]:
            saved = base_ms - row["ms_per_step"]
            calls = 1e3 * row["compile_seconds"] / saved if saved > 0 else None
            yield Payback(work=contest.name, sut=group.sut, eager=base.sut, compile_seconds=row["compile_seconds"], calls=calls)


def _noise(ratio: statistics.Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"their ratio is {ratio.value:.3g}, with too few repeats for an interval"
    meaning = "so no difference is shown, as it should be"
    if ratio.different or ratio.unsure:
        meaning = "though both are the same" if ratio.different else "which is far too uncertain"
    return f"their ratio is {ratio.value:.3g} ({statistics.interval(ratio.low, ratio.high)}), {meaning}"


def _commonest(contests: Sequence[Contest]) -> str:
    reasons = [c.inconclusive or c.unranked or "too few repeats" for c in contests]
    return max(dict.fromkeys(reasons), key=reasons.count)
