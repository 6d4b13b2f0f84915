"""Compare two sets of cells: which belong together, how much faster one is, and why a comparison is
refused or weak.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from formats.cell import LORA, STANDARD_INPUTS, Cell, cell_words, fields_with
from formats.result import Result
from harness.comparison import statistics, tables
from harness.comparison.runs import Run, find, read
from harness.comparison.tables import Group
from results.figure import short, with_facts
from sut.registry import FIT, SUTS

_PUBLISHED_FILE = "keras3_a100_40gb.csv"
_PUBLISHED_WORK = ("model", "task", "batch_size", "seq_len")
SHARED = tuple(fields_with("shared"))
"""The fields of `Cell` that a page states once at its top if all its cells share the value."""
_KERAS_FILE = "keras_file"
OTHER_FACTORS = "their LoRA trains different parameters"
NOT_IN_TURNS = (
    "the repeats were not measured in turns, so a drift of the machine between the two counts as a"
    " difference"
)


@dataclass(frozen=True, kw_only=True)
class Pair:
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
    a_figure: str
    b_figure: str
    ratio: statistics.Ratio | None
    verdict: str
    flags: tuple[str, ...]
    comparable: bool
    unproven: str


def compare(
    a: Sequence[Group], b: Sequence[Group], names: tuple[str, str] = ("A", "B")
) -> list[Pair]:
    """Compare every cell of B with the cell of A that did the same work.

    Cells belong together if SUT, model, size, task, scenario, precision, batch, device, lengths,
    inputs and weights are equal. The SUTs may differ if each side has exactly one for that work. If
    a cell was measured several times in different ways (mode, versions, machine), the last one
    counts. A cell without a partner gives a comparison too, whose verdict says so.
    """
    newest_b = _newest(b)
    machines = {group.cell.digest: group.last.machine for group in newest_b}
    newest_a = _newest(a, machines)
    pairs = _partners(newest_a, newest_b)
    used = {group for pair in pairs for group in pair}
    found = [_compared(x, y, names) for x, y in pairs]
    found += [_pair(None, y, f"only in {names[1]}") for y in newest_b if y not in used]
    found += [_pair(x, None, f"only in {names[0]}") for x in newest_a if x not in used]
    return found


def published_for(cell: Cell) -> dict[str, float]:
    """SUT → its published milliseconds a step for a cell's model, task and batch. A training is
    published for one batch, which counts for all of ours. Empty for a tuned, quantised or
    replicated cell.
    """
    if cell.tuned or cell.quantized or cell.replicas:
        return {}
    found: dict[str, float] = {}
    for (model, task, batch_size), times in published().items():
        is_same = (model, task) == (cell.model, cell.task)
        if is_same and (batch_size == cell.batch_size or task == FIT):
            found |= times
    return found


def published() -> dict[tuple[str, str, int], dict[str, float]]:
    """(model, task, batch size) → SUT → milliseconds a step, from Keras' published table."""
    file = resources.files("harness.comparison") / "published" / _PUBLISHED_FILE
    lines = file.read_text(encoding="utf-8").splitlines()
    table = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        times = {sut: float(row[sut]) for sut in row if sut not in _PUBLISHED_WORK and row[sut]}
        table[row["model"], row["task"], int(row["batch_size"])] = times
    return table


def describe(group: Group, without: Collection[str] = (), *, exact: bool = False) -> str:
    """The work of a cell in words: `bert mid predict, Offline, float32, batch 32, cpu, 128
    tokens`. See `parts`.
    """
    return ", ".join(parts(group, without, exact=exact))


