"""Gets hold of LoadGen in its own process and reports the first answers of each test twice."""

from __future__ import annotations

from typing import Any

import mlperf_loadgen

from sut import mock
from sut.contract import Workload
from tests import cheats


def load(workload: Workload) -> mock.Mock:
    complete, tests = mlperf_loadgen.QuerySamplesComplete, set[str]()

    def twice(responses: list[Any]) -> None:
        complete(responses)
        if cheats.phase() not in tests:
            complete(responses)
        tests.add(cheats.phase())

    mlperf_loadgen.QuerySamplesComplete = twice
    return mock.Mock(workload)
