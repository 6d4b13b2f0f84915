"""The two figures of Keras' published benchmark, drawn again from our cells: Keras 3 over Keras 2, and over native PyTorch.

There (https://keras.io/getting_started/benchmarks/) each is the speed of Keras 3 on its best backend over that of the other, one bar for
each model and task. Their A100 is a mark beside ours if the table has the same batch, and beside every training. Most columns of their
table were not measured in float32 (`lower_precision`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from formats.cell import LORA, STANDARD_INPUTS
from harness.comparison import statistics
from harness.comparison.compare import Published, published, published_for
from harness.comparison.tables import Group
from harness.inputs import families, models
from harness.report.content import Content

FIGURES = {"keras2-tensorflow": "Keras 3 over Keras 2", "native-torch-eager": "Keras 3 over native PyTorch"}
"""SUT that Keras 3 is compared with → what its figure is called."""
A100_FLOAT32_TFLOPS = 19.5
"""The most that an A100 computes in float32 without TF32: https://www.nvidia.com/en-us/data-center/a100/, peak FP32."""


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
    for contest in content.conclusive:
        keras = next((g for g in contest.good if g.cell.sut.startswith("keras3-")), None)
        rival = next((g for g in contest.good if g.cell.sut == other), None)
        if keras and rival:
            ratio = contest.ratio(keras, rival)
            found.append(Gain(work=contest.name, sut=keras.sut, ratio=ratio, theirs=_theirs(keras, other)))
    return found


def lower_precision() -> str:
    """Sentences on the columns of the published table that are too fast for float32, by their figures of BERT's predictions."""
    rates = {row.sut: _tflops(row) for row in published() if (row.model, row.task) == ("bert", "predict")}
    fast = _listed({sut: rate for sut, rate in rates.items() if rate > A100_FLOAT32_TFLOPS})
    slow = _listed({sut: rate for sut, rate in rates.items() if rate <= A100_FLOAT32_TFLOPS})
    return (
        f"An A100 computes at most {A100_FLOAT32_TFLOPS} TFLOP/s in float32. The published predictions of BERT are faster with {fast}. "
        f"So these columns are TF32, or a lower precision: compare them with cells of --precision tf32. "
        f"Those of {slow} may be float32. Ratios between the two kinds are in part ratios of precision."
    )


def _tflops(row: Published) -> float:
    """The matrix products of one of BERT's published predictions, in 10^12 operations a second."""
    model = models.load(row.model)
    count = families.of(model).least_flops
    assert count and row.seq_len
    flops = row.batch_size * count(model.sizes["full"], {"attention_mask": np.ones((1, row.seq_len))})
    return flops / row.ms_per_step / 1e9


def _listed(rates: Mapping[str, float]) -> str:
    """`a (12.1 TFLOP/s), b (30.4 TFLOP/s)`, the slowest first."""
    return ", ".join(f"{sut} ({rates[sut]:.1f} TFLOP/s)" for sut in sorted(rates, key=lambda sut: rates[sut]))


def _theirs(group: Group, other: str) -> float | None:
    times = {sut: p.ms_per_step for sut, p in published_for(group.cell).items()}
    c = group.cell
    # Their BERT reads padded texts; their prompts have one length.
    other_inputs = c.dataset not in STANDARD_INPUTS or (c.dataset == "uneven" and c.task == "generate")
    if c.scenario == "SingleStream" or other_inputs or c.size == "user" or c.lora == LORA[1] or other not in times:
        return None
    return times[other] / min(ms for sut, ms in times.items() if sut.startswith("keras3-"))
