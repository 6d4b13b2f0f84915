"""A grid of models, batches and lengths: which cells its mean ratios are over."""

from datetime import UTC, datetime

import pytest

from harness.report import content, page, sections
from harness.report.sections import grid
from tests.support.synthetic_runs import cell, write

EAGER, COMPILED = "native-torch-eager", "native-torch-compile"
TENSORFLOW, XLA = "hf-tensorflow", "hf-tensorflow-xla"


def put(root, sut, model, batch, length, ms, **changes):
    """A cell whose batches take so many milliseconds."""
    write(
        root,
        cell(sut, model=model, batch_size=batch, seq_len=length, size="full", **changes),
        [1e3 * batch / ms],
    )


def tables(root):
    """Title → the texts of the rows, each cell in one piece."""
    report = content.gather(root, "runs")
    shown = [table for table in grid.section(report).tables if table.count]
    return {
        table.title.partition(",")[0]: [[*map("".join, row)] for row in table.groups[""]]
        for table in shown
    }


@pytest.fixture
def measured(tmp_path):
    """gpt2 at two lengths, distilgpt2 at one; TensorFlow lacks the longer length of gpt2."""
    for model, length, ms in (("gpt2", 8, 10), ("gpt2", 64, 40), ("distilgpt2", 8, 4)):
        put(tmp_path, EAGER, model, 1, length, ms)
        put(tmp_path, COMPILED, model, 1, length, ms / 2)
    put(tmp_path, TENSORFLOW, "gpt2", 1, 8, 20)
    put(tmp_path, TENSORFLOW, "distilgpt2", 1, 8, 8)
    return tmp_path


def test_each_sut_is_compared_with_the_plain_one_of_its_library(measured):
    put(measured, XLA, "gpt2", 1, 8, 5)
    found = tables(measured)
    assert found[f"Speed of {COMPILED} over {EAGER}"] == [
        ["1", "2 ×(no interval), 2", "2 ×(no interval), 1"]
    ]
    assert found[f"Speed of {XLA} over {TENSORFLOW}"] == [["1", "4 ×(no interval), 1"]]
    assert not [
        title
        for title in found
        if title.startswith((f"Speed of {EAGER}", f"Speed of {TENSORFLOW} "))
    ]


def test_a_distilled_model_is_compared_with_the_full_one_on_each_sut(measured):
    assert tables(measured)["Speed of distilled models over full ones"] == [
        ["distilgpt2 over gpt2", sut, "2.5 ×(no interval), 1"]
        for sut in (EAGER, COMPILED, TENSORFLOW)
    ]


def test_rows_are_batches_and_columns_are_lengths(measured):
    put(measured, EAGER, "gpt2", 8, 64, 40)
    put(measured, COMPILED, "gpt2", 8, 64, 10)
    (table,) = [
        table
        for table in grid.section(content.gather(measured, "runs")).tables
        if COMPILED in table.title
    ]
    assert table.columns == ("batch", "8 tokens", "64 tokens")
    assert table.title.endswith("mean over models, size full, float32, cpu, quick")
    assert table.groups[""][1] == ("8", "", ("4 ×", "(no interval), 1"))


@pytest.mark.parametrize(
    "changes", [{"dataset": "53d4bf505f28"}, {"quantized": "int8"}, {"replicas": "2"}]
)
def test_prompts_of_a_user_quantised_weights_and_replicas_are_in_no_grid(measured, changes):
    put(measured, EAGER, "gpt2", 2, 8, 1000, **changes)
    (found,) = grid.grids(content.gather(measured, "runs"))
    assert ("gpt2", 2, 8) not in found.cells


def test_one_model_is_no_grid(tmp_path):
    for length in (8, 64):
        for sut in (EAGER, COMPILED):
            put(tmp_path, sut, "bert", 1, length, 10)
    assert grid.grids(content.gather(tmp_path, "runs")) == []


def repeated(root, sweep, lost=None):
    """Two models on two SUTs, whose repeats share their noise. → the report. `lost`: the repeat in
    which one cell has no figure.
    """
    for model, ms in (("gpt2", 10), ("distilgpt2", 4)):
        for sut, speed in ((EAGER, 1), (COMPILED, 2)):
            figures = [1e3 * speed / ms / noise for noise in (1, 1.2, 0.8, 1.1)]
            if lost is not None and (model, sut) == ("gpt2", COMPILED):
                figures[lost] = None
            write(
                root,
                cell(sut, model=model, batch_size=1, seq_len=8, size="full"),
                figures,
                sweep=sweep,
            )
    return content.gather(root, "runs")


def test_repeats_that_were_not_measured_in_turns_are_no_pairs(tmp_path):
    repeated(tmp_path, None)
    assert "(1." in tables(tmp_path)[f"Speed of {COMPILED} over {EAGER}"][0][1]


@pytest.mark.parametrize("lost", [None, 1])
def test_repeats_of_a_sweep_give_these_ratios_an_interval(tmp_path, lost):
    report = repeated(tmp_path, "front-page-1", lost)
    html = page.render(report, sections.of(report), datetime(2026, 8, 20, tzinfo=UTC))
    assert '2.00 × <br><span class="soft">(2.00–2.00), 2</span>' in html


def test_rows_stand_in_the_order_of_batch_and_tokens(tmp_path):
    for batch in (8, 1):
        for tokens in (128, 8, 64):
            for sut, ms in ((TENSORFLOW, 10), (COMPILED, 30), (EAGER, 20)):
                put(tmp_path, sut, "gpt2", batch, tokens, ms)
    report = content.gather(tmp_path, "runs")
    assert [
        (c.cell.batch_size, c.cell.seq_len)
        for c in (of_one.groups[0] for of_one in report.comparisons)
    ] == [(batch, tokens) for batch in (1, 8) for tokens in (8, 64, 128)]
