"""The training-step timer, beside a framework that runs ahead of its device."""

from types import SimpleNamespace
from unittest.mock import Mock

from scenarios.worker import fit

MS = 1_000_000


class Device:
    """A clock in nanoseconds. A step costs the host 1 ms; the device takes 10 ms more for it, and
    is not waited for.
    """

    def __init__(self):
        self.now = self.done = 0

    def step(self):
        self.now += MS
        self.done = max(self.done, self.now) + 10 * MS

    def wait(self):
        self.now = max(self.now, self.done)


def test_the_window_holds_twenty_whole_steps_of_the_device_and_none_of_the_first_two(monkeypatch):
    device = Device()
    monkeypatch.setattr(fit, "_clock", lambda: device.now)
    job = SimpleNamespace(test="performance", workload=SimpleNamespace(device="cpu"))
    timer = fit.Timer(job, Mock(), expected=22, synchronise=device.wait)
    for number in range(22):
        device.step()
        timer.on_step(lambda number=number: float(number))
    assert (timer.first_ended_ns, timer.started_ns) == (11 * MS, 22 * MS)
    assert timer.closed_ns - timer.started_ns == (1 + 20 * 10) * MS
    # Told long before the device was done.
    assert len(timer.marks_ns) == 20 and timer.marks_ns[-1] == 42 * MS
    assert timer.losses == [0.0, 21.0]
    # The long wait at the end is the device's, and no disturbance.
    assert timer.surroundings()["disturbance"].stalls == 0


def test_a_pause_while_the_end_is_noted_is_no_longer_in_the_queue_than_it_lasts(monkeypatch):
    """Another program has the processor before each reading, of the clock and of the queue, and
    each time for longer.
    """
    now = pauses = 0

    def paused():
        nonlocal now, pauses
        pauses += 1
        now += pauses * MS
        return now

    monkeypatch.setattr(fit, "_clock", paused)
    monkeypatch.setattr(fit, "_queued_ns", paused)
    timer = fit.Timer(
        SimpleNamespace(test="accuracy", workload=SimpleNamespace(device="cpu")),
        Mock(),
        expected=4,
        synchronise=Mock(),
    )
    for _ in range(4):
        timer.on_step(lambda: 0.5)
    timer.end()
    assert 0 < timer.queued_ns <= timer.returned_ns - timer.closed_ns
