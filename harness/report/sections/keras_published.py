"""A section with the two figures of Keras' published benchmark, drawn from our cells.

They are Keras 3 over Keras 2, and over native PyTorch. Each published figure
(https://keras.io/getting_started/benchmarks/) shows the speed of Keras 3 on its best backend over
that of the other, one bar for each model and task. The published ratio, of an A100, is a mark at
our bar if the table has the same batch, and at every training. Most columns of their table were not
measured in float32 (`lower_precision`).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from formats.cell import LORA, STANDARD_INPUTS
from harness.comparison.compare import Published, published, published_for
from harness.comparison.tables import Group
from harness.inputs import architectures, models
from harness.report.content import Content
from harness.report.section import Bar, Picture, Pictures, Section

FIGURES = {
    "keras2-tensorflow": "Keras 3 over Keras 2",
    "native-torch-eager": "Keras 3 over native PyTorch",
}
"""SUT that Keras 3 is compared with → title of its figure."""
A100_FLOAT32_TFLOPS = 19.5
"""The most that an A100 computes in float32 without TF32, in 10^12 operations a second.

https://www.nvidia.com/en-us/data-center/a100/, peak FP32
"""

_MOST_BARS = 16


def section(content: Content) -> Section:
    """A picture for each SUT that Keras 3 is compared with."""
    bars = {}
    for other, title in FIGURES.items():
        of_one = gains(content, other)
        if of_one:
            bars[title] = of_one
    drawn = [bar for of_one in bars.values() for bar in of_one]
    if not any(bar.mark for bar in drawn):
        return Section()  # Keras published none of these cells

    def pictures() -> Pictures:
        from harness.report import figures

        shown = []
        for title, of_one in bars.items():
            left = len(of_one) - _MOST_BARS
            caption = f"{title} ({left} more are not drawn)" if left > 0 else title
            draw = partial(figures.gains, of_one[:_MOST_BARS], title=title)
            shown.append(Picture(caption=caption, draw=draw))
        return Pictures(shown=shown)

    return Section(
        title="The figures that Keras published, from these cells",
        note=(
            "The speed of the fastest Keras 3 SUT over the other's, with its 95 % interval. Right"
            " of the dotted line Keras 3 is faster. A ring is the published ratio, which is of an"
            " NVIDIA A100 and models of full size. Machine and method differ, and for fit perhaps"
            " the batch, so the two show only whether the same side is faster."
            f" {lower_precision()}"
        ),
        pictures=pictures,
    )


def gains(content: Content, other: str) -> list[Bar]:
    """Return a bar for each comparison with figures of both: the fastest Keras 3 SUT over the
    other.

    The bar's mark is the same ratio in the published table, with the fastest backend there.
    """
    found = []
    for comparison in content.conclusive:
        keras = next((g for g in comparison.good if g.cell.sut.startswith("keras3-")), None)
        rival = next((g for g in comparison.good if g.cell.sut == other), None)
        if keras and rival:
            ratio = comparison.ratio(keras, rival)
            mark = _theirs(keras, other)
            found.append(Bar(label=comparison.name, sut=keras.sut, ratio=ratio, mark=mark))
    return found


def lower_precision() -> str:
    """Return sentences on the columns of the published table that are too fast for float32.

    They are computed from the figures of BERT's predictions.
    """
    fast: list[str] = []
    slow: list[str] = []
    predictions = [row for row in published() if (row.model, row.task) == ("bert", "predict")]
    for rate, sut in sorted((_tflops(row), row.sut) for row in predictions):
        side = fast if rate > A100_FLOAT32_TFLOPS else slow
        side.append(f"{sut} ({rate:.1f} TFLOP/s)")
    return (
        f"An A100 computes at most {A100_FLOAT32_TFLOPS} TFLOP/s in float32. The published"
        f" predictions of BERT are faster with {', '.join(fast)}. So these columns are TF32, or"
        " a lower precision: compare them with cells of --precision tf32. Those of"
        f" {', '.join(slow)} may be float32. Ratios between the two kinds are in part ratios of"
        " precision."
    )


def _tflops(row: Published) -> float:
    """Return the speed of the matrix products in one of BERT's published predictions, in 10^12
    operations a second.
    """
    model = models.load(row.model)
    count = architectures.of(model).least_flops
    assert count and row.seq_len
    one_input = {"attention_mask": np.ones((1, row.seq_len))}
    flops = row.batch_size * count(model.sizes["full"], one_input)
    return flops / row.ms_per_step / 1e9


def _theirs(group: Group, other: str) -> float | None:
    """Return the published speed of Keras 3's fastest backend over the other's; None if unknown."""
    c = group.cell
    times = {sut: row.ms_per_step for sut, row in published_for(c).items()}
    # The published BERT reads padded texts, and the published prompts have one length.
    is_uneven = c.dataset == "uneven" and c.task == "generate"
    other_inputs = is_uneven or c.dataset not in STANDARD_INPUTS
    other_model = c.size == "user" or c.lora == LORA[1]
    if c.scenario == "SingleStream" or other_inputs or other_model or other not in times:
        return None
    return times[other] / min(ms for sut, ms in times.items() if sut.startswith("keras3-"))
