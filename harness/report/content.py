"""Groups of repeats → the content of a report: its comparisons, headline and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any

from formats.cell import STANDARD_INPUTS, Cell
from formats.frameworks import ENGINE
from formats.result import Result
from harness.comparison import compare, tables
from harness.comparison.collected import collected
from harness.comparison.runs import brief_words
from harness.comparison.statistics import plural
from harness.comparison.tables import Group, place_of
from harness.report import answer
from harness.report.comparison import Comparison, listed

MOST_SENTENCES = 12
"""The most sentences of one kind in an answer."""
NATIVE_TORCH = "native-torch-eager"
"""The SUT that others are compared with, if it was measured."""
_DIGESTS = {"dataset": "inputs", "weights": "weights", "chat": "chat template"}
"""Fields of a cell with a digest → the noun for it."""
_OF_ENGINE = ("precision", "batch_size", "max_wait_ms")
"""Fields of a cell that the engine decides."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """The measurements of a report, and their conclusions.

    Attributes:
        source: the folder's name for the reader.
        controls: control runs, which are cells that a sweep measured again.
        faults: path of a result.json that could not be read → the reason.
        not_measured: reason why cells of sweeps could not be measured → labels of these cells.
        no_room: sentences on cells for which the time or the repeats of a sweep were too few.
    """

    source: str
    groups: list[Group]
    controls: list[Group] = field(default_factory=list)
    faults: dict[Path, str] = field(default_factory=dict)
    not_measured: dict[str, list[str]] = field(default_factory=dict)
    no_room: list[str] = field(default_factory=list)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The comparisons, in the order of model, task, scenario, batch and length."""
        keyed = collected((self._key(group), group) for group in self.groups)
        for of_one in keyed.values():  # the comparison gets the name of the first
            of_one.sort(key=lambda g: (not g.machine, g.execution == ENGINE))
        named = collected((compare.describe(first), first) for first, *_ in keyed.values())
        comparisons = []
        for of_one in keyed.values():
            in_time = sorted(of_one, key=lambda g: g.runs[-1].order)
            latest = {group.sut: group for group in in_time}
            comparison = Comparison(
                groups=[latest[sut] for sut in dict.fromkeys(group.sut for group in of_one)],
                older=len(of_one) - len(latest),
                apart=self._apart(of_one[0], named[compare.describe(of_one[0])]),
                controls=self.controls,
                shared=self.shared,
            )
            comparisons.append(comparison)
        return comparisons

    def _key(self, group: Group) -> tuple[Any, ...]:
        """What the groups of a comparison share: work, mode and machine. An engine has those of
        the SUTs that did the same work, if there are such SUTs and they do not differ in it.
        """
        near = group
        if not group.good and not group.machine:
            near = _started(group, self.groups)
        elif group.execution == ENGINE:
            suts = [other for other in self.groups if other.execution != ENGINE]
            work = _with_any_engine(group)
            rivals = [other for other in suts if _with_any_engine(other) == work]
            if len({other.work for other in rivals}) == 1:
                near = rivals[0]
        return near.work, near.mode, near.machine

    @cached_property
    def with_rivals(self) -> list[Comparison]:
        """The comparisons in which two SUTs or more have figures."""
        return [comparison for comparison in self.comparisons if len(comparison.good) > 1]

    @cached_property
    def conclusive(self) -> list[Comparison]:
        """The comparisons whose runs may show which SUT is faster. Only these give ratios.

        Tuned cells are left out, because sections never mix them with SUTs as they come.
        """
        return [c for c in self.comparisons if not c.cell.tuned and not c.inconclusive]

    @cached_property
    def current(self) -> list[Group]:
        """The groups of the comparisons, without earlier measurements of the same cells."""
        return [group for comparison in self.comparisons for group in comparison.groups]

    @cached_property
    def shared(self) -> dict[str, list[str]]:
        """The precision, device and environment variables that all cells share, in words.

        They are written once, at the top of the page.
        """
        return compare.shared(self.groups)

    @cached_property
    def preface(self) -> str:
        """One sentence with the models that the headline does not name, the settings that all cells
        share, and the machines, exactly.
        """
        return self._setting(exact=True)

    @cached_property
    def setting(self) -> str:
        """`preface` for a reader: without environment variables and digests."""
        return self._setting(exact=False)

    def _setting(self, exact: bool) -> str:
        models = dict.fromkeys(compare.named(g) for g in self.current if g.last.result.model_facts)
        in_headline = answer.named(self.comparisons)
        parts = [name for name in models if name not in in_headline]
        shared = [words for name, words in self.shared.items() if exact or name != "variables"]
        if any(shared):
            parts.append(f"all cells: {', '.join(chain(*shared))}")
        machines = {g.machine: g.last.record.machine for g in self.groups if g.last.record}
        for name, machine in machines.items():
            words = name if exact else brief_words(machine)
            label = self.machine_labels.get(name)
            parts.append(f"{label}: {words}" if label else words)
        if not machines and any(group.good for group in self.groups):
            parts.append("unknown machine")
        return "; ".join(parts)

    @cached_property
    def machine_labels(self) -> dict[str, str]:
        """Machine → a short name, if there are several."""
        machines = dict.fromkeys(group.machine for group in self.groups if group.machine)
        if len(machines) < 2:
            return {}
        return {name: f"machine {n}" for n, name in enumerate(machines, 1)}

    def _apart(self, group: Group, same: Sequence[Group]) -> str:
        """Return the difference to others whose work has the same name. Empty if there is none."""
        of_all = zip(*map(self._facts, same), strict=True)
        texts = zip(self._facts(group), of_all, strict=True)
        return ", ".join(text for text, others in texts if text and len({*others}) > 1)

    def _facts(self, group: Group) -> list[str]:
        """What a name does not say. Machines and digests are numbered."""
        cell = group.cell
        facts = [group.mode, self.machine_labels.get(group.machine, "")]
        for name, noun in _DIGESTS.items():
            value = getattr(cell, name)
            number = self._digests[name].index(value) + 1
            facts.append(f"{value} {noun}" if value in STANDARD_INPUTS else f"{noun} {number}")
        facts.append(f"end tokens: {cell.eos}" if cell.eos else "")
        return [*facts, ", ".join(compare.variables(cell))]

    @cached_property
    def _digests(self) -> dict[str, list[str | None]]:
        """Field of _DIGESTS → its values in all cells."""
        return {
            name: list(dict.fromkeys(getattr(group.cell, name) for group in self.groups))
            for name in _DIGESTS
        }

    @cached_property
    def suts(self) -> list[str]:
        """Every SUT that has a row, in the order of the registry."""
        ordered = sorted(self.groups, key=lambda g: place_of(g.cell.sut))
        return list(dict.fromkeys(g.sut for g in ordered))

    @cached_property
    def obstacles(self) -> list[str]:
        """Why SUTs have no place in a comparison, one sentence for each reason.

        The reasons come from the registry and the sweeps.
        """
        found = []
        for comparison, sut in product(self.comparisons, self.suts):
            reason = comparison.obstacle(sut)
            if reason:
                work = f"{comparison.cell.model} {comparison.cell.task}"
                found.append(((work, reason), sut))
        sentences = []
        for (work, reason), suts in collected(found).items():
            sentences.append(f"{listed(dict.fromkeys(suts))}, {work}: {reason}")
        known = {reason for (_, reason), _ in found}
        for reason, labels in self.not_measured.items():
            if reason not in known:
                more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
                sentences.append(f"{labels[0]}{more}: {reason}")
        return sentences

    @cached_property
    def headline(self) -> str:
        """The answer over all comparisons, in one sentence."""
        return answer.headline(self.comparisons)

    @cached_property
    def advice(self) -> list[str]:
        """Sentences on how reliable the figures are, each with its cells.

        The last one counts the cells that are left out.
        """
        found = []
        for group in self.current:
            name = f"{group.sut}, {compare.describe(group, self.shared)}"
            found += [(sentence, name) for sentence in group.advice]
        for comparison in self.comparisons:
            for sentence, suts in comparison.unlike.items():
                pair = f"{comparison.good[0].sut} compared with {listed(suts)}"
                found.append((sentence, f"{pair}, {comparison.name}"))
        sentences = [*self.no_room]
        for text, names in collected(found).items():
            more = f" and {plural(len(names) - 1, 'other cell')}" if len(names) > 1 else ""
            sentences.append(f"{text}: {names[0]}{more}")
        older = sum(comparison.older for comparison in self.comparisons)
        if older:
            sentences.append(
                f"left out: {plural(older, 'cell')} measured earlier, with other versions,"
                " other files of SUTs, or another duration (see ./run.sh report --history)"
            )
        return sentences


