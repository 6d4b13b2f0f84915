"""A scenario in ten lines, put into the table as a new one is; `python -m
tests.support.multi_stream PARENT REPLIES` is its worker.
"""

from __future__ import annotations

import sys

from formats.figures import Figure
from scenarios import table
from scenarios.worker import __main__ as worker
from scenarios.worker.answers import pack

ENTRY = table.Scenario(
    name="MultiStream",
    module="tests.support.multi_stream",
    measures="latency of eight samples",
    figure=Figure(
        name="latency_p99",
        unit="ms",
        higher_is_better=False,
        estimates={"result_99.00_percentile_per_query_latency_ns": "percentile"},
        divisor=1e6,
        one_query=False,
    ),
    counts=table.one_after_the_other,
    trace_bytes_a_sample=1024,
    one_sample_a_query=False,
)


def user_conf(job, calibration, in_flight):
    return {"target_latency": 8 * calibration["median_sample_ns"] / 1e6}


def least(job):
    return "one query"


def callbacks(sut, qsl, respond, job, started=None):
    def issue(ids, indices):
        respond(
            ids, pack(sut.to_host(sut.predict(qsl.batch(indices, len(ids)))), job.answer), indices
        )

    return issue, lambda: None


def drive(issue, indices):
    issue(list(range(len(indices))), indices)


if __name__ == "__main__":
    table.SCENARIOS["MultiStream"] = ENTRY
    worker.main(sys.argv)
