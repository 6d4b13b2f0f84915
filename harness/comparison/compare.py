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

from packaging.utils import canonicalize_name

from formats.cell import LORA, STANDARD_INPUTS, Cell, cell_words, fields_with
from formats.result import Result
from harness.comparison import statistics
from harness.comparison.collected import collected
from harness.comparison.runs import Run, find, read
from harness.comparison.statistics import Ratio
from harness.comparison.tables import Group, alike, ratio
from results.figure import short, with_facts
from sut.registry import FIT, SUTS

_PUBLISHED_FILE = "keras3_a100_40gb.csv"
_PUBLISHED_WORK = ("model", "task", "batch_size", "seq_len")
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
    ratio: Ratio | None
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
    newest_b = _newest(b, {})
    newest_a = _newest(a, {digest: y.machine for digest, y in newest_b.items()})
    every = [*newest_a.values(), *newest_b.values()]
    pairs: list[tuple[Group | None, Group]] = []
    for digest, y in sorted(newest_b.items(), key=lambda item: item[0] not in newest_a):
        same = [group for group in every if group.work == y.work]
        is_pair = len(same) == 2 and same[0].cell.digest in newest_a
        pairs.append((newest_a.get(digest, same[0] if is_pair else None), y))
    pairs.sort(key=lambda pair: pair[0] is None)
    partners = [x for x, _ in pairs]
    found = [_pair(x, y, names) for x, y in pairs]
    return found + [_pair(x, None, names) for x in newest_a.values() if x not in partners]


def published_for(cell: Cell) -> dict[str, float]:
    """SUT → its published milliseconds a step for a cell's model, task and batch. A training is
    published for one batch, which counts for all of ours. Empty for a tuned, quantised or
    replicated cell, for a latency, and for inputs, weights or a LoRA that are not the published
    ones.
    """
    # The published BERT reads padded texts, and the published prompts have one length.
    is_uneven = cell.dataset == "uneven" and cell.task == "generate"
    is_other = cell.dataset not in STANDARD_INPUTS or cell.size == "user" or cell.lora == LORA[1]
    is_changed = cell.tuned or cell.quantized or cell.replicas
    if is_uneven or is_other or is_changed or cell.scenario == "SingleStream":
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
        return words + cell_words(cell, without) + variables(cell)
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
    """The fields of `Cell` with the role `shared` that have one value in all groups → their values
    in words. A page states them once, at its top.
    """
    equal = {}
    for name in fields_with("shared"):
        values = [getattr(group.cell, name) for group in groups]
        if values and all(value == values[0] for value in values):
            equal[name] = variables(groups[0].cell) if name == "variables" else [str(values[0])]
    return equal


def variables(cell: Cell) -> list[str]:
    """The environment variables of a cell: `OMP_NUM_THREADS=1`."""
    return [f"{name}={value}" for name, value in sorted(cell.variables.items())]


def figure(group: Group) -> str:
    """The figure with its unit and interval: `627 samples/s (612–640)`. Empty if there is none."""
    return " ".join(filter(None, (mean(group), between(group))))


def mean(group: Group) -> str:
    """`612 samples/s`. Empty if the cell has no figure."""
    if group.summary is None or group.metric is None:
        return ""
    return f"{short(group.summary.mean)} {group.metric.unit}"


def between(group: Group) -> str:
    """`(612–640)`, the interval of the figure. Empty if there is none."""
    s = group.summary
    return f"({short(s.low)}–{short(s.high)})" if s and s.low else ""


def differences(a: Run, b: Run) -> list[str]:
    """List the differences between two measurements of the same work, one sentence each."""
    x = a.result.cell
    y = b.result.cell
    sentences = conditions(a, b)
    if other_factors((x, y)):
        sentences.append(OTHER_FACTORS)
    if x.sut == y.sut and x.switches != y.switches:
        sentences.append(f"other switches: {', '.join(x.switches)} / {', '.join(y.switches)}")
    sentences += releases(a, b)
    packages = moved(a, b, (*a.versions, *b.versions), " / ")
    if packages and x.sut == y.sut:
        sentences.append(f"other packages: {packages}")
    return sentences


def releases(a: Run, b: Run) -> list[str]:
    """List the packages of two SUTs whose versions differ, one sentence each. If the SUTs differ,
    only packages of both count.
    """
    names = [*a.versions, *b.versions]
    if a.result.cell.sut != b.result.cell.sut:
        names = [name for name in a.versions if name in b.versions]
    changed = _changed(a.versions, b.versions, names)
    return [f"other version of {name}: {one} / {other}" for name, one, other in changed]


def moved(a: Run, b: Run, without: Iterable[str], between: str = " → ") -> str:
    """The packages whose versions in the environments of two runs differ: `numpy 2.4.6 → 2.5.0,
    …`. Empty if there is none, or if one of the runs reported none.

    `without`: packages that are left out.
    """
    x = a.installed
    y = b.installed
    if not x or not y:
        return ""
    names = sorted({*x, *y}.difference(map(canonicalize_name, without)))
    changed = _changed(x, y, names)
    return ", ".join(f"{name} {one}{between}{other}" for name, one, other in changed)


