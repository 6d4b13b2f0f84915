"""Gets hold of LoadGen in its own process and reports its first answers twice."""

from __future__ import annotations

from typing import Any

import mlperf_loadgen

from sut import mock
from sut.contract import Workload


def load(workload: Workload) -> mock.Mock:
    complete, calls = mlperf_loadgen.QuerySamplesComplete, []

    def twice(responses: list[Any]) -> None:
        complete(responses)
        if not calls:
            complete(responses)
        calls.append(1)

    mlperf_loadgen.QuerySamplesComplete = twice
    return mock.Mock(workload)
