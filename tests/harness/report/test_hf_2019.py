"""Hugging Face's benchmark of 2019, made again of finished runs: which cells its averages are over, and what is said beside them."""

from datetime import UTC, datetime

import pytest

from harness.report import content, exports, hf_2019, page
from tests.support.synthetic_runs import cell, write

EAGER, SCRIPT, TENSORFLOW = "native-torch-eager", "native-torch-script", "hf-tensorflow"


def put(root, sut, model, batch, length, ms, **changes):
    """A cell whose batches take so many milliseconds."""
    write(root, cell(sut, model=model, batch_size=batch, seq_len=length, size="full", **changes), [1e3 * batch / ms])


@pytest.fixture
def measured(tmp_path):
    """gpt2 at two lengths, distilgpt2 at one; TensorFlow lacks the longer length of gpt2."""
    for model, length, ms in (("gpt2", 8, 10), ("gpt2", 64, 40), ("distilgpt2", 8, 4)):
        put(tmp_path, EAGER, model, 1, length, ms)
        put(tmp_path, SCRIPT, model, 1, length, ms / 2)
    put(tmp_path, TENSORFLOW, "gpt2", 1, 8, 20)
    put(tmp_path, TENSORFLOW, "distilgpt2", 1, 8, 8)
    return tmp_path


def test_averages_are_over_the_cells_that_all_suts_have(measured):
    (again,) = content.gather(measured, "runs").benchmark_of_2019
    assert again.common.keys() == {("gpt2", 1, 8), ("distilgpt2", 1, 8)}
    assert {sut: pytest.approx(ms) for sut, ms in again.averages.items()} == {EAGER: 7, SCRIPT: 3.5, TENSORFLOW: 14}
    assert again.by_length[TENSORFLOW] == [(8, pytest.approx(14))]


def test_a_mean_by_length_is_over_models_that_have_each_length(measured):
    put(measured, TENSORFLOW, "gpt2", 1, 64, 90)
    (again,) = content.gather(measured, "runs").benchmark_of_2019
    assert again.through == [("gpt2", 1)]
    assert again.by_length[TENSORFLOW] == [(8, pytest.approx(20)), (64, pytest.approx(90))]


def test_a_sut_that_measured_bert_alone_takes_nothing_from_the_averages(measured):
    put(measured, "native-jax", "bert", 1, 8, 10)
    put(measured, "keras3-jax", "distilgpt2", 1, 8, 10)
    (again,) = content.gather(measured, "runs").benchmark_of_2019
    assert again.common.keys() == {("distilgpt2", 1, 8)}
    assert "here it takes 2.00 × over the 2 cells that both have" in again.words[1]


def test_prompts_of_a_user_are_not_the_benchmark(measured):
    put(measured, EAGER, "gpt2", 1, 8, 1000, dataset="53d4bf505f28")
    (again,) = content.gather(measured, "runs").benchmark_of_2019
    assert list(again.cells["gpt2", 1, 8][EAGER].values()) == [pytest.approx(10)]


def test_ratios_are_over_the_cells_that_two_suts_or_two_models_have(measured):
    (again,) = content.gather(measured, "runs").benchmark_of_2019
    (square,) = again.compiled
    assert (square.name, square.batches, square.lengths) == (f"{SCRIPT} over {EAGER}", [1], [8, 64])
    assert {key: pytest.approx(ratio.value) for key, ratio in square.ratios.items()} == {(1, 8): 2, (1, 64): 2}
    assert square.models == {(1, 8): 2, (1, 64): 1} and square.ratios[1, 8].low is None
    assert {(d.name, d.sut, d.cells): pytest.approx(d.ratio.value) for d in again.distilled} == {
        ("distilgpt2 over gpt2", sut, 1): 2.5 for sut in (EAGER, SCRIPT, TENSORFLOW)
    }


def repeated(root, sweep, lost=None):
    """Two models on two SUTs, whose repeats share their noise. → the ratio. `lost`: the repeat in which one cell has no figure."""
    for model, ms in (("gpt2", 10), ("distilgpt2", 4)):
        for sut, speed in ((EAGER, 1), (SCRIPT, 2)):
            figures = [1e3 * speed / ms / noise for noise in (1, 1.2, 0.8, 1.1)]
            if lost is not None and (model, sut) == ("gpt2", SCRIPT):
                figures[lost] = None
            write(root, cell(sut, model=model, batch_size=1, seq_len=8, size="full"), figures, sweep=sweep)
    (again,) = content.gather(root, "runs").benchmark_of_2019
    return again.compiled[0].ratios[1, 8]


def test_repeats_that_were_not_measured_in_turns_are_no_pairs(tmp_path):
    ratio = repeated(tmp_path, None)
    assert ratio.method == "Welch t" and ratio.low < 1.9 and ratio.high > 2.1


