"""The numbers of a test, from LoadGen's log and the worker's outcome."""

from __future__ import annotations

import pytest

from formats import reading
from formats.figures import FIGURES
from formats.outcome import QueueSummary, WorkerOutcome
from formats.record import Record
from results import figures
from tests.support.synthetic_runs import cell, record_json

QUEUE = QueueSummary(mean_waiting=0, most_waiting=1, mean_batch=1)
LOG = {
    "result_scheduled_samples_per_sec": 50.0,
    "result_completed_samples_per_sec": 40.0,
    "result_query_count": 200,
    "result_overlatency_query_count": 50,
}


@pytest.mark.parametrize(("streamed", "good"), [({}, 30), ({"ttft_p50_ms": 1.0}, 40)])
def test_requests_within_their_limits_are_those_that_loadgen_counts(streamed, good):
    outcome = WorkerOutcome(
        "ok", queue=QUEUE, calibration={"median_sample_ns": 1e7}, token_latencies=streamed
    )
    record = reading.convert(record_json(cell(scenario="Server")), Record)
    found = figures.of_loadgen(LOG, record, outcome, FIGURES["Server"], 1)
    assert found.metrics["goodput_per_second"] == good
