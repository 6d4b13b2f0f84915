"""The answer of a report in a sentence that a colleague would say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from formats.result import Status
from harness import terminal
from harness.comparison import compare, statistics
from harness.comparison.collected import collected
from harness.comparison.statistics import EQUAL, Ratio, plural
from harness.comparison.tables import Group
from harness.execution.environments import ADOPTED
from harness.report.comparison import Comparison, listed, mostly_disturbed

_OUTCOMES = {
    "accuracy": "wrong answers",
    "audit": "its logs fail the audit",
    "clock": "the clock was set during its test",
    "evidence": "it ran otherwise than its name says",
    "kept answers": "it kept answers",
    "loadgen": "LoadGen calls its run INVALID",
    "overload": "it was overloaded",
    "precision": "it computed in another precision",
    "speed": "its times contradict each other",
    Status.ERROR: "it failed",
    Status.OOM: "out of memory",
    Status.SKIPPED: "not measured",
    Status.UNSUPPORTED: "unsupported",
}
"""Cause of an invalid run, or status of another one → why the SUT has no figure."""
_MOST_NAMED = 3
"""The most comparisons that a summary names, and SUTs that it counts."""
_MOST_SUTS = 4
"""The most SUTs of a tie that are named if there are no others."""


def headline(comparisons: Sequence[Comparison]) -> str:
    """The answer over all comparisons in one sentence, the first line of a report."""
    answered = _answered(comparisons)
    if not answered:
        return "nothing was measured"
    if len(answered) > 1 and len(answered[0].groups) == 1:
        cells = plural(sum(bool(c.good) for c in answered), "cell")
        return f"{cells} with a figure, and no two SUTs did the same work: nothing is compared"
    if len(answered) == 1:
        return f"{_subject(answered)}: {sentence(answered[0])}"
    of_all = _common([_remarks(c) for c in answered])
    return "; ".join([f"{_subject(answered)}: {_summary(answered)}", *of_all])


def named(comparisons: Sequence[Comparison]) -> list[str]:
    """The model that `headline` names, with its layers, width and parameters. Empty if it names
    none.
    """
    answered = _answered(comparisons)
    works = {(compare.named(c.groups[0]), c.cell.task) for c in answered}
    is_listed = len(answered) > 1 and len(answered[0].groups) == 1
    return [name for name, _ in works] if len(works) == 1 and not is_listed else []


def _answered(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons that the headline is about: those of several SUTs, if there are any. Tuned
    cells count only if no others have two SUTs with figures.
    """
    several = [c for c in comparisons if len(c.groups) > 1]
    rivals = [c for c in several if len(c.good) > 1]
    plain = [c for c in rivals if not c.cell.tuned]
    return plain or rivals or several or list(comparisons)


def _subject(comparisons: Sequence[Comparison]) -> str:
    """What the answer is about, in words: the model with its layers, width and parameters, its
    task, and the scenario and the batch if there is only one.
    """
    parts = [compare.parts(c.groups[0], c.shared, facts=True)[:3] for c in comparisons]
    return ", ".join(_common(parts)) or f"{len(comparisons)} comparisons"


def sentence(comparison: Comparison) -> str:
    """The answer of one comparison: which SUT is fastest and by how much, and the remarks."""
    return "; ".join([claim(comparison), *_remarks(comparison)])


def _remarks(comparison: Comparison) -> list[str]:
    """What a reader must know besides the claim: SUTs without a place in it, an interpreter of the
    user's, and other conditions that differ between the SUTs.
    """
    found = [compare.OTHER_FACTORS] if comparison.other_factors else []
    if comparison.threads and not comparison.doubt:
        found.append(
            "they multiplied matrices with different numbers of threads:"
            f" {comparison.threads} (--threads N makes them equal)"
        )
    found += _adopted(comparison.groups)
    reasons = _left_out(comparison)
    left_out = [f"{listed(suts)} ({why})" for why, suts in reasons.items()]
    if left_out:
        found.append(f"without {', '.join(left_out)}")
    if comparison.unranked and not comparison.doubt:
        found.append(f"not ranked: {comparison.unranked}")
    return found