def parts(
    group: Group, without: Collection[str] = (), *, exact: bool = False, facts: bool = False
) -> list[str]:
    """The work of a cell in words, in parts: the model with its task, the scenario, and so on.

    Args:
        without: fields of `Cell` that are left out.
        exact: whether to name the user's inputs, the chat template and environment variables
            exactly. Otherwise digests and variables are left out.
        facts: whether to name the model with its layers, width and parameters.
    """
    cell = group.cell.of_work
    name = named(group) if facts else called(group)
    words = [f"{name} {cell.task}", cell.scenario]
    if cell.task == FIT:
        words = [f"{name} {cell.scenario}"]
    if exact:
        return words + cell_words(cell, without) + _words(cell, "variables")
    digests = ["chat"] if cell.dataset in STANDARD_INPUTS else ["chat", "dataset"]
    return words + cell_words(cell, (*without, *digests))


def named(group: Group) -> str:
    """The name of the model with its layers, width and parameters, for the first place where a
    report names it.
    """
    return with_facts(called(group), group.last.result.model_facts)


def called(group: Group) -> str:
    """The name of the model: that of a user's folder, or else of the model and its size."""
    record = group.last.record
    cell = group.cell
    if record is None or record.digests.weights_folder is None:
        return f"{cell.model} {cell.size}"
    if record.architecture == _KERAS_FILE:
        return cell.model
    folder = Path(record.digests.weights_folder)
    if folder.parent.name == "snapshots":  # in the Hub's cache, models--ORGANISATION--NAME
        return folder.parents[1].name.removeprefix("models--").replace("--", "/")
    return folder.name


def shared(groups: Sequence[Group]) -> dict[str, list[str]]:
    """The fields of SHARED that all groups have in common → their values in words."""
    if not groups:
        return {}
    first, *others = (group.cell for group in groups)
    equal = {}
    for name in SHARED:
        value = getattr(first, name)
        if all(getattr(other, name) == value for other in others):
            equal[name] = _words(first, name)
    return equal


def _words(cell: Cell, name: str) -> list[str]:
    value = getattr(cell, name)
    if isinstance(value, Mapping):
        return [f"{variable}={text}" for variable, text in sorted(value.items())]
    return [str(value)]


def figure(group: Group) -> str:
    """The figure with its unit and interval: `627 samples/s (612–640)`. Empty if there is none."""
    s = group.summary
    text = mean(group)
    if s is None or s.low is None or s.high is None:
        return text
    return f"{text} ({short(s.low)}–{short(s.high)})"


def mean(group: Group) -> str:
    """`612 samples/s`. Empty if the cell has no figure."""
    if group.summary is None or group.metric is None:
        return ""
    return f"{short(group.summary.mean)} {group.metric.unit}"


def differences(a: Group, b: Group) -> list[str]:
    """List the differences between two measurements of the same work, one sentence each."""
    sentences = conditions(a, b)
    if other_factors((a.cell, b.cell)):
        sentences.append(OTHER_FACTORS)
    one, other = (", ".join(group.cell.switches) for group in (a, b))
    if a.cell.sut == b.cell.sut and one != other:
        sentences.append(f"other switches: {one} / {other}")
    x = a.last.versions
    y = b.last.versions
    for name in dict.fromkeys([*x, *y]):
        is_of_both = name in x and name in y
        if x.get(name) == y.get(name) or (a.cell.sut != b.cell.sut and not is_of_both):
            continue
        sentences.append(f"other version of {name}: {x.get(name, 'none')} / {y.get(name, 'none')}")
    named = map(canonicalize_name, {*x, *y})
    others = moved(a, b, {*named}) if a.cell.sut == b.cell.sut else {}
    if others:
        words = (f"{name} {one} / {other}" for name, (one, other) in others.items())
        sentences.append(f"other packages: {', '.join(words)}")
    return sentences


def moved(a: Group, b: Group, without: Collection[str]) -> dict[str, tuple[str, str]]:
    """Distribution → its versions in the environments of two groups, for each that differs.

    `without`: packages that are left out. Empty if one of the groups reported none.
    """
    x, y = installed(a), installed(b)
    names = sorted({*x, *y} - {*without}) if x and y else []
    versions = {name: (x.get(name, "none"), y.get(name, "none")) for name in names}
    return {name: both for name, both in versions.items() if both[0] != both[1]}


