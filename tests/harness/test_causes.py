"""Every cause of an invalid result has its checks."""

from formats.result import CAUSES
from results import derive


def test_every_cause_has_its_checks():
    assert {*derive.CAUSES, "loadgen", "overload", "audit"} == set(CAUSES)