def conditions(a: Run, b: Run) -> list[str]:
    """List the differences in the conditions of two measurements, one sentence each, the most
    important first.

    SUTs and their packages are not conditions.
    """
    x = _settings(a)
    y = _settings(b)
    changed = _changed(x, y, [name for name in x if name in y])
    sentences = [f"other {name}: {one} / {other}" for name, one, other in changed]
    if a.source != b.source:
        revisions = [run.record and run.record.git.revision for run in (a, b)]
        names = dict.fromkeys((revision or "unknown")[:12] for revision in revisions)
        edited = "" if len(names) > 1 else ", with files that were edited"
        words = f"revision {' / '.join(names)}{edited}"
        sentences.append(f"other source of the SUTs or the worker: {words}")
    return sentences


def _settings(run: Run) -> dict[str, Any]:
    """The conditions of a run that are a word or a number, by their names in a sentence."""
    result = run.result
    settings = {
        "machine": run.machine or "unknown",
        "mode": result.mode,
        "round": result.round,
        "planned duration": run.planned_seconds,
    }
    if run.record:
        machine = run.record.machine
        settings |= {
            "operating system": machine.operating_system,
            "kernel": machine.kernel,
            "governor": machine.governor,
            "boost": machine.boost,
        }
    return settings


def _changed(
    x: Mapping[str, Any], y: Mapping[str, Any], names: Iterable[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, its value in X, in Y) of each name whose values differ."""
    for name in dict.fromkeys(names):
        one = x.get(name, "none")
        other = y.get(name, "none")
        if one != other:
            yield name, one, other


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
    if not result.directory:
        return None
    last = read(result)
    new = Group(runs=(last,))
    results, _ = find(Path(result.directory).parent)
    earlier = []
    for each in results:
        run = read(each)
        is_earlier = each.mode == result.mode and run.order < last.order
        if is_earlier and run.metric and last.metric and alike(Group(runs=(run,)), new):
            earlier.append(run)
    if not earlier:
        return None
    earlier.sort(key=lambda run: run.order)
    before = earlier[-1]
    changes = differences(before, last)
    for name, run in (("that", before), ("this", last)):
        if run.disturbances:
            changes.append(f"{name} run was disturbed: {'; '.join(run.disturbances)}")
    if not changes:
        changes.append("no setting or version that is recorded differs")
    equal = [run for run in earlier if not differences(run, last)]
    every = Group(runs=(*equal, last))
    if between(every):
        changes.append(f"the {len(every.figures)} runs so far: {figure(every)}")
    speed = ratio(new, Group(runs=(before,))).value
    name = Path(before.result.directory).name
    return f"{speed:.3g} × the speed of {name}: {'; '.join(changes)}"


def _newest(groups: Iterable[Group], machines: Mapping[str, str]) -> dict[str, Group]:
    """Digest of each cell → the last measured group of it, with or without figures, so that an old
    success hides no new failure.

    `machines`: digest of a cell → the machine whose group is preferred, if there is one.
    """

    def rank(group: Group) -> tuple[bool, Any]:
        return group.machine == machines.get(group.cell.digest), group.runs[-1].order

    of_cells = collected((group.cell.digest, group) for group in groups)
    return {digest: max(of_one, key=rank) for digest, of_one in of_cells.items()}


def _pair(a: Group | None, b: Group | None, names: tuple[str, str]) -> Pair:
    """Return the pair of two cells with the same work. None: only the other side has it."""
    sides = [(name, group) for name, group in zip(names, (a, b), strict=True) if group]
    verdict = unproven = f"only in {sides[0][0]}"
    flags: list[str] = []
    speed = None
    if a and b:
        flags = differences(a.last, b.last)
        lacking = [(name, group) for name, group in sides if not group.good]
        kinds = [f"{metric.name} by {metric.estimate}" for metric in (a.metric, b.metric) if metric]
        if lacking:
            name, group = lacking[0]
            verdict = unproven = f"no figure in {name}: {group.last.obstacle}"
        elif not alike(a, b):
            verdict = unproven = f"refused: other statistics ({' / '.join(kinds)})"
        else:
            speed = ratio(b, a)
            verdict, unproven = _judged(a, b, speed, names)
    if speed:
        flags += [NOT_IN_TURNS] if speed.method == "Welch t" else []
        reasons = collected((reason, name) for name, group in sides for reason in group.unranked)
        flags += [f"not ranked ({' and '.join(of)}): {reason}" for reason, of in reasons.items()]
    return Pair(
        name=describe(sides[-1][1], exact=True),
        a=a.sut if a else "",
        b=b.sut if b else "",
        a_figure=figure(a) if a else "",
        b_figure=figure(b) if b else "",
        ratio=speed,
        verdict=verdict,
        flags=tuple(flags),
        comparable=speed is not None,
        unproven=unproven,
    )


def _judged(a: Group, b: Group, speed: Ratio, names: tuple[str, str]) -> tuple[str, str]:
    """Return (the verdict, why it proves nothing). The second is empty if it is proven."""
    one, other = names if a.sut == b.sut else (a.sut, b.sut)
    verdict = speed.verdict(other, one)
    unsure = ""
    if speed.unsure and not speed.different:
        unsure = f"the ratio is uncertain by more than a factor of two ({speed.between})"
        verdict = f"inconclusive, because {unsure}"
    if a.machine != b.machine:
        return verdict, "the two were measured on different machines"
    if speed.low is None:
        few = f"{min(speed.repeats)}, and {statistics.FEWEST} are needed"
        return verdict, f"it has too few repeats ({few})"
    doubts = (unsure, a.disturbed, b.disturbed, a.serious_failure, b.serious_failure)
    return verdict, next(filter(None, doubts), "")
