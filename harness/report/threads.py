"""Says whether the SUTs of a comparison multiplied matrices with different numbers of threads."""

from __future__ import annotations

from collections.abc import Sequence

from harness.comparison.tables import Group
from results.summary import matrix_products
from sut import variables


def difference(groups: Sequence[Group]) -> str:
    """Return a sentence with the threads of each SUT, by their evidence. Empty if they are equal.
    SUTs that report none are left out, and so are those on an accelerator.
    """
    threads = _threads(groups)
    return (
        (
            f"they multiplied matrices with different numbers of threads: {threads} (--threads N"
            " makes them equal)"
        )
        if threads
        else ""
    )


def doubt(groups: Sequence[Group]) -> str:
    """Return why these figures say nothing about the SUTs, if a variable of the user caused the
    difference. Not all frameworks read it. Empty in all other cases.
    """
    threads = _threads(groups)
    named = dict.fromkeys(name for g in groups for name in variables.of_threads(g.cell.variables))
    if not threads or not named:
        return ""
    return (
        f"not all SUTs obey {', '.join(named)}, and they multiplied matrices with other"
        f" numbers of threads ({threads})"
    )


def _threads(groups: Sequence[Group]) -> str:
    """Return `native-jax 2, native-torch-eager 1`. Empty if no two numbers differ."""
    found = {}
    for group in groups:
        count = matrix_products(group.last.result).get("threads")
        if type(count) is int:
            found[group.sut] = count
    if len(set(found.values())) < 2:
        return ""
    return ", ".join(f"{sut} {count}" for sut, count in found.items())
