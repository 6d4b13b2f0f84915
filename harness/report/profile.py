"""The tables and the sentences of a profile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from formats.profile import (
    CLASSES,
    MOST_OTHER,
    OTHER,
    PRODUCTS,
    Profile,
    ProfiledSut,
    Start,
    StepProfile,
)
from harness.report.section import Row, Table
from results.figure import calls_until_paid, short
from results.summary import counted
from sut.registry import SUTS, framework_of

_NORMS, _POINTWISE = "normalisation", "pointwise"
_LARGEST = 10  # operations of a SUT that the page shows
_NAMES = 3
_FASTER = 0.9  # a profiled step below this share of the other one
_COUNTED = (
    "The operations are those of a batch of average inputs without padding, counted on the"
    " reference in float32. A product counts two for each multiplication with its addition, and"
    " every other operator one for each element that it writes. An optimizer is not counted. The"
    " products of attention have their own class, whether a SUT fuses them or not."
)
_DIVIDED = (
    "The classes of a column add up to the profiled step. If several operators run at once, each"
    " gets an equal part of the time. If none runs, the time is overhead. A sum over an axis counts"
    " as a norm."
)


def steps(found: Profile) -> dict[str, StepProfile]:
    """Return label of a SUT → its profile, for the SUTs that have one."""
    return {each.label: each.step for each in found.suts if each.step}


def by_class(found: Profile, suts: Sequence[str] | None = None) -> Table:
    """Return the table of the time of a step by class.

    `suts`: labels of the SUTs to show. None: all.
    """
    shown = steps(found)
    if suts is not None:
        shown = {label: shown[label] for label in suts}
    flops = found.operations.shares if found.operations else {}
    rows: list[Row] = []
    for kind in CLASSES:
        times = [step.seconds[kind] for step in shown.values()]
        share = flops.get(kind, 0.0)
        if not any(times) and not share:
            continue
        row = [kind]
        if found.operations:
            row.append(_percent_of_flops(share))
        for step in shown.values():
            row += [_ms(step.seconds[kind]), _percent(step.shares[kind])]
        rows.append(row)
    whole = ["profiled step"]
    if found.operations:
        whole.append(f"{short(sum(found.operations.flops.values()) / 1e9)} G")
    for step in shown.values():
        whole += [_ms(step.profiled_seconds), "100 %"]
    rows.append(whole)
    columns = ["class"]
    if found.operations:
        columns.append("FLOPs %")
    for label in shown:
        columns += [f"{label}, ms", "%"]
    return Table(
        title="Time of a step by class of operation",
        columns=columns,
        numbers=range(1, len(columns)),
        groups={"": rows},
        note=f"{_DIVIDED} {_COUNTED}" if found.operations else _DIVIDED,
    )


def whole_steps(found: Profile) -> Table:
    """Return the table of whole steps: with and without the profiler, kernels, bytes."""
    rows: list[Row] = []
    for label, step in steps(found).items():
        cost = step.profiled_seconds / step.unprofiled_seconds - 1
        moved = step.bytes_accessed
        rows.append(
            (
                label,
                _ms(step.unprofiled_seconds),
                _ms(step.profiled_seconds),
                f"{cost:+.1%}",
                f"{step.kernels:,.0f}",
                "not said" if moved is None else f"{short(moved / 1e9)} GB",
                f"{step.profiler}, {step.steps} steps",
            )
        )
    return Table(
        title="Whole steps",
        columns=(
            "SUT",
            "step, ms",
            "profiled, ms",
            "profiler's cost",
            "kernels a step",
            "bytes moved",
            "profiler",
        ),
        numbers=range(1, 6),
        groups={"": rows},
    )


def starts(found: Profile) -> Table:
    """Return the table of the starts: the first answer and the time of compiling, with an empty
    cache of compiled programs and with a filled one. It is empty if no start was measured.
    """
    rows = [_start_row(each, found.suts) for each in found.suts if each.starts]
    return Table(
        title="What compiling costs",
        columns=(
            "SUT",
            "first answer, cold",
            "first answer, warm",
            "compiling, cold",
            "compiling, warm",
            "pays after, cold",
            "pays after, warm",
            "compared with",
        ),
        numbers=range(1, 7),
        groups={"": rows},
        note=(
            "Each start is a new process. Cold: the cache of compiled programs was empty. Warm:"
            " it had the programs of the cold start. The first answer includes the import of the"
            " framework and the loading of the model. Compiling is the time of the first calls of"
            " all shapes minus that of the second calls. It pays as soon as the batches save as"
            " much time, compared with the eager SUT of the same framework and library."
        ),
    )


def _start_row(sut: ProfiledSut, suts: Sequence[ProfiledSut]) -> Row:
    eager = _eager_of(sut, suts)
    states = _states(sut)
    answers = [_seconds(start.first_answer_seconds) if start else "" for start in states]
    compiling = [_compiling(sut, start) if start else "" for start in states]
    pays = [_pays(sut, start, eager) for start in states]
    return (sut.label, *answers, *compiling, *pays, eager.label if eager else "")


def _states(sut: ProfiledSut) -> tuple[Start | None, Start | None]:
    """Return the start that found no program on disk and the one that found all of them."""
    cold = next((start for start in sut.starts if not start.cached), None)
    warm = next((start for start in sut.starts if start.cached and not start.compiled), None)
    return cold, warm


def _compiling(sut: ProfiledSut, start: Start) -> str:
    return "" if _is_eager(sut) else _seconds(start.compile_seconds)


def _pays(sut: ProfiledSut, start: Start | None, eager: ProfiledSut | None) -> str:
    """The number of batches after which compiling pays, in words. Empty: not known."""
    if not start or not eager or not eager.step or not sut.step:
        return ""
    saved = eager.step.unprofiled_seconds - sut.step.unprofiled_seconds
    calls = calls_until_paid(start.compile_seconds, saved)
    return "not here" if calls is None else counted(math.ceil(calls), "batch")


def _eager_of(sut: ProfiledSut, suts: Sequence[ProfiledSut]) -> ProfiledSut | None:
    """Return the first eager SUT of the same framework and library. None: there is none, or the SUT
    is eager.
    """
    if _is_eager(sut):
        return None
    alike = (each for each in suts if _is_eager(each) and _library(each) == _library(sut))
    return next(alike, None)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def largest(found: Profile) -> Table:
    """Return the table of the operations that take most of the time, for each SUT."""
    groups: dict[str, Sequence[Row]] = {}
    for label, step in steps(found).items():
        rows = []
        for each in step.operations[:_LARGEST]:
            share = _percent(each.seconds / step.profiled_seconds)
            rows.append((each.name, each.kind, _ms(each.seconds), share, f"{each.calls:,.4g}"))
        groups[label] = rows
    return Table(
        title="The longest operations",
        columns=("operator, kernel or instruction", "class", "ms a step", "%", "calls a step"),
        numbers=(2, 3, 4),
        groups=groups,
        most=200,
    )


def sentences(found: Profile) -> Iterator[str]:
    """Yield what the profile says in words."""
    flops = found.operations.shares if found.operations else None
    for label, step in steps(found).items():
        shares = step.shares
        of_time = sum(shares[kind] for kind in PRODUCTS)
        if flops:
            of_products = sum(flops[kind] for kind in PRODUCTS)
            yield (
                f"{label}: products are {of_products:.1%} of the floating-point operations and"
                f" {of_time:.0%} of the time; norms, softmax and sums take"
                f" {shares[_NORMS]:.0%}, pointwise operators {shares[_POINTWISE]:.0%}"
            )
        else:
            yield (
                f"{label}: products take {of_time:.0%} of the time, norms, softmax and sums"
                f" {shares[_NORMS]:.0%}, pointwise operators {shares[_POINTWISE]:.0%}"
            )
    yield from _fused(found.suts)
    for label, step in steps(found).items():
        if step.profiled_seconds < _FASTER * step.unprofiled_seconds:
            yield (
                f"{label}: the profiled steps were faster than those without the profiler, so"
                " other programs slowed the machine down: repeat the command"
            )
        share = step.shares[OTHER]
        if share > MOST_OTHER:
            names = [each.name for each in step.operations if each.kind == OTHER]
            listed = ", ".join(names[:_NAMES])
            yield (
                f"{label}: {share:.0%} of the time is in operators that are in no class, such"
                f" as {listed}, so the shares of the classes are too small"
            )
        yield from (f"{label}: {note}" for note in step.notes)
    for each in found.suts:
        if len(each.starts) > 1 and _states(each)[1] is None:
            yield (
                f"{each.label}: at the second start not all compiled programs were found on"
                " disk, so every start compiles"
            )
    if found.no_operations:
        yield f"the floating-point operations were not counted: {found.no_operations}"
    for each in found.suts:
        if each.step is None:
            yield f"{each.label}: {each.status}: {each.reason}"


def _fused(suts: Sequence[ProfiledSut]) -> Iterator[str]:
    """Yield the kernels of each compiled SUT compared with the first eager one of its
    framework.
    """
    eager: dict[tuple[str, str], ProfiledSut] = {}
    for each in suts:
        if _is_eager(each):
            eager.setdefault(_library(each), each)
    for each in suts:
        other = eager.get(_library(each))
        if _is_eager(each) or not other or not other.step or not each.step:
            continue
        yield (
            f"{each.label} runs {each.step.kernels:,.0f} kernels a step, and {other.label}"
            f" {other.step.kernels:,.0f}"
        )


def _percent_of_flops(share: float) -> str:
    """A share of the operations. The small ones matter, so it has more digits."""
    return f"{100 * share:.2f}" if share else ""


def _is_eager(sut: ProfiledSut) -> bool:
    return SUTS[sut.sut].execution == "eager"


def _library(sut: ProfiledSut) -> tuple[str, str]:
    """The framework and the library of models. SUTs with the same ones differ in the execution."""
    return framework_of(sut.sut), SUTS[sut.sut].classes


def _ms(seconds: float) -> str:
    return short(1e3 * seconds)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
