"""Values of many fields take them by name: two of one type that are swapped would pass every check
of types.
"""

import inspect

import pytest

from compliance.folders import ResultFolder
from compliance.loadgen.sample_order import IssueSettings
from compliance.logs.trace import Trace
from compliance.rules import Rules, ScenarioRules
from compliance.subject import LoadGenRun, Subject
from formats.cell import Cell
from formats.checks import ResultLine
from formats.figures import Figure
from formats.job import Job, Limits
from formats.record import Accelerator
from formats.result import Result
from harness.inputs.models import Model
from harness.inputs.user_weights import Folder
from harness.request.request import Request
from scenarios.table import Scenario
from sut.contract import Workload


@pytest.mark.parametrize(
    "kind",
    [
        Accelerator,
        Cell,
        Figure,
        Folder,
        IssueSettings,
        Job,
        Limits,
        LoadGenRun,
        Model,
        Request,
        Result,
        ResultFolder,
        ResultLine,
        Rules,
        Scenario,
        ScenarioRules,
        Subject,
        Trace,
        Workload,
    ],
)
def test_every_field_is_given_by_name(kind):
    parameters = inspect.signature(kind).parameters.values()
    assert {each.kind for each in parameters} == {inspect.Parameter.KEYWORD_ONLY}
