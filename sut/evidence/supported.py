"""Refuses a workload that a SUT or its device cannot run."""

from __future__ import annotations

from collections.abc import Sequence

from sut.contract import Unsupported, Workload
from sut.devices import DEVICES


def check(workload: Workload, sut: str, executions: Sequence[str]) -> None:
    """Raises Unsupported if the SUT has no such execution, or the device no such precision."""
    if workload.execution not in executions:
        raise Unsupported(
            f"execution {workload.execution} is not written for {sut}; there is"
            f" {' and '.join(executions)}"
        )
    if reason := DEVICES[workload.device].lacks.get(workload.precision):
        raise Unsupported(f"--precision {workload.precision}: {reason}")
