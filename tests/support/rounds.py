"""The current round's rules, with what a test of seconds on a busy machine cannot meet made
easier.
"""

import pytest
from msgspec.structs import replace

from compliance import rules
from harness.request.request import _PACE, _Pace


def shortened():
    easy = loosened(50.0)  # runs of 0.3 s differ in speed by more than any rule allows
    scenarios = {
        name: replace(each, min_duration_ms=300, least_count=64)
        for name, each in easy.scenarios.items()
    }
    benchmarks = {
        name: replace(each, dataset_size=64, performance_sample_count=64)
        for name, each in easy.benchmarks.items()
    }
    trace = {**easy.project_limits.trace_bytes, "submission": 1 << 20}
    limits = replace(easy.project_limits, trace_bytes=trace)
    return replace(easy, scenarios=scenarios, benchmarks=benchmarks, project_limits=limits)


def loosened(tolerance=0.8):
    """Runs of a second on a busy machine differ by more than the round allows; the cheats by many
    times.
    """
    real = rules.load()
    more = {"tolerance": tolerance, "tolerance_single_stream": tolerance}
    tests = {
        name: test if test.tolerance is None else replace(test, **more)
        for name, test in real.compliance_tests.items()
    }
    return replace(real, compliance_tests=tests)


def use(monkeypatch, of):
    """These rules are the round's, and tests of --mode submission last a third of a second."""
    monkeypatch.setattr(rules, "load", lambda round=rules.CURRENT: of)
    monkeypatch.setitem(_PACE, "submission", _Pace(0.1, 3.0, 1 << 20))


def use_benchmark(monkeypatch, name, metric, workload, **row):
    """The round has another workload of a metric, and other values in the row of a benchmark."""
    real = rules.load()
    benchmarks = {**real.benchmarks, name: replace(real.benchmarks[name], **row)}
    workloads = {**real.workloads, metric: workload}
    faked = replace(real, benchmarks=benchmarks, workloads=workloads)
    monkeypatch.setattr(rules, "load", lambda round=rules.CURRENT: faked)


@pytest.fixture
def short_round(monkeypatch):
    """The tests of --mode submission last a third of a second."""
    use(monkeypatch, shortened())
