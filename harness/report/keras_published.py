"""The two figures of Keras' published benchmark, drawn again from our cells: Keras 3 over Keras 2, and over native PyTorch.

There (https://keras.io/getting_started/benchmarks/) each is the speed of Keras 3 on its best backend over that of the other, one bar for
each model and task. Their A100 stands beside ours as a mark where the table has the same batch, and beside every training.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.cell import LORA, STANDARD_INPUTS
from harness.comparison import statistics, tables
from harness.comparison.compare import published_for
from harness.comparison.tables import Group
from harness.report.content import Content

FIGURES = {"keras2-tensorflow": "Keras 3 over Keras 2", "native-torch-eager": "Keras 3 over native PyTorch"}
"""SUT that Keras 3 is compared with → what its figure is called."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One bar.

    Attributes:
        sut: the fastest Keras 3 SUT.
        ratio: its speed over the other's.
        theirs: the same of the published table, there with its own fastest backend; None where it has no such row.
    """

    work: str
    sut: str
    ratio: statistics.Ratio
    theirs: float | None


def gains(content: Content, other: str) -> list[Gain]:
    """A bar for each contest in which both have figures."""
    found = []
    for contest in content.contests:
        keras = next((g for g in contest.good if g.cell.sut.startswith("keras3-")), None)
        rival = next((g for g in contest.good if g.cell.sut == other), None)
        if keras and rival:
            ratio = tables.ratio(keras, rival)
            found.append(Gain(work=contest.name, sut=keras.sut, ratio=ratio, theirs=_theirs(keras, other)))
    return found


def _theirs(group: Group, other: str) -> float | None:
    times = {sut: p.ms_per_step for sut, p in published_for(group.cell).items()}
    c = group.cell
    # Their BERT reads padded texts; their prompts have one length.
    other_inputs = c.dataset not in STANDARD_INPUTS or (c.dataset == "uneven" and c.task == "generate")
    if c.scenario == "SingleStream" or other_inputs or c.size == "user" or c.lora == LORA[1] or other not in times:
        return None
    return times[other] / min(ms for sut, ms in times.items() if sut.startswith("keras3-"))
