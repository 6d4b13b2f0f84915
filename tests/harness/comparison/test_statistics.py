"""Intervals, ratios, verdicts and advice, on figures whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.comparison import statistics
from tests.scale import ab_simulation
from tests.support.long import long_unless

FIGURES = st.lists(st.floats(1e-3, 1e6), min_size=3, max_size=9)


@pytest.mark.parametrize("repeats", long_unless(ab_simulation.REPEATS, lambda repeats: repeats < 6))
def test_equal_cells_are_seldom_called_different_and_intervals_hold_the_truth(repeats):
    outcome = ab_simulation.simulate(repeats, pairs=2000)
    assert outcome.different <= 0.05
    # Six pairs can reach 96.9 % and no less; 2,000 comparisons are off by 0.4 % by chance.
    assert 0.93 <= outcome.covered <= 0.975
    assert outcome.shown > 0.5  # a difference of 10 % is found more often than not


def test_the_interval_of_a_mean_is_students_on_logarithms():
    s = statistics.summarise([100, 110, 121])
    half = 4.302652729911275 * math.log(1.1) / math.sqrt(3)
    assert s.mean == pytest.approx(110)
    assert (s.low, s.high) == (
        pytest.approx(110 * math.exp(-half)),
        pytest.approx(110 * math.exp(half)),
    )


def test_fewer_than_three_repeats_have_no_interval_and_no_verdict():
    assert statistics.summarise([100, 101]).low is None
    ratio = statistics.compare([200, 210], [100, 105], paired=True)
    assert (ratio.low, ratio.different, ratio.slower_than(0)) == (None, False, False)
    assert (
        ratio.verdict("A", "B")
        == "too few repeats: 2 runs of one, and 3 of each are needed; so far A is 2 × B"
    )


def test_the_verdict_states_the_ratio_of_speed_with_its_interval():
    a, b = [147, 148, 146, 147, 149], [100, 101, 100, 99, 101]
    ratio = statistics.compare(a, b, paired=True)
    assert ratio.verdict("keras3-jax", "native-torch-eager").startswith("keras3-jax is 1.47")
    assert ratio.low < ratio.value < ratio.high and ratio.method == "paired t"
    slower = statistics.compare(a, b, paired=True, higher_is_better=False)  # as latencies
    assert slower.value == pytest.approx(1 / ratio.value)
    assert slower.slower_than(0.3) and not slower.slower_than(0.4)


def test_a_difference_that_drift_hides_is_seen_in_pairs_alone():
    drift = np.array([1.0, 1.1, 0.9, 1.2, 0.8, 1.0])
    a, b = 105 * drift * [1, 1.002, 0.998, 1, 1.001, 0.999], 100 * drift
    assert statistics.compare(a, b, paired=True).different
    unpaired = statistics.compare(a, b, paired=False)
    assert unpaired.method == "Welch t"
    assert unpaired.verdict().startswith("no difference shown: the interval is 0.8")


def test_one_disturbed_run_of_ten_does_not_hide_a_difference():
    a, b = np.full(10, 110.0) * np.linspace(0.99, 1.01, 10), np.full(10, 100.0)
    a[4] /= 1.3
    ratio = statistics.compare(a, b, paired=True)
    assert ratio.method == "sign flips" and ratio.low > 1.03


@given(FIGURES, FIGURES, st.booleans())
def test_a_ratio_and_its_inverse_agree(a, b, paired):
    b = b[: len(a)] + a[len(b) :] if paired else b
    one, other = statistics.compare(a, b, paired=paired), statistics.compare(b, a, paired=paired)
    assert one.value == pytest.approx(1 / other.value)
    assert (one.low, one.high) == (
        pytest.approx(1 / other.high, rel=1e-4),
        pytest.approx(1 / other.low, rel=1e-4),
    )
    assert one.low <= one.value * (1 + 1e-9) and one.value <= one.high * (1 + 1e-9)
    assert one.different == other.different or 1 in (
        pytest.approx(one.low),
        pytest.approx(one.high),
    )


@given(FIGURES, st.floats(0.01, 100))
def test_another_unit_changes_no_ratio(figures, factor):
    scaled = [factor * figure for figure in figures]
    ratio = statistics.compare(scaled, figures, paired=True)
    assert ratio.value == pytest.approx(factor)
    assert ratio.low == pytest.approx(factor, rel=1e-6) and ratio.high == pytest.approx(
        factor, rel=1e-6
    )


def test_advice_names_outliers_disturbances_and_few_repeats():
    assert statistics.advice([100, 101, 99, 100, 100]) == []
    assert "repeat 3 is far from the others" in statistics.advice([100, 101, 70, 100, 99])[0]
    assert statistics.advice([100]) == [
        "1 repeat: measure at least 3, because two runs of one cell differ by chance"
    ]
    assert statistics.advice([100, 100, 101], 1)[-1] == "1 of 3 repeats was disturbed"


def test_more_repeats_are_needed_until_a_ratio_is_a_difference_or_within_ten_percent():
    def ratio(value, half, repeats=4):
        ends = value / half, value * half
        return statistics.Ratio(value=value, low=ends[0], high=ends[1], repeats=(repeats, repeats))

    assert statistics.more_repeats(ratio(1.5, 1.2)) == 0  # a difference
    assert statistics.more_repeats(ratio(1.02, 1.05)) == 0  # equal within 8 %
    assert statistics.more_repeats(ratio(1.0, 1.1**1.9)) == 11  # four times 1.9 squared is 14.4
    assert statistics.more_repeats(ratio(1.2, 1.2**2.9)) == 30
    assert statistics.more_repeats(statistics.Ratio(value=2, repeats=(1, 2))) == 2


def test_the_intervals_of_more_suts_are_wider_and_decide_what_is_different():
    ratios = [statistics.judged(0.05, 0.015, 10, n, "pooled", (3, 3)) for n in (2, 3, 12)]
    widths = [ratio.spread for ratio in ratios]
    assert widths == sorted(widths) and [ratio.different for ratio in ratios] == [True, True, False]
    for ratio in ratios:
        assert ratio.different == (not ratio.low <= 1 <= ratio.high)


def test_the_mean_of_a_ratio_and_its_inverse_is_one():
    assert statistics.geometric_mean([2, 0.5]) == pytest.approx(1)


@pytest.mark.parametrize("figures", [[], [1, 0], [1, math.nan], [1, -2]])
def test_what_is_no_figure_is_refused(figures):
    with pytest.raises(ValueError, match="numbers above 0"):
        statistics.summarise(figures)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.43, 1.52, "1.43–1.52"),
        (0.971, 1.049, "0.97–1.05"),
        (1.001, 1.03, "1.001–1.030"),
        (1.0012, 1.0019, "1.0012–1.0019"),
        (150, 172, "150–172"),
    ],
)
def test_an_interval_has_the_digits_that_tell_its_ends_apart(low, high, text):
    assert statistics.interval(low, high) == text
