"""Which measurement is next, on made-up figures: nothing is run."""

import pytest

from formats.result import Metric, Result, Status
from harness.sweep import schedule
from harness.sweep.schedule import RepeatPlan
from tests.support.cells import cells_of


def ended(series, value=100.0, status=Status.OK):
    metric = Metric("samples_per_second", value, "samples/s", True) if status is Status.OK else None
    return Result(
        cell=series.request.cell(),
        mode="quick",
        round="v6.1",
        directory="",
        status=status,
        metric=metric,
    )


def play(series, repeats, figure, limit=100):
    """The steps in their order, each ending as `figure(series, repeat)` says."""
    results, order = {}, []
    while step := schedule.next_step(series, results, repeats):
        one, repeat = step
        order.append((one.number, repeat))
        results[one.number, repeat] = figure(one, repeat)
        assert len(order) < limit
    return order, results


def test_cells_are_measured_in_turns():
    series = cells_of(batch_size="1,2,4")
    order, _ = play(series, RepeatPlan(least=2, most=2), lambda one, repeat: ended(one))
    assert order == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]


def rivals(count=6, control=True):
    grids = [{"sut_option": f"latency-ms={n}"} for n in range(1, count + 1)]
    return cells_of(*grids, control=control)


def test_each_round_has_an_order_of_its_own_that_its_seed_decides():
    series = rivals()
    orders = {}
    for seed in (1, 2):
        steps = schedule.steps(series, {}, RepeatPlan(least=3, most=3, seed=seed))
        orders[seed] = [tuple(s.number for s, repeat in steps if repeat == n) for n in (1, 2, 3)]
        assert steps == schedule.steps(series, {}, RepeatPlan(least=3, most=3, seed=seed))
    assert all(sorted(order) == list(range(7)) for of_seed in orders.values() for order in of_seed)
    assert len({*orders[1], *orders[2]}) == 6


DECISIVE = RepeatPlan(least=3, most=10, as_listed=True, decisive=True)


def runs_of(order):
    return {number: sum(n == number for n, _ in order) for number, _ in order}


def test_a_decisive_sweep_repeats_only_what_may_be_the_fastest():
    speeds = [100.0, 98.0, 70.0, 40.0]
    noise = [0.99, 1.01, 1.0]
    series = rivals(4, control=False)
    order, _ = play(
        series,
        DECISIVE,
        lambda one, repeat: ended(one, speeds[one.number] * noise[(one.number + repeat) % 3]),
    )
    runs = runs_of(order)
    assert runs[2] == runs[3] == 1
    assert runs[0] == runs[1] >= 3
    assert order[:4] == [(n, 1) for n in range(4)]


def test_a_decisive_sweep_ends_when_it_is_known_which_one_is_fastest():
    speeds = [100.0, 50.0, 90.0]
    series = rivals(3, control=False)
    order, _ = play(series, DECISIVE, lambda one, repeat: ended(one, speeds[one.number] + repeat))
    assert runs_of(order) == {0: 3, 1: 1, 2: 3}


def test_a_series_without_an_environment_is_measured_after_the_others_of_its_round():
    series = rivals(3, control=False)
    plan = RepeatPlan(least=1, most=1, as_listed=True, later=frozenset({0}))
    assert [s.number for s, _ in schedule.steps(series, {}, plan)] == [1, 2, 0]


def test_the_only_sut_left_of_a_comparison_is_not_repeated():
    series = rivals(3, control=False)
    statuses = [Status.OK, Status.ERROR, Status.OOM]
    order, _ = play(
        series,
        RepeatPlan(least=3, most=3),
        lambda one, repeat: ended(one, status=statuses[one.number]),
    )
    assert sorted(order) == [(0, 1), (1, 1), (2, 1)]


def with_switches():
    """Two SUTs as they come, and the first one with a switch."""
    first = {"sut": "native-torch-eager", "tuned": "off,omp-bind"}
    return cells_of(first, {"sut": "keras3-jax"})


