"""Sections with the answers of single comparisons, their bars and plain percentiles, means over
them, and the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.comparison import statistics, tables
from harness.comparison.collected import collected
from harness.comparison.pooled import mean_ratio
from harness.comparison.runs import Run, kind_words
from harness.comparison.statistics import plural
from harness.report import answer
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, NATIVE_TORCH, Content
from harness.report.section import Section
from results.figure import short

_LEAST_QUERIES = 64
"""The number of queries that LoadGen needs for its estimate of a 90th percentile."""


def answers(content: Content) -> Section:
    """The answer of each comparison if there are several. That of a single one is the headline."""
    with_rivals = content.with_rivals
    if len(with_rivals) < 2:
        return Section()
    sentences = [f"{c.name}: {answer.sentence(c)}" for c in with_rivals[:MOST_SENTENCES]]
    more = len(with_rivals) - MOST_SENTENCES
    if more > 0:
        sentences.append(f"and {plural(more, 'comparison')} more: in the table")
    return Section(sentences=sentences)


def bars(content: Content) -> Section:
    """The figures of each comparison as bars."""
    return Section(
        title="Side by side",
        note=(
            "A bar is the mean of the runs, and a dot is a run. A line is the 95 % interval of"
            " the speed compared with the SUT on top: if it contains that SUT's figure, no"
            " difference is shown. An arrow ends a bar or a line that is longer than drawn."
        ),
        pictures=content.with_rivals,
    )


def percentiles(content: Content) -> Section:
    """The 90th percentiles of each comparison, in a sentence."""
    with_rivals = content.with_rivals
    sentences = []
    for comparison in with_rivals:
        name = f"{comparison.name}: " if len(with_rivals) > 1 else ""
        sentence = _percentiles(comparison)
        if sentence:
            sentences.append(f"{name}{sentence}")
    return Section(sentences=sentences[:MOST_SENTENCES])


def _percentiles(comparison: Comparison) -> str:
    """Return a sentence with each SUT's 90th percentile, the lowest first, and its ratio to the
    lowest. Empty for a throughput, a training or an inconclusive comparison.
    """
    good = comparison.good
    runs = [run for group in good for run in group.good]
    if comparison.inconclusive or not all(map(_p90, runs)):
        return ""
    queries = [int(run.result.measured.get("samples", 0)) for run in runs]
    ends = dict.fromkeys((min(queries), max(queries)))
    count = " to ".join(f"{number:,}" for number in ends)
    begin = f"90th percentile of the latency (less is better), of {count} queries a run:"
    if min(queries) < _LEAST_QUERIES:
        return (
            f"{begin} {_LEAST_QUERIES} are needed, so it is not compared (--duration sets a longer"
            " test)"
        )
    every = {group: [ms for run in group.good if (ms := _p90(run))] for group in good}
    typical = {group: statistics.geometric_mean(values) for group, values in every.items()}
    first, *others = sorted(typical, key=lambda group: typical[group])
    texts = [f"{first.sut} {short(typical[first])} ms"]
    pooled = tables.pool(good, value=_p90)
    for group in others:
        ratio = pooled.ratio(first, group) or statistics.compare(
            every[first],
            every[group],
            higher_is_better=False,
            paired=False,
            compared=len(good),
        )
        longer = "not shown to be higher"
        if ratio.low is None:
            longer = "too few runs to compare"
        elif ratio.different:
            longer = f"{ratio.value:.3g} times as long, {ratio.between}"
        texts.append(f"{group.sut} {short(typical[group])} ms ({longer})")
    return f"{begin} {', '.join(texts)}"


def _p90(run: Run) -> float | None:
    """Return the plain 90th percentile of a run's latencies, in milliseconds.

    None if the run issued all samples at once.
    """
    return run.result.metrics.get("latency_p90_ms")


def means(content: Content) -> Section:
    """Mean speeds over the comparisons in which all SUTs are ranked, one sentence a machine.

    Nodes of one kind, each of which measured other work, have one sentence. Each ratio is of one
    node.

    There is no sentence for fewer than two comparisons. Trainings in which LoRA trains other
    parameters in each library do not count.
    """
    sentences = []
    for machines in _apart(content):
        several = [c for c in content.conclusive if len(c.field) > 1]
        here = [c for c in several if c.groups[0].machine in machines]
        ranked = [c for c in here if not c.unranked and not c.other_factors]
        sentence = _mean_speeds(ranked, content.suts)
        labels = ", ".join(filter(None, map(content.machine_labels.get, machines)))
        if sentence:
            sentences.append(f"{labels}: {sentence}" if labels else sentence)
    return Section(sentences=sentences, data={"means": sentences})


def _apart(content: Content) -> Iterator[list[str]]:
    """Yield groups of machines. Machines of one kind are in one group, unless two of them measured
    the same work.
    """
    known = [(group.last.record, group.machine) for group in content.groups]
    kinds = collected((kind_words(record.machine), name) for record, name in known if record)
    for machines in kinds.values():
        groups = [c.groups[0] for c in content.conclusive if c.groups[0].machine in machines]
        works = [(group.work, group.mode) for group in groups]
        names = list(dict.fromkeys(machines))
        if len(set(works)) == len(works):
            yield names
        else:
            yield from ([name] for name in names)


def _mean_speeds(comparisons: Sequence[Comparison], suts: Sequence[str]) -> str:
    of_each = [{g.sut: c.pooled.series[g] for g in c.field} for c in comparisons]
    order = [sut for sut in suts if any(sut in series for series in of_each)]
    common = [series for series in of_each if set(order) <= series.keys()]
    if len(common) < 2 or len(order) < 2:
        return ""
    base = NATIVE_TORCH if NATIVE_TORCH in order else order[0]
    each = []
    for sut in order:
        if sut != base:
            pairs = [(series[sut], series[base]) for series in common]
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
            control = f"control run: {group.sut} measured twice a round"
            sentences.append(f"{control}, {comparison.name}: {times}")
    return Section(sentences=sentences)
