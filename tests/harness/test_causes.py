"""Every cause of an invalid result has its checks."""

from formats.result import CAUSES
from harness import result


def test_every_cause_has_its_checks():
    assert {*result._CAUSES, "loadgen", "overload", "audit"} == set(CAUSES)