@pytest.mark.parametrize("lost", [None, 1])
def test_repeats_of_a_sweep_give_these_ratios_an_interval(tmp_path, lost):
    ratio = repeated(tmp_path, "hf-2019-1", lost)
    assert ratio.value == pytest.approx(2) and ratio.low == pytest.approx(2) and ratio.repeats == (4 - (lost is not None),) * 2
    html = page.render(content.gather(tmp_path, "runs"), datetime(2026, 8, 20, tzinfo=UTC))
    assert '2 × <br><span class="soft">(2.00–2.00), 2</span>' in html


def test_the_published_averages_stand_beside_ours_with_what_may_be_concluded(measured):
    report = content.gather(measured, "runs")
    then = "in 2019 the averages were PyTorch 1.3 0.748 s and TensorFlow 2.0 0.823 s, so TensorFlow took 1.10 × the time of PyTorch"
    assert f"{then}; here it takes 2.00 × over the 2 cells that both have, and 2.00 × where each cell counts alike" in str(report.sentences)
    assert any(sentence.startswith("what may be concluded: ") for sentence in report.sentences)
    assert then in exports.markdown(report)
    html = page.render(report, datetime(2026, 8, 20, tzinfo=UTC))
    assert "Hugging Face&#39;s benchmark of 2019, size full" in html or "Hugging Face's benchmark of 2019, size full" in html
    assert "PyTorch 1.3: 748.0 ms" in html and "Speed of distilled models" in html


def test_a_mean_that_is_mostly_of_one_cell_says_so_and_has_a_mean_of_ratios_beside_it(tmp_path):
    for tokens in (8, 64, 128, 256):
        for batch in (1, 2, 4):
            long = (batch, tokens) == (4, 256)
            put(tmp_path, EAGER, "gpt2", batch, tokens, 1000 if long else 10)
            put(tmp_path, TENSORFLOW, "gpt2", batch, tokens, 500 if long else 20)
    (again,) = content.gather(tmp_path, "runs").benchmark_of_2019
    assert f"few cells make half of a mean, or more of it: of 12 cells 1 of {EAGER}'s, 1 of {TENSORFLOW}'s" in again.words
    assert "0.65 × over the 12 cells that both have, and 1.78 × where each cell counts alike" in str(again.words)


def test_rows_stand_in_the_order_of_batch_and_tokens_and_suts_in_that_of_the_registry(tmp_path):
    for batch in (8, 1):
        for tokens in (128, 8, 64):
            for sut, ms in ((TENSORFLOW, 10), (SCRIPT, 30), (EAGER, 20)):
                put(tmp_path, sut, "gpt2", batch, tokens, ms)
    report = content.gather(tmp_path, "runs")
    assert [(c.cell.batch_size, c.cell.seq_len) for c in (of_one.groups[0] for of_one in report.contests)] == [
        (batch, tokens) for batch in (1, 8) for tokens in (8, 64, 128)
    ]
    put(tmp_path, EAGER, "distilgpt2", 1, 8, 10)  # of the first model's SUTs one is missing
    put(tmp_path, TENSORFLOW, "distilgpt2", 1, 8, 10)
    report = content.gather(tmp_path, "runs")
    assert [*report.benchmark_of_2019[0].averages] == [EAGER, SCRIPT, TENSORFLOW]


def test_a_tiny_model_says_nothing_of_2019(tmp_path):
    for sut in (EAGER, TENSORFLOW):
        write(tmp_path, cell(sut, model="gpt2", size="tiny"), [100])
    (again,) = content.gather(tmp_path, "runs").benchmark_of_2019
    assert again.words[-1].startswith("nothing may be concluded of 2019 from size tiny, float32, cpu")


def test_suts_without_a_cell_in_common_have_no_averages(tmp_path):
    put(tmp_path, EAGER, "gpt2", 1, 8, 10)
    put(tmp_path, TENSORFLOW, "gpt2", 1, 64, 10)
    (again,) = content.gather(tmp_path, "runs").benchmark_of_2019
    assert not again.averages and again.words[0].endswith("no cell in common, so there are no averages")


def test_bert_alone_is_not_the_benchmark_of_2019(tmp_path):
    put(tmp_path, EAGER, "bert", 1, 8, 10)
    assert content.gather(tmp_path, "runs").benchmark_of_2019 == []


def test_the_published_averages_are_there_for_both_devices():
    assert {device: {p.framework: p.seconds for p in hf_2019.published(device).values()} for device in ("cpu", "cuda")} == {
        "cpu": {"PyTorch 1.3": 0.748, "TensorFlow 2.0": 0.823},
        "cuda": {"PyTorch 1.3": 0.046, "TensorFlow 2.0": 0.043},
    }
