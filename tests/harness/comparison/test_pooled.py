"""The common noise of many SUTs, on sweeps whose truth is known."""

import numpy as np
import pytest

from harness.comparison.pooled import Pooled
from tests.scale import ab_simulation


def measured(speeds, **changes):
    """Speeds, float64 [rounds, series], as `Pooled` takes them; series are named by their
    number.
    """
    series = {str(n): dict(enumerate(column)) for n, column in enumerate(np.array(speeds).T)}
    return Pooled(**{"series": series, "compared": len(series)} | changes)


@pytest.mark.parametrize("repeats", [3, 5])
@pytest.mark.parametrize("cells", [6, pytest.param(12, marks=pytest.mark.long)])
def test_none_of_many_equal_suts_is_called_slower_and_the_intervals_hold(repeats, cells):
    now = ab_simulation.sweeps([1.0] * cells, repeats, 400)
    before = ab_simulation.sweeps([1.0] * cells, repeats, 400, before=True)
    assert now.wrong <= 0.07  # 5 % and what 400 sweeps are off by chance
    assert before.wrong > 0.15  # the same noise by the runs of two alone
    assert now.covered >= 0.93  # of all pairs at once


def test_a_series_of_another_noise_keeps_it_to_itself():
    generator = np.random.default_rng(1)
    logs = generator.normal(0, 0.01, (5, 8))
    logs[:, 3] = [0.3, -0.4, 0.5, -0.2, 0.4]
    pooled = measured(np.exp(logs))
    assert pooled.noisy == ("3",)
    quiet, loud = pooled.ratio("0", "1"), pooled.ratio("3", "1")
    assert (quiet.method, loud.method) == ("pooled", "paired t")
    assert quiet.spread < 0.03 and loud.spread > 0.3


def test_what_slows_a_whole_round_changes_no_ratio():
    speeds = np.array([[100, 50, 25], [101, 50.2, 25.1], [99, 49.8, 24.9]])
    slowed = speeds * np.array([[1], [0.5], [3]])
    one, other = measured(speeds).ratio("0", "1"), measured(slowed).ratio("0", "1")
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
    assert one.different and one.value == pytest.approx(2, rel=0.01)


def test_with_two_suts_it_is_students_t_of_the_pairs():
    speeds = np.array([[100, 52], [101, 50], [99, 51]])
    ratio = measured(speeds).ratio("0", "1")
    differences = np.log(speeds[:, 0] / speeds[:, 1])
    half = 4.302652729911275 * differences.std(ddof=1) / np.sqrt(3)
    assert (ratio.low, ratio.high) == pytest.approx(
        tuple(np.exp(differences.mean() + np.array([-half, half])))
    )


def test_a_round_that_a_sut_has_no_figure_in_still_tells_of_the_others():
    speeds = np.array([[100, 50, 25], [101, 50.5, 25.1], [99, 49.8, 24.9], [100, 50.1, 25]])
    pooled = measured(speeds)
    lacking = {**pooled.series, "2": {n: v for n, v in pooled.series["2"].items() if n != 3}}
    ratio = measured(speeds, series=lacking).ratio("0", "2")
    assert ratio.repeats == (4, 3) and ratio.value == pytest.approx(4, rel=0.01)


def test_fewer_than_three_rounds_in_common_are_no_common_noise():
    apart = {
        "a": {1: 100.0, 2: 101.0, 3: 99.0},
        "b": {3: 50.0, 4: 51.0, 5: 49.0},
        "c": {1: 5.0, 2: 5.0, 3: 5.0},
    }
    pooled = Pooled(series=apart, compared=3)
    assert pooled.ratio("a", "b") is None and pooled.ratio("a", "c") is not None
