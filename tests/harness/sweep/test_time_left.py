"""The time that a sweep says is left."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

from harness.execution.zygotes import Zygotes
from harness.request.estimate import Cost
from harness.sweep import loop
from harness.sweep.schedule import RepeatPlan
from tests.harness.sweep.test_schedule import ended
from tests.support.cells import cells_of


def test_costs_of_cells_that_were_not_measured_are_scaled_by_those_of_the_measured_ones():
    series = cells_of(batch_size="2,4")
    cost = Cost(seconds=10.0, disk_bytes=0, memory_bytes=0, basis="")
    costs = {one.number: cost for one in series}
    sweep = SimpleNamespace(series=series, repeats=RepeatPlan(least=2, most=2), costs=costs)
    known = loop._Known(results={}, attempts=Counter(), zygotes=Zygotes(print))
    assert known.seconds_left(sweep) == 40
    known.next_s[0] = 5.0
    assert known.seconds_left(sweep) == 20


def test_a_measurement_begins_if_it_is_expected_to_end_in_time():
    known = loop._Known(results={}, attempts=Counter(), zygotes=Zygotes(print))
    known.next_s[0] = 20.0
    for left_s, over, may_begin in ((26, True, [True, False]), (19, False, [False, True])):
        deadline = SimpleNamespace(left_s=left_s)
        sweep = SimpleNamespace(deadline=deadline, time_is_up=over)
        assert [known.has_time(sweep, number) for number in (0, 1)] == may_begin
    assert known.has_time(SimpleNamespace(deadline=None, time_is_up=False), 0)


def test_a_later_repeat_is_not_expected_to_compile_or_calibrate():
    seconds = {"import": 2.0, "compile": 9.0, "calibration": 1.0, "environment x": 60.0}
    (one,) = cells_of()
    assert loop._first_repeat_s(replace(ended(one), seconds=seconds)) == 70