def of_results(results: Sequence[Result], source: str) -> Content:
    """Return the content of results and the files in their folders."""
    controls = tables.grouped(results, controls=True)
    return Content(source=source, groups=tables.grouped(results), controls=controls)


def _started(group: Group, groups: Sequence[Group]) -> Group:
    """Return a group that started and did the same work as `group`, whose cell never started.

    Return `group` itself if there is none. The result of a cell that never started, or was cut off
    before its record was written, names no machine. It also lacks the digests of a user's inputs
    and weights, and a length that the inputs decide.
    """
    unknown = {"weights": (Cell.weights,), "seq_len": (None,), "dataset": STANDARD_INPUTS}
    mine = set(group.work)
    known = {(name, value) for name, value in mine if value not in unknown.get(name, ())}
    started = [g for g in groups if g.machine and g.mode == group.mode]
    alike = [g for g in started if known <= set(g.work)]

    def nearness(other: Group) -> tuple[bool, int]:
        return _sweep_of(other) == _sweep_of(group), len(mine & set(other.work))

    return max(alike, key=nearness, default=group)


def _with_any_engine(group: Group) -> tuple[Any, ...]:
    """The work without what an engine decides: it forms its own batches, and its precision is not
    known.
    """
    work = [pair for pair in group.work if pair[0] not in _OF_ENGINE]
    return (*work, group.mode, group.machine)


def _sweep_of(group: Group) -> str:
    """The id of the sweep that measured a group. Empty if none did."""
    mark = group.last.result.sweep
    return mark.id if mark else ""