def claim(comparison: Comparison, *, brief: bool = False) -> str:
    """Which SUT is fastest and by how much, or why that is not known.

    `brief`: without numbers, for a summary of several comparisons.
    """
    if not comparison.good:
        return "no SUT has a figure"
    leader, *rivals = comparison.field
    if not rivals and brief:
        return f"only {leader.sut} has a figure"
    if not rivals:
        verb = "computes" if comparison.higher_is_better else "takes"
        text = f"{leader.sut} {verb} {compare.figure(leader)}"
        return text if len(comparison.groups) > 1 else f"{text}, and no other SUT was measured"
    if comparison.doubt:
        text = "nothing is decided"
        why = f"because {comparison.inconclusive}; {_remedy([comparison])}"
        return text if brief else f"{text}, {why}"
    if len(comparison.leading) > 1:
        text = _tie(comparison)
        more = _more(comparison) if comparison.apart_by > EQUAL else ""
        parts = filter(None, (text, more, _slower(comparison)))
        return text if brief else "; ".join(parts)
    second = rivals[0]
    ratio = comparison.ratio(leader, second)
    if ratio.low is None:
        text = f"{leader.sut} had the best figure"
        times = f"{ratio.value:.3g} × {second.sut}"
        why = f"{plural(min(ratio.repeats), 'run')} cannot show whether that is chance"
        return text if brief else f"{text}, {times}, but {why}; {_more(comparison)}"
    return f"{leader.sut} is fastest" if brief else _lead(comparison)


def _remedy(comparisons: Sequence[Comparison]) -> str:
    """What to do about comparisons that are not decided, and how long that takes."""
    doubts = [c.doubt for c in comparisons if c.doubt]
    own = next((doubt.remedy for doubt in doubts if doubt.remedy), "")
    if own:
        return own
    if not any(doubt.of_machine for doubt in doubts):
        return _more(max(comparisons, key=lambda c: c.more_runs))
    runs = max(statistics.FEWEST, *(len(g.good) for c in comparisons for g in c.field))
    again = "measure again (--again) with nothing else running"
    return f"{again}: {plural(runs, 'run')} of each{_takes(comparisons, runs)}"


def _undecided(comparisons: Sequence[Comparison]) -> str:
    """The most frequent reason why comparisons are not decided."""
    disturbed = mostly_disturbed(comparisons) if all(c.doubt for c in comparisons) else ""
    reasons = [c.inconclusive or c.unranked or "too few runs" for c in comparisons]
    return disturbed or Counter(reasons).most_common(1)[0][0]


def _summary(comparisons: Sequence[Comparison]) -> str:
    """The claims of several comparisons, joined if they agree."""
    count = len(comparisons)
    labels = _labels(comparisons)
    places = listed(labels) if count <= _MOST_NAMED else f"all {count} comparisons"
    if all(c.doubt for c in comparisons):
        why = _undecided(comparisons)
        return f"nothing is decided in {places}, because {why}; {_remedy(comparisons)}"
    joined = _joined(comparisons, places)
    if joined:
        return joined
    if count <= _MOST_NAMED:
        claims = [claim(c, brief=True) for c in comparisons]
        places_of = collected(zip(claims, labels, strict=True))
        return ", ".join(f"{what} in {listed(where)}" for what, where in places_of.items())
    # In how many of many comparisons each SUT is among the fastest.
    decided = [c for c in comparisons if c.decided]
    if not decided:
        return f"none of {count} is decided: {_undecided(comparisons)}"
    wins = Counter(group.sut for c in decided for group in c.leading)
    (first, most), *others = wins.most_common(_MOST_NAMED)
    text = f"{first} is among the fastest in {most} of {count} comparisons"
    text += "".join(f", {sut} in {number}" for sut, number in others)
    left = count - len(decided)
    return f"{text}; {left} not decided" if left else text


def _joined(comparisons: Sequence[Comparison], places: str) -> str:
    """The claim of comparisons with the same leaders. Empty if they cannot have one claim."""
    leaders = {tuple(sorted(g.sut for g in c.leading)) for c in comparisons if c.good}
    has_claims = all(len(c.field) > 1 and not c.doubt for c in comparisons)
    if not has_claims or len(leaders) > 1:
        return ""
    first = comparisons[0]
    if len(first.leading) > 1:
        apart = max(c.apart_by for c in comparisons)
        suts = listed([g.sut for g in first.leading])
        return f"{suts} are equal within {_percent(apart)} in {places}" if apart <= EQUAL else ""
    seconds = [(c.ratio(*c.field[:2]), c.field[1].sut) for c in comparisons]
    if not all(ratio.different for ratio, _ in seconds):
        return ""
    text = f"{first.field[0].sut} is fastest in {places}"
    if len(seconds) > _MOST_NAMED:
        return text
    times = listed([_times(ratio, sut) for ratio, sut in seconds])
    the_next = ", the next" if max(len(c.field) for c in comparisons) > 2 else ""
    return f"{text}: {times}{the_next}"


def _tie(comparison: Comparison) -> str:
    """The leading group, and how far apart its SUTs may be."""
    suts = listed([g.sut for g in comparison.leading])
    if _MOST_SUTS < len(comparison.leading) == len(comparison.field):
        suts = f"all {len(comparison.field)} SUTs"
    apart = comparison.apart_by
    if apart <= EQUAL:
        return f"{suts} are equal here within {_percent(apart)}"
    most = _percent(apart) if apart < 1 else f"{1 + apart:.2g} ×"
    return f"{suts} lead, and no difference between them is shown (at most {most})"


