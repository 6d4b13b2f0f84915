"""The current round's rules, with what a test of seconds on a busy machine cannot meet made
easier.
"""

import msgspec
import pytest

from compliance import rules
from harness.request.request import _PACE, _Pace


def shortened():
    real = rules.load("v6.1")
    scenarios = {
        name: msgspec.structs.replace(s, min_duration_ms=300, least_count=64)
        for name, s in real.scenarios.items()
    }
    benchmarks = {
        name: msgspec.structs.replace(b, dataset_size=64, performance_sample_count=64)
        for name, b in real.benchmarks.items()
    }
    tests = {  # runs of 0.3 s differ in speed by more than any rule allows
        name: (
            test
            if test.tolerance is None
            else msgspec.structs.replace(test, tolerance=50.0, tolerance_single_stream=50.0)
        )
        for name, test in real.compliance_tests.items()
    }
    limits = msgspec.structs.replace(
        real.project_limits, trace_bytes={**real.project_limits.trace_bytes, "submission": 1 << 20}
    )
    return msgspec.structs.replace(
        real,
        scenarios=scenarios,
        benchmarks=benchmarks,
        compliance_tests=tests,
        project_limits=limits,
    )


def loosened(tolerance=0.8):
    """Runs of a second on a busy machine differ by more than the round allows; the cheats by many
    times.
    """
    real = rules.load()
    tests = {
        name: (
            c
            if c.tolerance is None
            else msgspec.structs.replace(c, tolerance=tolerance, tolerance_single_stream=tolerance)
        )
        for name, c in real.compliance_tests.items()
    }
    return msgspec.structs.replace(real, compliance_tests=tests)


@pytest.fixture
def short_round(monkeypatch):
    """The tests of --mode submission last a third of a second."""
    short = shortened()
    monkeypatch.setattr(rules, "load", lambda round="v6.1": short)
    monkeypatch.setitem(_PACE, "submission", _Pace(0.1, 3.0, 1 << 20))