def installed(group: Group) -> dict[str, str]:
    """Distribution, in the normal form → its version in the SUT's environment."""
    return {canonicalize_name(name): v for name, v in group.last.installed.items()}


def conditions(a: Group, b: Group) -> list[str]:
    """List the differences in the conditions of two measurements, one sentence each, the most
    important first.

    SUTs and their packages are not conditions.
    """
    x = a.last
    y = b.last
    sentences = []
    if x.machine != y.machine:
        sentences.append(f"other machine: {x.machine or 'unknown'} / {y.machine or 'unknown'}")
    settings: dict[str, tuple[Any, Any]] = {
        "mode": (x.result.mode, y.result.mode),
        "round": (x.result.round, y.result.round),
        "planned duration": (x.planned_seconds, y.planned_seconds),
    }
    if x.record and y.record:
        for field in ("operating_system", "kernel", "governor", "boost"):
            both = (getattr(x.record.machine, field), getattr(y.record.machine, field))
            settings[field.replace("_", " ")] = both
    for name, (one, other) in settings.items():
        if one != other:
            sentences.append(f"other {name}: {one} / {other}")
    if x.source != y.source:
        sentences.append(_source(x, y))
    return sentences


def _source(x: Run, y: Run) -> str:
    """Return a sentence on the different source of the SUTs or the worker."""
    revisions: dict[str, None] = {}
    for run in (x, y):
        revision = run.record.git.revision if run.record else None
        revisions[(revision or "unknown")[:12]] = None
    if len(revisions) > 1:
        return f"other source of the SUTs or the worker: revision {' / '.join(revisions)}"
    return (
        f"other source of the SUTs or the worker: revision {next(iter(revisions))}, with files"
        " that were edited"
    )


def other_factors(cells: Iterable[Cell]) -> bool:
    """Return whether the cells that train by their library's own LoRA have factors in different
    layouts.
    """
    own = [cell.sut for cell in cells if cell.lora == LORA[0]]
    layouts = {SUTS[sut].lora for sut in own if sut in SUTS}
    return len(layouts) > 1


def beside_earlier(result: Result) -> str | None:
    """Compare a run with the last earlier run of its cell and mode, in one sentence. None if it is
    the first one, or has no figure.

    The earlier runs are those in the same parent folder as the run.
    """
    directory = result.directory
    if not directory:
        return None
    found, _ = find(Path(directory).parent)
    others = [each for each in found if each.directory != directory]
    if not others:
        return None
    last = read(result)
    earlier = _earlier(last, map(read, others))
    if not earlier:
        return None
    new = Group(runs=(last,))
    before = Group(runs=(earlier[-1],))
    changes = differences(before, new)
    if earlier[-1].disturbances:
        why = "; ".join(earlier[-1].disturbances)
        changes.append(f"that run was disturbed: {why}")
    if last.disturbances:
        changes.append(f"this run was disturbed: {'; '.join(last.disturbances)}")
    if not changes:
        changes.append("no setting or version that is recorded differs")
    equal = [run for run in earlier if not differences(Group(runs=(run,)), new)]
    every = Group(runs=(*equal, last))
    summary = every.summary
    if summary and summary.low is not None:
        repeats = summary.repeats
        changes.append(f"the {repeats} runs so far: {figure(every)}")
    return (
        f"{tables.ratio(new, before).value:.3g} × the speed of"
        f" {Path(earlier[-1].result.directory).name}: {'; '.join(changes)}"
    )


def _earlier(last: Run, others: Iterable[Run]) -> list[Run]:
    """The earlier runs of the same mode with a figure of the same kind, in order. `others`: of the
    same cell.
    """
    if not last.metric:
        return []
    new = Group(runs=(last,))
    earlier = []
    for run in others:
        is_earlier = run.result.mode == last.result.mode and run.order < last.order
        if is_earlier and run.metric and tables.alike(Group(runs=(run,)), new):
            earlier.append(run)
    return sorted(earlier, key=lambda run: run.order)


