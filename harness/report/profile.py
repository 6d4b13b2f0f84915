"""The tables and the sentences of a profile."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from formats.profile import (
    CLASSES,
    MOST_OTHER,
    OTHER,
    PRODUCTS,
    Profile,
    StepProfile,
)
from results.figure import short

_NORMS = "normalisation"
_POINTWISE = "pointwise"
_NAMES = 3
_FASTER = 0.9  # a profiled step below this share of the other one
_SIDE_BY_SIDE = 4
_COLUMN = 13  # SUTs of a table, and columns of each


Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, columns and rows for the terminal. A name of a column may have several lines."""


def tables(found: Profile) -> Iterator[Table]:
    """Yield the tables of a profile: the classes of at most four SUTs each, and the whole steps."""
    shown = steps(found)
    labels = list(shown)
    for first in range(0, len(labels), _SIDE_BY_SIDE):
        named = labels[first : first + _SIDE_BY_SIDE]
        yield _by_class(found, {label: shown[label] for label in named})
    if shown:
        columns = ("SUT", "step, ms", "profiled, ms", "profiler's cost", "kernels a step")
        yield "Whole steps", (*columns, "profiler"), [_row(*each) for each in shown.items()]


def steps(found: Profile) -> dict[str, StepProfile]:
    """Return label of a SUT → its profile, for the SUTs that have one."""
    return {each.label: each.step for each in found.suts if each.step}


def _by_class(found: Profile, shown: dict[str, StepProfile]) -> Table:
    """Return the milliseconds and the percents of each class in a step."""
    operations = found.operations
    flops = operations.shares if operations else {}
    rows = []
    for kind in CLASSES:
        share = flops.get(kind, 0.0)
        if not share and not any(step.seconds[kind] for step in shown.values()):
            continue
        row = [kind]
        if operations:
            row.append(f"{100 * share:.2f}" if share else "")
        for step in shown.values():
            row.append(f"{_ms(step.seconds[kind]):>7} {100 * step.shares[kind]:>5.1f}")
        rows.append(row)
    columns = ["class"]
    whole = ["profiled step"]
    if operations:
        columns.append("FLOPs %")
        whole.append(f"{short(sum(operations.flops.values()) / 1e9)} G")
    for label, step in shown.items():
        columns.append(textwrap.fill(label, _COLUMN, break_long_words=False))
        whole.append(f"{_ms(step.profiled_seconds):>7} 100 %")
    title = "Time of a step by class of operation: milliseconds, percent"
    return title, columns, [*rows, whole]


def _row(label: str, step: StepProfile) -> list[str]:
    """Return the row of a whole step: with and without the profiler, and its kernels."""
    return [
        label,
        _ms(step.unprofiled_seconds),
        _ms(step.profiled_seconds),
        f"{step.profiled_seconds / step.unprofiled_seconds - 1:+.1%}",
        f"{step.kernels:,.0f}",
        f"{step.profiler}, {step.steps} steps",
    ]


def sentences(found: Profile) -> Iterator[str]:
    """Yield what the profile says in words."""
    flops = found.operations.shares if found.operations else None
    for label, step in steps(found).items():
        shares = step.shares
        of_time = f"{sum(shares[kind] for kind in PRODUCTS):.0%}"
        of_others = f"{shares[_NORMS]:.0%}, pointwise operators {shares[_POINTWISE]:.0%}"
        if flops:
            of_flops = f"{sum(flops[kind] for kind in PRODUCTS):.1%}"
            yield (
                f"{label}: products are {of_flops} of the floating-point operations and {of_time}"
                f" of the time; norms, softmax and sums take {of_others}"
            )
        else:
            yield (
                f"{label}: products take {of_time} of the time, norms, softmax and sums {of_others}"
            )
    for label, step in steps(found).items():
        if step.profiled_seconds < _FASTER * step.unprofiled_seconds:
            yield (
                f"{label}: the profiled steps were faster than those without the profiler, so"
                " other programs slowed the machine down: repeat the command"
            )
        share = step.shares[OTHER]
        if share > MOST_OTHER:
            names = [each.name for each in step.operations if each.kind == OTHER]
            yield (
                f"{label}: {share:.0%} of the time is in operators that are in no class, such as"
                f" {', '.join(names[:_NAMES])}, so the shares of the classes are too small"
            )
        yield from (f"{label}: {note}" for note in step.notes)
    if found.no_operations:
        yield f"the floating-point operations were not counted: {found.no_operations}"
    for each in found.suts:
        if each.step is None:
            yield f"{each.label}: {each.status}: {each.reason}"


def _ms(seconds: float) -> str:
    return short(1e3 * seconds)
