"""Sections with the answers of single comparisons, their bars, means over them, and the noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.comparison.pooled import mean_ratio
from harness.comparison.statistics import plural
from harness.report import answer
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, NATIVE_TORCH, Content
from harness.report.section import Bars, Section

BARS = "Side by side"


def answers(content: Content) -> Section:
    """The answer of each comparison if there are several. That of a single one is the headline."""
    with_rivals = content.with_rivals
    if len(with_rivals) < 2:
        return Section()
    shown = with_rivals[:MOST_SENTENCES]
    sentences = [f"{comparison.name}: {answer.sentence(comparison)}" for comparison in shown]
    more = len(with_rivals) - MOST_SENTENCES
    if more > 0:
        sentences.append(f"and {plural(more, 'comparison')} more: in the table")
    return Section(sentences=sentences)


def bars(content: Content) -> Section:
    """The figures of each comparison as bars."""
    return Section(
        title=BARS,
        note=(
            "A bar is the mean of the runs, and a dot is a run. A line is the 95 % interval of"
            " the speed compared with the SUT on top: if it contains that SUT's figure, no"
            " difference is shown. An arrow ends a bar or a line that is longer than drawn."
        ),
        pictures=[Bars(caption=c.name, comparison=c) for c in content.with_rivals],
    )


def means(content: Content) -> Section:
    """Mean speeds over the comparisons in which all SUTs are ranked, one sentence a machine.

    Nodes of one kind, each of which measured other work, have one sentence. Each ratio is of one
    node.

    There is no sentence for fewer than two comparisons. Trainings in which LoRA trains other
    parameters in each library do not count.
    """
    sentences = []
    for machines in _apart(content):
        comparisons = [c for c in content.conclusive if c.groups[0].last.machine in machines]
        several = [c for c in comparisons if len(c.field) > 1]
        ranked = [c for c in several if not c.unranked and not c.other_factors]
        sentence = _mean_speeds(ranked, content.suts)
        labels = ", ".join(filter(None, map(content.machine_labels.get, machines)))
        if sentence:
            sentences.append(f"{labels}: {sentence}" if labels else sentence)
    return Section(sentences=sentences, data={"means": sentences})


def _apart(content: Content) -> Iterator[list[str]]:
    """Yield groups of machines. Machines of one kind are in one group, unless two of them measured
    the same work.
    """
    for machines in content.kinds:
        groups = [c.groups[0] for c in content.conclusive if c.groups[0].last.machine in machines]
        works = [(group.work, group.last.result.mode) for group in groups]
        if len(set(works)) == len(works):
            yield machines
        else:
            yield from ([machine] for machine in machines)


def _mean_speeds(comparisons: Sequence[Comparison], suts: Sequence[str]) -> str:
    fields = [{group.sut for group in comparison.field} for comparison in comparisons]
    order = [sut for sut in suts if any(sut in field for field in fields)]
    paired = zip(comparisons, fields, strict=True)
    common = [comparison for comparison, field in paired if field.issuperset(order)]
    if len(common) < 2 or len(order) < 2:
        return ""
    base = NATIVE_TORCH if NATIVE_TORCH in order else order[0]
    each = []
    for sut in order:
        if sut != base:
            pairs = [(c.pooled.series[sut], c.pooled.series[base]) for c in common]
            each.append(f"{sut} {mean_ratio(pairs, compared=len(order)).times()}")
    return (
        f"mean speed (geometric) over the {len(common)} comparisons that all SUTs have,"
        f" compared with {base}: {', '.join(each)}"
    )


def noise(content: Content) -> Section:
    """A sentence for each control run on its difference to its cell, which is only noise."""
    sentences = []
    for comparison in content.comparisons:
        for group, ratio in comparison.control_ratios:
            times = ratio.times()
            if ratio.different:
                times += ", though both are the same"
            sentences.append(
                f"control run: {group.sut} measured twice a round, {comparison.name}: {times}"
            )
    return Section(sentences=sentences)