def _newest(groups: Iterable[Group], machines: Mapping[str, str] | None = None) -> list[Group]:
    """The last measured group of each cell, with or without figures, so that an old success hides
    no new failure.

    `machines`: digest of a cell → the machine whose group is preferred, if there is one.
    """

    def rank(group: Group) -> tuple[bool, Any]:
        preferred = (machines or {}).get(group.cell.digest)
        return group.last.machine == preferred, group.order

    kept: dict[str, Group] = {}
    for group in groups:
        other = kept.get(group.cell.digest)
        if other is None or rank(group) > rank(other):
            kept[group.cell.digest] = group
    return list(kept.values())


def _partners(a: Sequence[Group], b: Sequence[Group]) -> list[tuple[Group, Group]]:
    """(a cell of A, its partner of B) for each cell that has one."""
    by_digest = {group.cell.digest: group for group in a}
    pairs = [(by_digest[y.cell.digest], y) for y in b if y.cell.digest in by_digest]
    used = {group for pair in pairs for group in pair}
    for y in b:
        same = [group for group in (*a, *b) if group.work == y.work]
        if y not in used and len(same) == 2 and same[0] in a and same[1] in b:
            pairs.append((same[0], y))
    return pairs


def _pair(
    a: Group | None,
    b: Group | None,
    verdict: str,
    flags: Sequence[str] = (),
    ratio: statistics.Ratio | None = None,
    unproven: str = "",
) -> Pair:
    """Return a pair. `a` or `b` is None for a cell that only the other side has."""
    group = b or a
    assert group
    return Pair(
        name=describe(group, exact=True),
        a=a.sut if a else "",
        b=b.sut if b else "",
        a_figure=figure(a) if a else "",
        b_figure=figure(b) if b else "",
        ratio=ratio,
        verdict=verdict,
        flags=tuple(flags),
        comparable=ratio is not None,
        unproven=unproven if ratio else verdict,
    )


def _compared(a: Group, b: Group, names: tuple[str, str]) -> Pair:
    """Return the pair of two cells with the same work."""
    flags = differences(a, b)
    for name, group in zip(names, (a, b), strict=True):
        if not group.good:
            return _pair(a, b, f"no figure in {name}: {group.last.obstacle}", flags)
    if a.metric and b.metric and not tables.alike(a, b):
        x, y = (f"{metric.name} by {metric.estimate}" for metric in (a.metric, b.metric))
        return _pair(a, b, f"refused: other statistics ({x} / {y})", flags)
    ratio = tables.ratio(b, a)
    if ratio.method == "Welch t":
        flags.append(NOT_IN_TURNS)
    sides: dict[str, list[str]] = {}
    for name, group in zip(names, (a, b), strict=True):
        for reason in group.unranked:
            sides.setdefault(reason, []).append(name)
    flags += [f"not ranked ({' and '.join(of)}): {reason}" for reason, of in sides.items()]
    unsure = ""
    if ratio.unsure and not ratio.different:
        between = statistics.interval(ratio.low or 0, ratio.high or 0)
        unsure = f"the ratio is uncertain by more than a factor of two ({between})"
    one, other = names if a.sut == b.sut else (a.sut, b.sut)
    verdict = f"inconclusive, because {unsure}" if unsure else ratio.verdict(other, one)
    return _pair(a, b, verdict, flags, ratio, _unproven(a, b, ratio, unsure))


def _unproven(a: Group, b: Group, ratio: statistics.Ratio, unsure: str) -> str:
    """Return why a ratio proves nothing. Empty if it is proven."""
    if a.last.machine != b.last.machine:
        return "the two were measured on different machines"
    if ratio.low is None or ratio.high is None:
        return f"it has too few repeats ({min(ratio.repeats)}, and {statistics.FEWEST} are needed)"
    failures = [group.failure for group in (a, b) if group.failure_counts]
    return next(filter(None, (unsure, a.disturbed, b.disturbed, *failures)), "")
