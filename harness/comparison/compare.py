"""Compare two sets of cells: which belong together, how much faster one is, and why a comparison is
refused or weak.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from formats.cell import LORA, STANDARD_INPUTS, Cell, cell_words, fields_with
from formats.result import Result
from harness.comparison import statistics, tables
from harness.comparison.runs import find, read
from harness.comparison.tables import Group
from harness.figure import short
from sut.registry import FIT, SUTS

_UNSURE = "the ratio is uncertain by more than a factor of two"
PUBLISHED = "published"
"""The name of Keras' published table on the command line."""
_PUBLISHED_FILE = "keras3_a100_40gb.csv"
NOT_IN_TURNS = (
    "the repeats were not measured in turns, so a drift of the machine between the two counts as a"
    " difference"
)
SHARED = tuple(fields_with("shared"))
"""The fields of `Cell` that a page states once at its top if all its cells share the value."""
_PUBLISHED_MACHINE = "NVIDIA A100 40 GB, 12 vCPU, 85 GB"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A cell of B compared with the same cell of A.

    Attributes:
        name: the cell in words, without the SUT.
        a, b: the SUTs; `a_figure` and `b_figure` are their figures with unit, as text. Empty if
            there is none.
        ratio: the speed of B over the speed of A; None if they are not comparable or one has no
            figure.
        verdict: one sentence.
        flags: other differences, a sentence each. The ratio includes their effect.
        comparable: whether the ratio shows which of the two is faster.
        unproven: why the ratio proves nothing, so that no build may pass or fail because of it;
            empty if it is proven.
    """

    name: str
    a: str
    b: str
    a_figure: str = ""
    b_figure: str = ""
    ratio: statistics.Ratio | None = None
    verdict: str
    flags: tuple[str, ...] = ()
    comparable: bool = True
    unproven: str = ""

    def __post_init__(self) -> None:
        """Set `unproven` to the verdict if the two are not comparable."""
        if not self.comparable:
            object.__setattr__(self, "unproven", self.verdict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """One figure of a published table, in milliseconds a step. `seq_len`: tokens an input; None for
    other inputs.
    """

    sut: str
    model: str
    task: str
    batch_size: int
    seq_len: int | None
    ms_per_step: float


def compare(
    a: Sequence[Group], b: Sequence[Group], names: tuple[str, str] = ("A", "B")
) -> list[Comparison]:
    """Compare every cell of B with the cell of A that did the same work.

    Cells belong together if SUT, model, size, task, scenario, precision, batch, device, lengths,
    inputs and weights are equal. The SUTs may differ if each side has exactly one for that work. If
    a cell was measured several times in different ways (mode, versions, machine), the last one
    counts. A cell without a partner gives a comparison too, whose verdict says what differs.
    """
    newest = _newest(b)
    pairs, alone_a, alone_b = _pairs(
        _newest(a, {group.cell.digest: group.last.machine for group in newest}), newest
    )
    comparisons = [_of_pair(x, y, names) for x, y in pairs]
    comparisons += [_alone(y, alone_a, names) for y in alone_b]
    partners = {id(near) for y in alone_b if (near := _near(y, alone_a))}
    comparisons += [
        Comparison(
            name=describe(x),
            a=x.sut,
            b="",
            a_figure=figure(x),
            verdict=f"only in {names[0]}",
            comparable=False,
        )
        for x in alone_a
        if id(x) not in partners
    ]
    return comparisons


def with_published(groups: Iterable[Group]) -> list[Comparison]:
    """Show every cell with the published figure of its SUT and work (`published_for`). None is
    comparable, because the machines differ.
    """
    comparisons = []
    for group in _newest(groups):
        c, row = group.cell, tables.row(group)
        # For Stable Diffusion a step is a denoising step.
        ours = row["ms_per_denoising_step"] or row["ms_per_step"]
        theirs = published_for(c).get(c.sut)
        if theirs is None or not ours or not group.good:
            continue
        times = theirs.ms_per_step / ours
        comparisons.append(
            Comparison(
                name=describe(group),
                a=theirs.sut,
                b=group.sut,
                a_figure=f"{theirs.ms_per_step:,.4g} ms/step",
                b_figure=f"{ours:,.4g} ms/step",
                verdict=(
                    "not comparable: another machine and another way of measuring (their time is"
                    f" {times:.3g} × ours)"
                ),
                flags=tuple(_beside_published(group, theirs)),
                comparable=False,
            )
        )
    return comparisons


def published_for(cell: Cell) -> dict[str, Published]:
    """SUT → its published figure for a cell's model, task and batch. A training is published for
    one batch, which is shown for all of ours.
    """
    same = [p for p in published() if (p.model, p.task) == (cell.model, cell.task)]
    return {p.sut: p for p in same if p.batch_size == cell.batch_size or p.task == FIT}


def published() -> list[Published]:
    """All figures of the published table."""
    text = (resources.files("harness.comparison") / "published" / _PUBLISHED_FILE).read_text(
        encoding="utf-8"
    )
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    fixed = ("model", "task", "batch_size", "seq_len")
    return [
        Published(
            sut=sut,
            model=row["model"],
            task=row["task"],
            batch_size=int(row["batch_size"]),
            seq_len=int(row["seq_len"]) if row["seq_len"] else None,
            ms_per_step=float(value),
        )
        for row in rows
        for sut, value in row.items()
        if sut not in fixed and value
    ]


def describe(group: Group, without: Collection[str] = ()) -> str:
    """The work of a cell in words: `bert base predict, Offline, float32, batch 32, cpu, 128
    tokens`.

    `without`: fields of `Cell` that are left out.
    """
    cell = group.cell
    kind = cell.scenario if cell.task == FIT else f"{cell.task}, {cell.scenario}"
    parts = [f"{cell.model} {cell.size} {kind}", *cell_words(cell, without)]
    if "variables" not in without:
        parts += _words(cell, "variables")
    return ", ".join(parts)


def shared(groups: Sequence[Group]) -> dict[str, list[str]]:
    """The fields of SHARED that all groups have in common → their values in words."""
    cells = [group.cell for group in groups]
    return {
        name: _words(cells[0], name)
        for name in SHARED
        if cells and all(getattr(c, name) == getattr(cells[0], name) for c in cells)
    }


def _words(cell: Cell, name: str) -> list[str]:
    value = getattr(cell, name)
    return (
        [f"{variable}={text}" for variable, text in sorted(value.items())]
        if isinstance(value, Mapping)
        else [str(value)]
    )


def figure(group: Group) -> str:
    """The figure with its unit and interval: `627 samples/s (612–640)`. Empty if there is none."""
    s, metric = group.summary, group.metric
    if s is None or metric is None:
        return ""
    around = (
        f" ({short(s.low)}–{short(s.high)})" if s.low is not None and s.high is not None else ""
    )
    return f"{short(s.median)} {metric.unit}{around}"


def differences(a: Group, b: Group) -> list[str]:
    """List the differences between two measurements of the same work, one sentence each."""
    x, y = a.last, b.last
    sentences = conditions(a, b)
    changed = [
        name
        for name in dict.fromkeys([*x.versions, *y.versions])
        if x.versions.get(name) != y.versions.get(name)
    ]
    if other_factors((a.cell, b.cell)):
        sentences.append("their LoRA trains different parameters (--lora matched trains the same)")
    if a.cell.sut != b.cell.sut:
        changed = [name for name in changed if name in x.versions and name in y.versions]
    return sentences + [
        f"other version of {n}: {x.versions.get(n, 'none')} / {y.versions.get(n, 'none')}"
        for n in changed
    ]


def conditions(a: Group, b: Group) -> list[str]:
    """List the differences in the conditions of two measurements, one sentence each, the most
    important first.

    SUTs and their packages are not conditions.
    """
    x, y = a.last, b.last
    sentences = (
        []
        if x.machine == y.machine
        else [f"other machine: {x.machine or 'unknown'} / {y.machine or 'unknown'}"]
    )
    for what, one, other in (
        ("mode", x.result.mode, y.result.mode),
        ("round", x.result.round, y.result.round),
        ("planned duration", x.planned_seconds, y.planned_seconds),
    ):
        if one != other:
            sentences.append(f"other {what}: {one} / {other}")
    for name in ("operating_system", "kernel", "governor", "boost"):
        if x.record is None or y.record is None:
            break
        one, other = (getattr(record.machine, name) for record in (x.record, y.record))
        if one != other:
            sentences.append(f"other {name.replace('_', ' ')}: {one} / {other}")
    if x.source != y.source:
        both = [run.record.git.revision if run.record else None for run in (x, y)]
        revisions = list(dict.fromkeys((revision or "unknown")[:12] for revision in both))
        of = (
            " / ".join(revisions)
            if len(revisions) > 1
            else f"{revisions[0]}, with files that were edited"
        )
        sentences.append(f"other source of the SUTs or the worker: revision {of}")
    return sentences


def other_factors(cells: Iterable[Cell]) -> bool:
    """Return whether the cells that train by their library's own LoRA (`--lora own`) have factors
    in different layouts.
    """
    return (
        len({SUTS[cell.sut].lora for cell in cells if cell.lora == LORA[0] and cell.sut in SUTS})
        > 1
    )


def beside_earlier(result: Result) -> str | None:
    """Compare a run with the last earlier run of its cell and mode, in one sentence. None if it is
    the first one, or has no figure.

    The earlier runs are those in the same parent folder as the run.
    """
    last = read(result)
    beside = (
        [read(other) for other in find(Path(result.directory).parent)[0]]
        if result.directory and last.metric
        else []
    )
    alike_ones = [
        r for r in beside if r.metric and tables.alike(Group(runs=(r,)), Group(runs=(last,)))
    ]
    earlier = sorted(
        (r for r in alike_ones if r.result.mode == result.mode and r.order < last.order),
        key=lambda r: r.order,
    )
    if not earlier:
        return None
    before, new = Group(runs=(earlier[-1],)), Group(runs=(last,))
    disturbed = [
        f"{name} was disturbed: {why}"
        for name, run in (("that run", earlier[-1]), ("this run", last))
        if (why := run.disturbances[0])
    ]
    changed = [*differences(before, new), *disturbed]
    alike = Group(runs=(*(r for r in earlier if not differences(Group(runs=(r,)), new)), last))
    meaning = "; ".join(changed) or "no setting or version that is recorded differs"
    if alike.summary and alike.summary.spread is not None:
        meaning += f"; the {alike.summary.repeats} runs so far: {figure(alike)}"
    return (
        f"{tables.ratio(new, before).value:.3g} × the speed of"
        f" {Path(earlier[-1].result.directory).name}: {meaning}"
    )


def _newest(groups: Iterable[Group], machines: Mapping[str, str] | None = None) -> list[Group]:
    """The last measured group of each cell, with or without figures, so that an old success hides
    no new failure.

    `machines`: digest of a cell → the machine whose group is preferred, if there is one.
    """
    kept: dict[str, Group] = {}
    for group in groups:
        preferred = (machines or {}).get(group.cell.digest)
        other = kept.get(group.cell.digest)
        if other is None or (group.last.machine == preferred, group.order) > (
            other.last.machine == preferred,
            other.order,
        ):
            kept[group.cell.digest] = group
    return list(kept.values())


def _pairs(
    a: Sequence[Group], b: Sequence[Group]
) -> tuple[list[tuple[Group, Group]], list[Group], list[Group]]:
    """(pairs, the rest of A, the rest of B)."""
    by_digest = {group.cell.digest: group for group in a}
    pairs = [(by_digest[y.cell.digest], y) for y in b if y.cell.digest in by_digest]
    used = {id(group) for pair in pairs for group in pair}
    rest_a, rest_b = ([g for g in side if id(g) not in used] for side in (a, b))
    for y in rest_b:
        mine, theirs = ([g for g in side if g.work == y.work] for side in (a, b))
        if len(mine) == len(theirs) == 1:
            pairs.append((mine[0], y))
    used = {id(group) for pair in pairs for group in pair}
    return pairs, [g for g in rest_a if id(g) not in used], [g for g in rest_b if id(g) not in used]


def _of_pair(a: Group, b: Group, names: tuple[str, str]) -> Comparison:
    flags = differences(a, b)
    labels = names if a.sut == b.sut else (a.sut, b.sut)
    base: dict[str, Any] = {
        "name": describe(b),
        "a": a.sut,
        "b": b.sut,
        "a_figure": figure(a),
        "b_figure": figure(b),
    }
    for name, group in zip(names, (a, b), strict=True):
        if not group.good:
            reason = group.last.result.reason
            verdict = (
                f"no figure in {name}: {group.last.result.status}{': ' + reason if reason else ''}"
            )
            return Comparison(**base, verdict=verdict, flags=tuple(flags), comparable=False)
    if a.metric and b.metric and not tables.alike(a, b):
        verdict = (
            f"refused: other statistics ({a.metric.name} by {a.metric.estimate} / {b.metric.name}"
            f" by {b.metric.estimate})"
        )
        return Comparison(**base, verdict=verdict, flags=tuple(flags), comparable=False)
    ratio = tables.ratio(b, a)
    if ratio.method == "Welch t":
        flags.append(NOT_IN_TURNS)
    unranked = {
        reason: [name for name, g in zip(names, (a, b), strict=True) if reason in g.unranked]
        for reason in (*a.unranked, *b.unranked)
    }
    flags += [f"not ranked ({' and '.join(sides)}): {reason}" for reason, sides in unranked.items()]
    verdict, unproven = ratio.verdict(labels[1], labels[0]), _unproven(a, b, ratio)
    if ratio.unsure and not ratio.different:
        verdict = (
            f"inconclusive, because {_UNSURE}"
            f" ({statistics.interval(ratio.low or 0, ratio.high or 0)})"
        )
    return Comparison(**base, ratio=ratio, verdict=verdict, flags=tuple(flags), unproven=unproven)


def _unproven(a: Group, b: Group, ratio: statistics.Ratio) -> str:
    if a.last.machine != b.last.machine:
        return "the two were measured on different machines"
    if ratio.low is None or ratio.high is None:
        return f"it has too few repeats ({min(ratio.repeats)}, and {statistics.FEWEST} are needed)"
    if ratio.unsure and not ratio.different:
        return f"{_UNSURE} ({statistics.interval(ratio.low, ratio.high)})"
    wrong = (group.failure for group in (a, b) if group.failure in group.unranked)
    return next((why for why in (a.disturbed, b.disturbed, *wrong) if why), "")


def _alone(y: Group, others: Sequence[Group], names: tuple[str, str]) -> Comparison:
    near = _near(y, others)
    if near is None:
        return Comparison(
            name=describe(y),
            a="",
            b=y.sut,
            b_figure=figure(y),
            verdict=f"only in {names[1]}",
            comparable=False,
        )
    differing = [
        f"{n.replace('_', ' ')} {one} / {other}"
        for (n, one), (_, other) in zip(near.work, y.work, strict=True)
        if one != other
    ]
    differing += [] if near.sut == y.sut else [f"SUT {near.sut} / {y.sut}"]
    return Comparison(
        name=describe(y),
        a=near.sut,
        b=y.sut,
        a_figure=figure(near),
        b_figure=figure(y),
        verdict=f"refused: this is other work ({', '.join(differing)})",
        comparable=False,
    )


def _near(y: Group, others: Sequence[Group]) -> Group | None:
    """The cell of the other side that differs in the fewest values. None if no cell has the same
    SUT, model, task and scenario.
    """
    same = [
        x
        for x in others
        if all(
            getattr(x.cell, n) == getattr(y.cell, n) for n in ("sut", "model", "task", "scenario")
        )
    ]
    return min(
        same,
        key=lambda x: sum(one != other for one, other in zip(x.work, y.work, strict=True)),
        default=None,
    )


def _beside_published(group: Group, theirs: Published) -> Iterator[str]:
    c = group.cell
    yield f"machine: {_PUBLISHED_MACHINE} / {group.last.machine or 'unknown'}"
    if c.size != "full":
        yield f"size: theirs is the published model, ours is {c.size}"
    if c.batch_size != theirs.batch_size:
        yield f"batch: {theirs.batch_size} / {c.batch_size}"
    if theirs.seq_len and c.seq_len != theirs.seq_len:
        yield f"tokens an input: {theirs.seq_len} / {c.seq_len}"
    if c.dataset not in STANDARD_INPUTS or c.size == "user":
        yield "inputs or weights: ours are a user's"
    if c.dataset == "uneven" and c.task == "generate":
        yield "inputs: our prompts are of uneven length"
    if c.lora == LORA[1]:
        yield "LoRA: theirs is what KerasHub or peft adapts by itself, ours is --lora matched"
    yield f"precision: their table does not state it, ours is {c.precision}"
    yield "method: theirs is the mean of 100 steps, without a check of answers or of what ran"