def _slower(comparison: Comparison) -> str:
    """The next SUT behind a tie, and the slowest. Empty if there is none."""
    behind = _behind(comparison)
    texts = []
    for group, faster in behind[:1] + behind[1:][-1:]:
        slower = "slower" if faster is comparison.field[0] else f"slower than {faster.sut}"
        texts.append(f"{group.sut} is {_times(comparison.ratio(faster, group), slower)}")
    return " and ".join(texts) + (", the slowest" if len(texts) > 1 else "")


def _lead(comparison: Comparison) -> str:
    """The only leader, the next SUT and the slowest one."""
    leader = comparison.field[0]
    behind = [group for group, _ in _behind(comparison)]
    first = behind[0]
    last = behind[-1]
    text = f"{leader.sut} is fastest: {_times(comparison.ratio(leader, first), first.sut)}"
    if len(comparison.field) > 2:
        text += ", the next"
    if last is not first:
        text += f", and {_times(comparison.ratio(leader, last), last.sut)}, the slowest"
    return text


def _behind(comparison: Comparison) -> list[tuple[Group, Group]]:
    """(a group that is shown to be slower, a group that is faster), the fastest first."""
    faster = comparison.faster
    return [(g, faster[g]) for g in comparison.field if g in faster]


def _left_out(comparison: Comparison) -> dict[str, list[str]]:
    """Why SUTs have no place in the claim → these SUTs."""
    field = comparison.field
    found = [(_outcome(g), g.sut) for g in comparison.groups if not g.good]
    for group in comparison.groups:
        if group.good and group not in comparison.good:
            found.append(("its figure is another statistic", group.sut))
    is_claimed = comparison.doubt is None and len(field) > 2
    if is_claimed and comparison.ratios[field[1]].low:
        few = [group for group in field[2:] if not comparison.ratios[group].low]
        found += [("too few runs", group.sut) for group in few]
    found += [(_outcome(g), g.sut) for g in comparison.good if g not in field]
    return collected(found)


def _outcome(group: Group) -> str:
    """Why a group has no place in the claim, in a few words."""
    failed = group.failed[-1:] if group.good else (group.last,)
    if failed:
        result = failed[0].result
        return _OUTCOMES.get(result.cause or result.status, result.reason)
    return "its runs were disturbed" if group.disturbed else group.unranked[0]


def _adopted(groups: Sequence[Group]) -> list[str]:
    """A clause for each interpreter of --python, with the SUTs that ran in it."""
    found = []
    for group in groups:
        record = group.last.record
        if record and record.environment.name.endswith(ADOPTED):
            found.append((terminal.near(record.environment.python), group.sut))
    clauses = []
    for python, suts in collected(found).items():
        ran = "all" if len(suts) == len(groups) > 1 else listed(suts)
        clauses.append(f"{ran} ran in your own {python}")
    return clauses


def _more(comparison: Comparison) -> str:
    """How many more runs decide, and how long they take."""
    runs = max(1, comparison.more_runs)
    return f"about {plural(runs, 'more run')} of each{_takes([comparison], runs)} would decide"


def _takes(comparisons: Sequence[Comparison], runs: int) -> str:
    """` (about 4 min)`, the time of so many runs of each SUT. Empty if it is not known."""
    seconds = 0.0
    for group in [group for comparison in comparisons for group in comparison.field]:
        totals = [run.result.seconds.get("total") for run in group.good]
        known = [total for total in totals if total]
        if not known:
            return ""
        seconds += runs * median(known)
    return f" (about {terminal.duration(seconds)})"


def _labels(comparisons: Sequence[Comparison]) -> list[str]:
    """A short name for each comparison: its scenario if that is enough, or all that differs."""
    scenarios = [c.cell.scenario for c in comparisons]
    if len(set(scenarios)) == len(scenarios):
        return scenarios
    shared = _common([c.parts for c in comparisons])
    return [", ".join(part for part in c.parts if part not in shared) for c in comparisons]


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """The texts that all lists have."""
    return [text for text in lists[0] if all(text in other for other in lists)]


def _times(ratio: Ratio, other: str) -> str:
    """`1.47 × other (1.43–1.52)`, or `at least 2.21 × other` if that is very uncertain."""
    if ratio.unsure and ratio.low and ratio.low > 1:
        return f"at least {ratio.low:.3g} × {other}"
    return ratio.times(other)


def _percent(share: float) -> str:
    """`9 %`, rounded up, because it is a limit."""
    return f"{math.ceil(100 * share - 1e-9)} %"
