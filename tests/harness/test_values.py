"""Values of many fields take them by name: two of one type that are swapped would pass every check of types."""

import dataclasses

import pytest

from harness.cell import Cell
from harness.execution.machine import Accelerator
from harness.inputs.models import Model
from harness.plan import Request
from scenarios.table import Figure, Scenario
from scenarios.worker.job import Job, Limits
from sut.contract import Workload


@pytest.mark.parametrize("kind", [Accelerator, Cell, Figure, Job, Limits, Model, Request, Scenario, Workload])
def test_every_field_is_given_by_name(kind):
    assert all(field.kw_only for field in dataclasses.fields(kind))
