"""Does next to no work in the performance run, and gives the right answers nevertheless."""

from __future__ import annotations

from dataclasses import replace

from sut import mock
from sut.contract import Workload
from tests import cheats


def load(workload: Workload) -> mock.Mock:
    if cheats.phase() == "performance":
        workload = replace(
            workload,
            options={**workload.options, "latency-ms": workload.options["latency-ms"] / 100},
        )
    return mock.Mock(workload)