@pytest.mark.parametrize(
    ("failed", "times"), [({2}, {0: 3, 1: 3, 2: 1}), ({0, 2}, {0: 1, 1: 1, 2: 1})], ids=str
)
def test_a_tuned_cell_and_the_same_cell_without_switches_are_compared(failed, times):
    order, _ = play(
        with_switches(),
        RepeatPlan(least=3, most=3),
        lambda one, _: ended(one, status=Status.ERROR if one.number in failed else Status.OK),
    )
    assert runs_of(order) == times


def test_with_a_deadline_every_round_has_the_order_of_the_list_and_the_control_run_last():
    series = rivals()
    steps = schedule.steps(series, {}, RepeatPlan(least=2, most=2, as_listed=True))
    listed = [0, 2, 3, 4, 5, 6, 1]
    assert series[1].control
    assert [(s.number, repeat) for s, repeat in steps] == [(n, r) for r in (1, 2) for n in listed]


@pytest.mark.parametrize("seed", range(20))
def test_a_control_run_is_far_from_the_cell_that_it_repeats(seed):
    series = rivals()
    order = [
        s.number for s, _ in schedule.steps(series, {}, RepeatPlan(least=1, most=1, seed=seed))
    ]
    control = next(s.number for s in series if s.control)
    assert abs(order.index(control) - order.index(0)) >= len(order) // 2


@pytest.mark.parametrize("status", [Status.OOM, Status.ERROR, Status.UNSUPPORTED, Status.SKIPPED])
def test_a_cell_that_cannot_be_measured_is_not_repeated_and_the_others_are(status):
    series = cells_of(batch_size="1,2")
    order, _ = play(
        series,
        RepeatPlan(least=3, most=3),
        lambda one, _: ended(one, status=status if one.number == 0 else Status.OK),
    )
    assert order == [(0, 1), (1, 1), (1, 2), (1, 3)]


def test_an_invalid_cell_is_repeated_because_the_next_one_may_be_good():
    order, _ = play(
        cells_of(), RepeatPlan(least=2, most=2), lambda one, _: ended(one, status=Status.INVALID)
    )
    assert order == [(0, 1), (0, 2)]


def test_what_is_left_is_the_same_whenever_it_is_asked_again():
    series, repeats = cells_of(batch_size="1,2"), RepeatPlan(least=3, most=3)
    order, results = play(series, repeats, lambda one, repeat: ended(one))
    for done in range(len(order)):
        there = {key: results[key] for key in order[:done]}
        assert [(s.number, r) for s, r in schedule.steps(series, there, repeats)] == order[done:]


def test_where_less_is_faster_the_ratio_is_turned_over():
    series = cells_of(control=True, scenario="SingleStream")
    results = {}
    for one, milliseconds in zip(series, (10.0, 5.0), strict=True):
        result = ended(one)
        object.__setattr__(
            result, "metric", Metric("latency_p90", 99.0, "ms", False, "early stopping")
        )
        object.__setattr__(result, "metrics", {"latency_p50_ms": milliseconds})
        results[one.number, 1] = result
    assert schedule.ratios(series, results)[1].value == pytest.approx(2.0)


def test_drift_that_hits_both_alike_leaves_the_ratio_alone():
    series = cells_of(control=True)
    results = {
        (s.number, r): ended(s, (100 + 10 * r) * (1 + s.number)) for s in series for r in (1, 2, 3)
    }
    ratio = schedule.ratios(series, results)[1]
    assert (ratio.value, ratio.spread) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12))


@pytest.mark.parametrize("decisive", [True, False])
def test_repeats_of_all_comparisons_are_measured_in_turns(decisive):
    grid = {"scenario": "Offline,SingleStream"}
    series = cells_of(*(grid | {"sut_option": f"latency-ms={n}"} for n in (1, 2)))
    plan = RepeatPlan(least=2, most=2, as_listed=True, decisive=decisive)
    order, _ = play(series, plan, lambda one, repeat: ended(one))
    assert [repeat for _, repeat in order] == [1, 1, 1, 1, 2, 2, 2, 2]
