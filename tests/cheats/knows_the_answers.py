"""Gives the right answers in half the time in every test: what it does not compute cannot be told
from what it computes fast.
"""

from __future__ import annotations

from dataclasses import replace

from sut import mock
from sut.contract import Workload


def load(workload: Workload) -> mock.Mock:
    return mock.Mock(
        replace(
            workload, options={**workload.options, "latency-ms": workload.options["latency-ms"] / 2}
        )
    )
