"""How often each shape runs before anything is timed, on the mock."""

import pytest

from formats.job import PROFILE, Known, Place, Serving
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.watching.warm_up import warm_up
from sut import mock
from sut.contract import Unsupported
from tests.support import mock_job

KNOWN = Known(calibration={}, second_ns=(5, 6), matrix_flops=None)
SERVING = Serving(max_wait_ms=1.0, percentile=99.0, max_latency_ms=100.0)


class Counting(mock.Mock):
    """Counts the batches that it answers."""

    answered = 0

    def predict(self, batch):
        self.answered += 1
        return super().predict(batch)


@pytest.mark.parametrize(
    ("task", "changes", "batches"),
    [
        ("predict", {}, 4),
        ("predict", {"known": KNOWN}, 2),
        ("generate", {}, 2),
        ("generate", {"known": KNOWN}, 2),
        # These have no calibration of each shape, or need the time of a warm batch before it.
        ("generate", {"procedure": PROFILE}, 4),
        ("generate", {"serving": SERVING}, 4),
        ("generate", {"places": (Place(), Place())}, 4),
    ],
    ids=str,
)
def test_each_of_two_shapes_runs_twice_or_once(tmp_path, task, changes, batches):
    job = mock_job.changed(mock_job.make(tmp_path, task=task), warmup_rows=2, **changes)
    sut = Counting(job.workload)
    times, _ = warm_up(job, sut, Heartbeat(tmp_path / "heartbeat"))
    assert sut.answered == batches
    seconds = [shape.get("second_ns") for shape in times]
    if "known" in changes:
        assert seconds == [5, 6]
    else:
        assert all(seconds) == (batches == 4)


class OfNoBatch(mock.Mock):
    """Answers with one row for the whole batch."""

    def to_host(self, outputs):
        return {name: array[:1] for name, array in super().to_host(outputs).items()}


def test_answers_without_a_row_for_each_sample_are_refused_by_name_and_shape(tmp_path):
    job = mock_job.make(tmp_path)
    assert job.workload.batch_size > 1
    rows = rf"the output {job.answer[0]} has the shape \[1, .*for a batch of \d+ samples: its first"
    with pytest.raises(Unsupported, match=rows):
        warm_up(job, OfNoBatch(job.workload), Heartbeat(tmp_path / "heartbeat"))


def test_a_gpu_runs_each_shape_twice_because_it_records_graphs(tmp_path):
    job = mock_job.make(tmp_path, task="generate")
    sut = Counting(job.workload)
    on_gpu = mock_job.changed(job, device="cuda")
    warm_up(on_gpu, sut, Heartbeat(tmp_path / "heartbeat"))
    assert sut.answered == 2
